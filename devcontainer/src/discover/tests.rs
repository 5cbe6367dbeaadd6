use proptest::prelude::*;

use std::collections::BTreeMap;

use super::*;

fn file(path: &str) -> Entry<'_> {
    Entry { path, kind: EntryKind::File }
}

fn link<'a>(path: &'a str, target: &'a str) -> Entry<'a> {
    Entry { path, kind: EntryKind::Symlink { target } }
}

fn found(entries: &[Entry<'_>]) -> Discovery {
    discover(entries.iter().copied(), &Options::default())
}

fn paths(entries: &[Entry<'_>]) -> Vec<String> {
    found(entries).configurations.into_iter().map(|c| c.config_path).collect()
}

fn place(directory: &str, form: Form, name: Option<&str>) -> Place {
    Place { directory: directory.into(), form, config_name: name.map(str::to_owned) }
}

#[test]
fn places_are_those_of_the_specification() {
    for (path, expected) in [
        (".devcontainer/devcontainer.json", Some(place("", Form::Folder, None))),
        (".devcontainer.json", Some(place("", Form::DotFile, None))),
        (".devcontainer/web/devcontainer.json", Some(place("", Form::Named, Some("web")))),
        ("a/b/.devcontainer.json", Some(place("a/b", Form::DotFile, None))),
        ("a/b/.devcontainer/devcontainer.json", Some(place("a/b", Form::Folder, None))),
        ("a/b/.devcontainer/web/devcontainer.json", Some(place("a/b", Form::Named, Some("web")))),
        (
            ".devcontainer/.devcontainer/devcontainer.json",
            Some(place("", Form::Named, Some(".devcontainer"))),
        ),
        (".devcontainer/a/b/devcontainer.json", None),
        (".devcontainer/a/.devcontainer.json", None),
        (".devcontainer/a/.devcontainer/devcontainer.json", None),
        ("devcontainer.json", None),
        ("a/devcontainer.json", None),
        (".devcontainer/dev.json", None),
        (".devcontainer", None),
        (".Devcontainer/devcontainer.json", None),
        ("../.devcontainer.json", None),
        ("/.devcontainer.json", None),
        (".devcontainer/../devcontainer.json", None),
        ("", None),
    ] {
        assert_eq!(Place::of(path), expected, "{path:?}");
        if let Some(place) = expected {
            assert_eq!(place.config_path(), path);
        }
    }
}

#[test]
fn b003_no_configuration_is_an_empty_answer() {
    assert_eq!(found(&[]), Discovery::default());
    assert_eq!(found(&[file("README.md"), file(".devcontainer/Dockerfile")]), Discovery::default());
}

#[test]
fn b004_named_configurations_in_order_of_precedence() {
    let named = [
        file(".devcontainer/web/devcontainer.json"),
        file(".devcontainer/api/devcontainer.json"),
        file(".devcontainer/a/b/devcontainer.json"),
    ];
    assert_eq!(paths(&named), [".devcontainer/api/devcontainer.json", ".devcontainer/web/devcontainer.json"]);
    let names: Vec<_> = found(&named).configurations.into_iter().map(|c| c.place.config_name).collect();
    assert_eq!(names, [Some("api".to_owned()), Some("web".to_owned())]);

    let all = [&named[..], &[file(".devcontainer.json"), file(".devcontainer/devcontainer.json")]].concat();
    let expected = [
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".devcontainer/api/devcontainer.json",
        ".devcontainer/web/devcontainer.json",
    ];
    assert_eq!(paths(&all), expected);
    assert_eq!(paths(&all.iter().rev().copied().collect::<Vec<_>>()), expected);
    let discovery = found(&all);
    let web = discovery.in_directory("").find(|c| c.place.config_name.as_deref() == Some("web")).unwrap();
    assert_eq!(web.config_path, expected[3]);
}

#[test]
fn any_folder_may_have_one_and_a_folder_comes_before_those_in_it() {
    let entries = [
        file("b/.devcontainer.json"),
        file("a-b/.devcontainer.json"),
        file("a/z/.devcontainer.json"),
        file("a/.devcontainer.json"),
        file(".devcontainer.json"),
    ];
    let directories: Vec<_> = found(&entries).configurations.into_iter().map(|c| c.place.directory).collect();
    assert_eq!(directories, ["", "a", "a/z", "a-b", "b"]);
}

#[test]
fn b005_dependencies_aren_t_looked_into_and_the_walk_is_bounded() {
    let modules: Vec<String> = (0..60_000)
        .map(|i| match i % 20 {
            0 => format!("node_modules/p{i}/.devcontainer/devcontainer.json"),
            _ => format!("node_modules/p{i}/index.js"),
        })
        .collect();
    let mut entries: Vec<Entry<'_>> = modules.iter().map(|path| file(path)).collect();
    entries.extend([link("loop", "."), link("services/loop", ".."), file("services/api/.devcontainer.json")]);
    let visited = std::cell::Cell::new(0_usize);
    let counted = entries.iter().copied().inspect(|_| visited.set(visited.get() + 1));
    let discovery = discover(counted, &Options::default());
    assert_eq!(discovery.configurations.len(), 1);
    assert_eq!(discovery.configurations[0].config_path, "services/api/.devcontainer.json");
    assert!(visited.get() <= 4 * entries.len(), "{}", visited.get());

    let options = Options::default();
    for (folder, expected) in [
        ("", true),
        ("services", true),
        ("node_modules", false),
        ("services/node_modules/x", false),
        (".devcontainer", true),
        ("a/.devcontainer/vendor", true),
        ("a/.devcontainer/vendor/x", false),
        (&"a/".repeat(16)[..31], true),
        (&"a/".repeat(17)[..33], false),
    ] {
        assert_eq!(options.descends_into(folder), expected, "{folder:?}");
    }
}

#[test]
fn b005_more_than_the_limit_keeps_the_nearest_and_says_how_many_more() {
    let many: Vec<String> = (0..700).map(|i| format!("a/x{i:03}/.devcontainer.json")).collect();
    let mut entries: Vec<Entry<'_>> = many.iter().map(|path| file(path)).collect();
    entries.push(file("z/.devcontainer.json"));
    let discovery = found(&entries);
    assert_eq!((discovery.configurations.len(), discovery.omitted), (MAX_CONFIGURATIONS, 201));
    assert_eq!(discovery.configurations.last().unwrap().config_path, "z/.devcontainer.json");
}

#[test]
fn every_built_in_folder_is_left_out_but_as_a_name_within_devcontainer() {
    for folder in EXCLUDED_FOLDERS {
        let inside = format!("a/{folder}/b/.devcontainer.json");
        assert_eq!(paths(&[file(&inside)]), [""; 0], "{folder}");
        let named = format!(".devcontainer/{folder}/devcontainer.json");
        assert_eq!(paths(&[file(&named)]), [named.as_str()], "{folder}");
    }
}

#[test]
fn globs_of_the_user() {
    let tree = [
        "a/fixtures/x/.devcontainer.json",
        "b/.devcontainer.json",
        "b/c/.devcontainer/devcontainer.json",
        ".devcontainer/old/devcontainer.json",
    ];
    let entries: Vec<Entry<'_>> = tree.iter().map(|path| file(path)).collect();
    for (glob, expected) in [
        ("fixtures", vec![3, 1, 2]),
        ("fix*/", vec![3, 1, 2]),
        ("/b", vec![3, 0]),
        ("b/*", vec![3, 0]),
        ("b/**", vec![3, 0]),
        ("b/c", vec![3, 0, 1]),
        ("**/c", vec![3, 0, 1]),
        ("c/x", vec![3, 0, 1, 2]),
        ("old", vec![0, 1, 2]),
        (".devcontainer/old", vec![0, 1, 2]),
        ("{old,fixtures}", vec![1, 2]),
    ] {
        let options = Options { exclusions: Exclusions::new(&[glob]).unwrap(), ..Options::default() };
        let configurations = discover(entries.iter().copied(), &options).configurations;
        let left: Vec<_> = configurations.into_iter().map(|c| c.config_path).collect();
        let expected: Vec<_> = expected.into_iter().map(|i: usize| tree[i]).collect();
        assert_eq!(left, expected, "{glob:?}");
    }
}

#[test]
fn a_glob_that_isn_t_one_is_named() {
    let error = Exclusions::new(&["ok", "a[b"]).unwrap_err();
    assert_eq!(error.to_string(), "\"a[b\" isn't a glob: unclosed character class; missing ']'");
    assert!(matches!(Exclusions::new(&["/"]), Err(ExclusionError::Invalid { .. })));
    assert!(matches!(Exclusions::new(&["x".repeat(257)]), Err(ExclusionError::TooLong { .. })));
    assert!(matches!(Exclusions::new(&vec!["x"; 101]), Err(ExclusionError::TooMany { count: 101 })));
}

#[test]
fn depth_is_counted_from_the_root() {
    let entries = [
        file(".devcontainer.json"),
        file("a/.devcontainer.json"),
        file("a/b/.devcontainer/x/devcontainer.json"),
    ];
    for (max_depth, expected) in [(0, 1), (1, 2), (2, 3)] {
        let options = Options { max_depth, ..Options::default() };
        assert_eq!(discover(entries.iter().copied(), &options).configurations.len(), expected);
    }
}

#[test]
fn b005_links_of_a_hostile_tree_cost_no_more_than_their_number() {
    let links: Vec<String> = (0..20_000).map(|i| format!("p{i}/.devcontainer")).collect();
    let names: Vec<String> = (0..20_000).map(|i| format!("cfg/n{i}/devcontainer.json")).collect();
    let chain: Vec<(String, String)> = (0..2000)
        .map(|i| {
            (
                format!("c{i}/.devcontainer.json"),
                format!("../{}c{}/.devcontainer.json", "x/../".repeat(200), i + 1),
            )
        })
        .collect();
    let mut entries: Vec<Entry<'_>> = names.iter().map(|path| file(path)).collect();
    entries.extend(links.iter().map(|path| link(path, "../cfg")));
    entries.extend(chain.iter().map(|(path, target)| link(path, target)));
    let discovery = found(&entries);
    assert_eq!(discovery.configurations.len(), MAX_CONFIGURATIONS);
    assert!(discovery.omitted > 19_000, "{}", discovery.omitted);
    assert_eq!(found(&entries.into_iter().rev().collect::<Vec<_>>()), discovery);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn b006_a_link_inside_is_followed() {
    let linked = |target: &str| ConfigFile::Linked(target.to_owned());
    for (entries, expected) in [
        (vec![link(".devcontainer.json", "cfg/dev.json"), file("cfg/dev.json")], linked("cfg/dev.json")),
        (vec![link("a/.devcontainer.json", "../cfg/dev.json"), file("cfg/dev.json")], linked("cfg/dev.json")),
        (vec![link("a/.devcontainer.json", "x"), link("a/x", "./y"), file("a/y")], linked("a/y")),
        (
            vec![link(".devcontainer.json", "l/dev.json"), link("l", "a/b"), file("a/b/dev.json")],
            linked("a/b/dev.json"),
        ),
        (
            vec![link(".devcontainer.json", "l/../dev.json"), link("l", "a/b"), file("a/dev.json")],
            linked("a/dev.json"),
        ),
        (vec![link(".devcontainer", "cfg"), file("cfg/devcontainer.json")], linked("cfg/devcontainer.json")),
        (vec![link(".devcontainer", "."), file("devcontainer.json")], linked("devcontainer.json")),
        (
            vec![link("a/.devcontainer", "../cfg"), file("cfg/web/devcontainer.json")],
            linked("cfg/web/devcontainer.json"),
        ),
        (
            vec![link(".devcontainer/web", "../cfg"), file("cfg/devcontainer.json")],
            linked("cfg/devcontainer.json"),
        ),
        (
            vec![link(".devcontainer", "c"), link("c/devcontainer.json", "d.json"), file("c/d.json")],
            linked("c/d.json"),
        ),
    ] {
        let configurations = found(&entries).configurations;
        assert_eq!(configurations.len(), 1, "{entries:?}");
        assert_eq!(configurations[0].file, expected, "{entries:?}");
        assert_eq!(configurations[0].problem(), None);
    }
}

#[test]
fn b006_a_link_that_leaves_is_refused_and_nothing_of_its_target_is_told() {
    for target in ["../../etc/passwd", "/etc/passwd", "a/../../x", "..", ".git/config", "sub/.git/config"] {
        let discovery =
            found(&[link(".devcontainer.json", target), file(".git/config"), file("sub/.git/config")]);
        let configuration = &discovery.configurations[0];
        assert_eq!(configuration.file, ConfigFile::Refused(Refusal::PathEscapesWorkspace), "{target:?}");
        assert_eq!(configuration.read_path(), None);
        let problem = configuration.problem().unwrap();
        assert_eq!(problem.reason, Reason::PathEscapesWorkspace);
        assert!(!serde_json::to_string(&problem).unwrap().contains("passwd"));
        assert_eq!(problem.to_string().lines().count(), 1);
    }
    let folder = found(&[link("a/.devcontainer", "../../x")]);
    assert_eq!(folder.configurations[0].config_path, "a/.devcontainer/devcontainer.json");
    assert_eq!(folder.configurations[0].file, ConfigFile::Refused(Refusal::PathEscapesWorkspace));
}

#[test]
fn b006_a_link_to_nothing_to_a_folder_or_to_itself() {
    for (entries, refusal) in [
        (vec![link(".devcontainer.json", "gone.json")], Refusal::LinkTargetMissing),
        (vec![link(".devcontainer.json", "cfg"), file("cfg/x")], Refusal::NotAFile),
        (vec![link(".devcontainer.json", "."), file("cfg/x")], Refusal::NotAFile),
        (vec![link(".devcontainer.json", ".devcontainer.json")], Refusal::LinkCycle),
        (vec![link(".devcontainer.json", "b"), link("b", ".devcontainer.json")], Refusal::LinkCycle),
        (vec![link(".devcontainer", ".devcontainer")], Refusal::LinkCycle),
    ] {
        let configurations = found(&entries).configurations;
        assert_eq!(configurations.len(), 1, "{entries:?}");
        assert_eq!(configurations[0].file, ConfigFile::Refused(refusal), "{entries:?}");
    }
    assert_eq!(paths(&[link(".devcontainer", "empty"), file("empty/x")]), [""; 0]);
    assert_eq!(paths(&[link(".devcontainer/Dockerfile", "/etc/Dockerfile")]), [""; 0]);
    let directory = Entry { path: ".devcontainer.json", kind: EntryKind::Directory };
    assert_eq!(paths(&[directory]), [""; 0]);
}

#[test]
fn a_long_path_is_refused_not_lost() {
    let long = format!("{}/.devcontainer.json", "x".repeat(MAX_PATH_BYTES));
    let discovery = found(&[file(&long)]);
    assert_eq!(discovery.configurations[0].file, ConfigFile::Refused(Refusal::PathTooLong));
}

proptest! {
    #[test]
    fn any_tree_has_an_answer_inside_it_that_its_order_doesn_t_change(
        tree in proptest::collection::vec((path(), proptest::option::of(target())), 0..12),
        seed in any::<prop::sample::Index>(),
    ) {
        let unique: BTreeMap<String, Option<String>> = tree.into_iter().collect();
        let mut entries: Vec<Entry<'_>> = unique
            .iter()
            .map(|(path, target)| target.as_deref().map_or_else(|| file(path), |target| link(path, target)))
            .collect();
        let discovery = found(&entries);
        if !entries.is_empty() {
            let middle = seed.index(entries.len());
            entries.rotate_left(middle);
        }
        prop_assert_eq!(&found(&entries), &discovery);
        for configuration in &discovery.configurations {
            let place = Place::of(&configuration.config_path);
            prop_assert_eq!(place.as_ref(), Some(&configuration.place));
            if let Some(read) = configuration.read_path() {
                prop_assert!(unique.get(read).is_some_and(Option::is_none), "{}", read);
            }
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        Just("a"),
        Just("b"),
        Just(".devcontainer"),
        Just(".devcontainer.json"),
        Just("devcontainer.json")
    ];
    proptest::collection::vec(component, 1..5).prop_map(|components| components.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        path(),
        path().prop_map(|path| format!("../{path}")),
        Just(".".to_owned()),
        Just("/a".to_owned())
    ]
}
