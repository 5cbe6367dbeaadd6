use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::diagnostic::Severity;

const FILE: &str = ".devcontainer/devcontainer.json";

fn usable(text: &str) -> Config {
    let reading = parse(FILE, text.as_bytes());
    assert!(reading.config.is_some(), "{:#?}", reading.diagnostics);
    reading.config.unwrap()
}

/// Reason, pointer, line and column of each diagnostic.
fn told(text: &str) -> Vec<(Reason, String, u32, u32)> {
    let place = |d: &Diagnostic| d.position.map_or((0, 0), |p| (p.line, p.column));
    let told = |d: &Diagnostic| (d.reason, d.pointer.clone(), place(d).0, place(d).1);
    parse(FILE, text.as_bytes()).diagnostics.iter().map(told).collect()
}

fn errors(text: &str) -> Vec<String> {
    let reading = parse(FILE, text.as_bytes());
    assert_eq!(reading.config.is_none(), has_errors(&reading.diagnostics));
    reading.diagnostics.iter().filter(|d| d.severity == Severity::Error).map(ToString::to_string).collect()
}

/// One error about a member of an image configuration, without file and fix.
fn message(member: &str) -> String {
    let found = errors(&format!("{{\"image\":\"deb\",\n{member}}}"));
    assert_eq!(found.len(), 1, "{member}: {found:?}");
    found[0].trim_start_matches(FILE).to_owned()
}

#[test]
fn every_property_of_the_specification() {
    let config = usable(include_str!("../../testdata/complete.jsonc"));
    let expected: Value =
        serde_json::from_str(include_str!("../../testdata/complete.expected.json")).unwrap();
    assert_eq!(serde_json::to_value(&config).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Config>(expected).unwrap(), config);
}

#[test]
fn b001_comments_and_trailing_commas_change_nothing() {
    let dressed = "{ // c\n\"image\":\"deb\", /* x */ \"containerEnv\":{\"A\":\"1\",}, }";
    assert_eq!(usable(dressed), usable("{\"image\":\"deb\",\"containerEnv\":{\"A\":\"1\"}}"));
}

#[test]
fn b003_an_empty_file_and_null_are_errors_that_name_the_file() {
    for (bytes, reason) in [("", Reason::Empty), ("null", Reason::NotAnObject), ("[]", Reason::NotAnObject)] {
        let reading = parse("a/.devcontainer.json", bytes.as_bytes());
        assert_eq!((&reading.document, &reading.config), (&None, &None));
        assert_eq!((reading.diagnostics.len(), reading.diagnostics[0].reason), (1, reason));
        assert_eq!(reading.diagnostics[0].file, "a/.devcontainer.json");
    }
    assert_eq!(told("{}"), [(Reason::NoSource, String::new(), 1, 1)]);
    assert_eq!(told("{\"name\":\"x\",\"image\":null}"), [(Reason::NoSource, String::new(), 1, 1)]);
}

