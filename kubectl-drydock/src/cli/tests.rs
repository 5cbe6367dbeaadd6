use clap::CommandFactory as _;

use super::*;

fn words(line: &[&str]) -> Vec<OsString> {
    std::iter::once(&"kubectl-drydock").chain(line).map(OsString::from).collect()
}

fn run_args(line: &[&str]) -> RunArgs {
    match Cli::try_parse_from(words(line)).unwrap().verb {
        Verb::Run(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_follows_the_dashes_is_untouched() {
    let given = ["-x", "--", "-n", "a b", "$(id)", "\"'\\", "", "--help", "é", "*"];
    let mut line = vec!["run", "ws/shop", "-n", "team", "--"];
    line.extend(given);
    let args = run_args(&line);
    assert_eq!(args.command, given.map(OsString::from));
    assert_eq!(args.place.place.as_deref(), Some("ws/shop"));
}

#[test]
fn flags_stand_before_and_after_the_verb() {
    let before = Cli::try_parse_from(words(&["-n", "team", "-o", "json", "run", "--", "x"])).unwrap();
    let after = Cli::try_parse_from(words(&["run", "-n", "team", "-o", "json", "--", "x"])).unwrap();
    for cli in [before, after] {
        assert_eq!(cli.global.namespace.as_deref(), Some("team"));
        assert_eq!(cli.global.output, Format::Json);
        assert!(cli.global.wait);
    }
    let cli =
        Cli::try_parse_from(words(&["run", "--wait=false", "--as-group", "a", "--as-group", "b", "--", "x"]))
            .unwrap();
    assert!(!cli.global.wait);
    assert_eq!(cli.global.impersonate_groups, ["a", "b"]);
}

#[test]
fn wrong_usage_of_run_is_never_mistaken_for_the_commands_code() {
    for (line, code) in [
        (&["run", "--nope"][..], exit::OURS),
        (&["-n", "x", "run", "--nope"], exit::OURS),
        (&["explain", "--nope"], exit::USAGE),
        (&["logs"], exit::USAGE),
        (&["nope", "--", "run"], exit::USAGE),
    ] {
        let args = words(line);
        assert!(Cli::try_parse_from(&args).is_err(), "{line:?}");
        assert_eq!(usage_code(&args), code, "{line:?}");
    }
}

/// `DRYDOCK_UPDATE_SNAPSHOTS=1 cargo test -p kubectl-drydock` writes them anew.
#[test]
fn help_is_as_recorded() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots");
    let update = std::env::var_os("DRYDOCK_UPDATE_SNAPSHOTS").is_some();
    let verbs: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let mut wanted = vec![("help".to_owned(), vec!["--help".to_owned()])];
    wanted.extend(verbs.into_iter().map(|verb| (format!("help-{verb}"), vec![verb, "--help".to_owned()])));
    for (name, line) in wanted {
        let args: Vec<OsString> =
            std::iter::once("kubectl-drydock".into()).chain(line.into_iter().map(Into::into)).collect();
        let command = Cli::command().term_width(110);
        let help = command.try_get_matches_from(args).unwrap_err();
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        let text = help.render().to_string();
        assert!(!text.contains('\u{1b}'), "{name} has escapes");
        let file = folder.join(format!("{name}.txt"));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, recorded, "{} differs: DRYDOCK_UPDATE_SNAPSHOTS=1 writes it anew", file.display());
    }
}