#[test]
fn the_source_is_told_apart_as_the_reference_tool_does() {
    let kind = |text: &str| match usable(text).source {
        Source::Image { image } => format!("image {image}"),
        Source::Dockerfile(build) => format!("dockerfile {} {:?}", build.dockerfile, build.context),
        Source::Compose { files, service, .. } => format!("compose {files:?} {service}"),
    };
    assert_eq!(kind(r#"{"image":"deb"}"#), "image deb");
    assert_eq!(kind(r#"{"image":"deb","build":{"args":{"A":"1"}}}"#), "image deb");
    assert_eq!(kind(r#"{"image":"deb","build":{"dockerfile":"D"}}"#), "dockerfile D None");
    assert_eq!(kind(r#"{"dockerFile":"D","context":".."}"#), "dockerfile D Some(\"..\")");
    assert_eq!(
        kind(r#"{"dockerFile":"D","context":"..","build":{"context":"."}}"#),
        "dockerfile D Some(\".\")"
    );
    assert_eq!(kind(r#"{"dockerComposeFile":"c.yml","service":"s"}"#), "compose [\"c.yml\"] s");
    assert_eq!(kind(r#"{"dockerComposeFile":[],"service":"s"}"#), "compose [] s");
    assert_eq!(kind(r#"{"image":"deb","dockerComposeFile":"c","service":"s"}"#), "image deb");
    assert_eq!(
        told("{\"image\":\"deb\",\n\"dockerFile\":\"D\"}"),
        [(Reason::ConflictingProperties, "/image".to_owned(), 1, 10)]
    );
    assert_eq!(told(r#"{"dockerComposeFile":"c"}"#)[0].0, Reason::MissingProperty);
}

#[test]
fn paths_stay_in_the_workspace() {
    for text in [
        r#"{"build":{"dockerfile":"../../Dockerfile"}}"#,
        r#"{"build":{"dockerfile":"/Dockerfile"}}"#,
        r#"{"build":{"dockerfile":"D","context":"../.."}}"#,
        r#"{"dockerComposeFile":["../../c.yml"],"service":"s"}"#,
    ] {
        assert_eq!(told(text)[0].0, Reason::PathEscapesWorkspace, "{text}");
        assert_eq!(
            parse("a/.devcontainer/devcontainer.json", text.as_bytes()).config.is_none(),
            text.contains(":\"/")
        );
    }
    assert!(parse(FILE, br#"{"build":{"dockerfile":"../Dockerfile","context":".."}}"#).config.is_some());
    assert!(parse(FILE, br#"{"build":{"dockerfile":"${localEnv:D:../../x}"}}"#).config.is_some());
}

#[test]
fn b010_mounts_in_both_forms() {
    let config = usable(
        r#"{"image":"deb","mounts":["type=volume,source=c,target=/c,readonly",
            {"type":"volume","source":"d","target":"/d"},"src=e,dst=/e,type=volume",
            {"type":"bind,readonly","source":"/a,b","target":"/f"}, {"type":"tmpfs","target":"/g"}]}"#,
    );
    let seen: Vec<_> =
        config.mounts.iter().map(|m| (m.mount_type, m.source.as_deref(), &*m.target, m.read_only)).collect();
    assert_eq!(
        seen,
        [
            (MountType::Volume, Some("c"), "/c", true),
            (MountType::Volume, Some("d"), "/d", false),
            (MountType::Volume, Some("e"), "/e", false),
            (MountType::Bind, Some("/a,b"), "/f", true),
            (MountType::Tmpfs, None, "/g", false),
        ]
    );
    assert_eq!(
        message(r#""workspaceMount":"sorce=x,target""#),
        ":2:18: /workspaceMount: \"sorce\" isn't a key of a mount (write type=volume,source=NAME,target=/PATH)"
    );
}

#[test]
fn mount_texts() {
    let parsed = |text: &str| Mount::parse(text).map_err(|error| error.to_string());
    let options = |text: &str| serde_json::to_value(parsed(text).unwrap().options).unwrap();
    assert_eq!(parsed("target=/x").unwrap().mount_type, MountType::Volume);
    assert_eq!(parsed("\"source=a,\"\"b\",target=/x").unwrap().source.unwrap(), "a,\"b");
    assert_eq!(parsed("source=a=b,destination=/x,ro=0").unwrap().source.unwrap(), "a=b");
    assert!(parsed("source=a,target=/x,ReadOnly=true").unwrap().read_only);
    assert_eq!(
        options("type=tmpfs,target=/x,tmpfs-size=1m,volume-nocopy"),
        json!({"tmpfs-size": "1m", "volume-nocopy": ""})
    );
    for (text, message) in [
        ("", "\"\" isn't a key of a mount"),
        ("source=a", "the mount has no target"),
        ("target=", "the mount has no target"),
        ("target", "\"target\" has no value"),
        ("target=x", "the target \"x\" isn't an absolute path"),
        ("type=npipe,target=/x", "\"npipe\" isn't a type of mount"),
        ("type=bind,target=/x", "a mount of type bind needs a source"),
        ("target=/x,readonly=yes", "\"yes\" is neither true nor false"),
        ("\"target=/x", "a quote isn't closed"),
        ("target=/x,,source=a", "\"\" isn't a key of a mount"),
    ] {
        assert_eq!(parsed(text).unwrap_err(), message, "{text:?}");
    }
}

#[test]
fn what_needs_its_variables_is_judged_once_they_are_replaced() {
    let text = br#"{"image":"${localEnv:I}","mounts":["${localEnv:M}"],"forwardPorts":["${localEnv:P}"],"workspaceFolder":"${localEnv:W}"}"#;
    let reading = parse(FILE, text);
    let config = reading.config.unwrap();
    assert_eq!((config.mounts.len(), config.forward_ports.len()), (0, 0));
    assert!(reading.diagnostics.iter().all(|d| d.reason == Reason::UnresolvedVariable));
    let document = reading.document.unwrap();
    let replaced = document.with_value(document.value().clone(), true);
    let (config, diagnostics) = read(FILE, &replaced);
    assert_eq!(config, None);
    let reasons: Vec<_> = diagnostics.iter().map(|d| d.reason).collect();
    assert_eq!(reasons, [Reason::InvalidMount, Reason::InvalidValue, Reason::InvalidValue]);
}

#[test]
fn b011_a_local_feature_without_its_dot() {
    let reading = parse(FILE, b"{\"image\":\"deb\",\n \"features\":{\"myfeat\":{}}}");
    assert_eq!(reading.diagnostics.len(), 1);
    assert_eq!(
        reading.diagnostics[0].to_string(),
        ".devcontainer/devcontainer.json:2:14: /features/myfeat: the feature \"myfeat\" can't be resolved: \
         it is neither a path nor a registry reference (write \"./myfeat\" for a folder beside this file, \
         or REGISTRY/NAMESPACE/ID:VERSION)"
    );
    assert_eq!(reading.config, None);
}

#[test]
fn b011_a_local_feature_lies_in_the_folder_of_its_configuration() {
    let kind = |file: &str, reference: &str| {
        let reading =
            parse(file, json!({"image": "deb", "features": {reference: {}}}).to_string().as_bytes());
        match reading.config {
            Some(config) => Ok(config.features[0].kind.clone()),
            None => Err(reading.diagnostics[0].reason),
        }
    };
    let local = |path: &str| Ok(FeatureKind::Local { path: path.to_owned() });
    let named = "a/.devcontainer/web/devcontainer.json";
    assert_eq!(kind(FILE, "./myfeat"), local(".devcontainer/myfeat"));
    assert_eq!(kind(named, "../myfeat"), local("a/.devcontainer/myfeat"));
    assert_eq!(kind("a/.devcontainer.json", "./.devcontainer/x"), local("a/.devcontainer/x"));
    for (file, reference) in [
        (FILE, "./../outside"),
        (FILE, "../outside"),
        (FILE, "./"),
        (FILE, "/abs"),
        (FILE, "../../outside"),
        (named, "../../../.devcontainer/x"),
        ("a/.devcontainer.json", "./x"),
    ] {
        assert_eq!(kind(file, reference), Err(Reason::PathEscapesWorkspace), "{reference}");
    }
    assert_eq!(kind(FILE, "ghcr.io/devcontainers/features/go:1"), Ok(FeatureKind::Registry));
    assert_eq!(kind(FILE, "https://h/devcontainer-feature-x.tgz"), Ok(FeatureKind::Tarball));
    assert_eq!(kind(FILE, "http://h/devcontainer-feature-x.tgz"), Err(Reason::UnresolvableFeature));
    assert_eq!(kind(FILE, "golang"), Ok(FeatureKind::Legacy));
    assert_eq!(kind(FILE, "fish"), Err(Reason::UnresolvableFeature));
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn wrong_types_and_values_are_told_with_their_place() {
    for (member, expected) in [
        (
            r#""init":"true""#,
            ":2:8: /init: expected true or false, found a string (write true without quotes)",
        ),
        (
            r#""runArgs":"--init""#,
            ":2:11: /runArgs: expected an array of strings, found a string (write [\"--init\"])",
        ),
        (r#""capAdd":["A",1]"#, ":2:15: /capAdd/1: expected a string, found a number"),
        (r#""containerEnv":[]"#, ":2:16: /containerEnv: expected an object, found an array"),
        (r#""containerEnv":{"A":{}}"#, ":2:21: /containerEnv/A: expected a string, found an object"),
        (
            r#""containerEnv":{"A=B":""}"#,
            ":2:17: /containerEnv/A=B: \"A=B\" isn't a name of an environment variable (write a name without =)",
        ),
        (r#""features":["x"]"#, ":2:12: /features: expected an object, found an array"),
        (r#""features":{"./x":[]}"#, ":2:19: /features/.~1x: expected an object of options, found an array"),
        (
            r#""userEnvProbe":"login""#,
            ":2:16: /userEnvProbe: \"login\" isn't a value of userEnvProbe \
             (write one of none, loginShell, interactiveShell, loginInteractiveShell)",
        ),
        (
            r#""waitFor":"postAttachCommand""#,
            ":2:11: /waitFor: \"postAttachCommand\" isn't a value of waitFor (write one of initializeCommand, \
             onCreateCommand, updateContentCommand, postCreateCommand, postStartCommand)",
        ),
        (
            r#""postStartCommand":1"#,
            ":2:20: /postStartCommand: expected a string, an array of strings or an object, found a number",
        ),
        (
            r#""postStartCommand":{"a":{}}"#,
            ":2:25: /postStartCommand/a: expected a string or an array of strings, found an object",
        ),
        (
            r#""forwardPorts":3000"#,
            ":2:16: /forwardPorts: expected an array of ports, found a number (write [3000])",
        ),
        (
            r#""forwardPorts":[0]"#,
            ":2:17: /forwardPorts/0: \"0\" isn't a port (write a number from 1 to 65535, or \"HOST:PORT\")",
        ),
        (
            r#""hostRequirements":{"memory":"8GB"}"#,
            ":2:30: /hostRequirements/memory: \"8GB\" isn't a number of bytes (write digits and kb, mb, gb or tb, such as 8gb)",
        ),
        (
            r#""workspaceFolder":"app""#,
            ":2:19: /workspaceFolder: expected an absolute path (write an absolute path, such as /workspaces/app)",
        ),
        (r#""mounts":{}"#, ":2:10: /mounts: expected an array of mounts, found an object"),
        (r#""mounts":[1]"#, ":2:11: /mounts/0: expected a string or an object, found a number"),
    ] {
        assert_eq!(message(member), expected, "{member}");
    }
}

#[test]
fn several_mistakes_are_told_at_once_in_order_of_their_place() {
    let told = told("{\"init\":1,\n\"remoteUser\":2,\n\"image\":3}");
    let lines: Vec<_> = told.iter().map(|(_, pointer, line, _)| (pointer.as_str(), *line)).collect();
    assert_eq!(lines, [("/image", 3)], "without a source nothing else can be judged: {told:?}");
    let text = "{\"init\":1,\n\"remoteUser\":2,\n\"image\":\"deb\"}";
    assert_eq!(errors(text).len(), 2);
    assert!(errors(text)[0].contains("/init"));
}

#[test]
fn hints_for_tools_cost_a_warning_only() {
    for member in [
        r#""portsAttributes":{"3000":{"onAutoForward":"shout"}}"#,
        r#""portsAttributes":[]"#,
        r#""otherPortsAttributes":{"label":1}"#,
        r#""secrets":{"a-b":{}}"#,
        r#""name":1"#,
        r#""shutdownAction":"explode""#,
        r#""hostRequirements":{"gpu":"yes"}"#,
        r#""containerEnv":{"A":1}"#,
        r#""features":{"node":"18"}"#,
    ] {
        let text = format!("{{\"image\":\"deb\",{member}}}");
        let reading = parse(FILE, text.as_bytes());
        assert!(reading.config.is_some(), "{member}: {:?}", reading.diagnostics);
        assert_eq!(reading.diagnostics.len(), 1, "{member}: {:?}", reading.diagnostics);
    }
}

#[test]
fn null_is_absent_and_in_the_remote_environment_it_unsets() {
    let members: Map<String, Value> =
        KNOWN_PROPERTIES.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    let mut nulls = Value::Object(members);
    nulls["image"] = "deb".into();
    assert_eq!(usable(&nulls.to_string()), usable("{\"image\":\"deb\"}"));
    let config = usable(r#"{"image":"deb","remoteEnv":{"A":null,"B":""},"containerEnv":{"A":null,"B":""}}"#);
    assert_eq!(
        config.remote_env.into_iter().collect::<Vec<_>>(),
        [("A".into(), None), ("B".into(), Some(String::new()))]
    );
    assert_eq!(config.container_env.into_iter().collect::<Vec<_>>(), [("B".to_owned(), String::new())]);
}

#[test]
fn scalars_in_an_environment_are_the_text_of_the_reference_tool() {
    let config =
        usable(r#"{"image":"deb","containerEnv":{"A":1,"B":1.0,"C":1.5,"D":true,"E":-0.25,"F":1e3}}"#);
    let values: Vec<_> = config.container_env.into_values().collect();
    assert_eq!(values, ["1", "1", "1.5", "true", "-0.25", "1000"]);
}

#[test]
fn commands_in_their_three_forms_in_the_order_written() {
    let config = usable(
        r#"{"image":"deb","postCreateCommand":{"z":"make","a":["make","x y"],"e":"","n":null},"onCreateCommand":["a"],
            "postStartCommand":"","postAttachCommand":[],"updateContentCommand":{},"initializeCommand":"x && y"}"#,
    );
    let shell = |line: &str| Command::Shell(line.to_owned());
    let exec = |arguments: &[&str]| Command::Exec(arguments.iter().map(|a| (*a).to_owned()).collect());
    let named = |name: &str, command| NamedCommand { name: name.to_owned(), command };
    assert_eq!(
        config.lifecycle.into_iter().collect::<Vec<_>>(),
        [
            (LifecycleHook::InitializeCommand, LifecycleCommand::One(shell("x && y"))),
            (LifecycleHook::OnCreateCommand, LifecycleCommand::One(exec(&["a"]))),
            (
                LifecycleHook::PostCreateCommand,
                LifecycleCommand::Parallel(vec![
                    named("z", shell("make")),
                    named("a", exec(&["make", "x y"]))
                ]),
            ),
        ]
    );
}

/// Input and output of the reference tool 0.89.
#[test]
fn old_properties_of_one_editor_move_as_in_the_reference_tool() {
    let config = usable(
        r#"{"image":"deb","extensions":["a"],"settings":{"k":1},"devPort":5,
            "customizations":{"vscode":{"extensions":["b"],"settings":{"k":2,"l":3}}}}"#,
    );
    let expected = json!({"vscode": {"extensions": ["b", "a"], "settings": {"k": 2, "l": 3}, "devPort": 5}});
    assert_eq!(Value::Object(config.customizations), expected);
}

#[test]
fn unknown_keys_are_collected_and_bounded() {
    let config = usable(r#"{"zoo":1,"image":"deb","build":{"shoes":1},"Image":2}"#);
    assert_eq!(config.unknown, ["zoo", "build.shoes", "Image"]);
    let many: String = (0..300).map(|i| format!("\"k{i}\":1,")).collect();
    assert_eq!(usable(&format!("{{{many}\"image\":\"deb\"}}")).unknown.len(), MAX_UNKNOWN);
}

#[test]
fn a_duplicate_key_is_told_and_the_last_value_counts() {
    let text = "{\"image\":\"a\",\n\"image\":\"b\"}";
    assert_eq!(told(text), [(Reason::DuplicateKey, "/image".to_owned(), 2, 1)]);
    assert_eq!(usable(text).source, Source::Image { image: "b".into() });
}

#[test]
fn bytes_are_powers_of_1024() {
    for (text, expected) in [
        ("0", Some(0)),
        ("512", Some(512)),
        ("8gb", Some(8 << 30)),
        ("1tb", Some(1 << 40)),
        ("3kb", Some(3 << 10)),
        ("2mb", Some(2 << 20)),
        ("8 gb", None),
        ("gb", None),
        ("", None),
        ("-1", None),
        ("1.5gb", None),
        ("99999999999999999999", None),
        ("99999999tb", None),
    ] {
        assert_eq!(parse_bytes(text), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_value_anywhere_gives_an_answer(
        members in proptest::collection::vec((proptest::sample::select(KNOWN_PROPERTIES), any_value()), 0..6),
        file in "[a/.]{0,12}",
    ) {
        let mut object: Map<String, Value> = members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        object.entry("image").or_insert("deb".into());
        let reading = parse(&file, Value::Object(object).to_string().as_bytes());
        prop_assert_eq!(reading.config.is_none(), has_errors(&reading.diagnostics));
        prop_assert!(reading.diagnostics.iter().all(|d| d.position.is_some()));
    }

    #[test]
    fn any_text_is_a_mount_or_an_error(text in "[a-z=,\"/ ]{0,30}|type=(bind|volume),(src|target)=/?[a-z]{0,3},ro(=1)?") {
        let _ = Mount::parse(&text);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-z./:=,${}]{0,10}".boxed(), Just("${localEnv:X}".to_owned()).boxed()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let keys = proptest::sample::select(
            &["dockerfile", "type", "target", "label", "a/b", "cpus", "gpu", "A=B"][..],
        );
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::vec((keys, inner), 0..3).prop_map(|members| Value::Object(
                members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

#[test]
fn many_mistakes_in_one_long_line_are_bounded_in_number_and_time() {
    let members: String = (0..60_000).map(|i| format!("\"A{i}\":[],")).collect();
    let reading = parse(FILE, format!("{{\"image\":\"deb\",\"containerEnv\":{{{members}}}}}").as_bytes());
    assert_eq!(reading.diagnostics.len(), crate::diagnostic::MAX_DIAGNOSTICS + 1);
    assert_eq!(reading.diagnostics.last().unwrap().message, "59900 more are not listed");
}
