use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::jsonc;

fn context() -> Context {
    let env =
        [("FOO", "foo"), ("EMPTY", ""), ("REC", "${localEnv:FOO} ${devcontainerId} }"), ("HOME", "/home/u")];
    Context {
        local_env: Some(env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
        local_workspace_folder: Some("/src/shop/".into()),
        container_workspace_folder: Some("/workspaces/shop/api".into()),
        devcontainer_id: Some("0id".into()),
        container_env: None,
    }
}

fn replaced(text: &str) -> String {
    substitute_text(text, &context()).0
}

/// Inputs and outputs of the reference tool 0.89 (`read-configuration`), but for the defaults with a colon.
#[test]
fn is_what_the_reference_tool_does() {
    for (text, expected) in [
        ("${localEnv:FOO}", "foo"),
        ("a${localEnv:FOO}b${env:FOO}", "afoobfoo"),
        ("${localEnv:FOO:d}", "foo"),
        ("${localEnv:NOPE:d}", "d"),
        ("${localEnv:NOPE: sp }", " sp "),
        ("${localEnv:EMPTY:x}", ""),
        ("${localEnv:}", ""),
        ("${localEnv:FOO }", ""),
        ("${ localEnv:FOO}", "${ localEnv:FOO}"),
        ("${localenv:FOO}", "${localenv:FOO}"),
        ("${a${localEnv:FOO}}", "${a${localEnv:FOO}}"),
        ("$${localEnv:FOO}", "$foo"),
        ("${local\nEnv:FOO}", "${local\nEnv:FOO}"),
        ("${x\n${localEnv:FOO}", "${x\nfoo"),
        ("${}", "${}"),
        ("${localEnv:REC}", "${localEnv:FOO} ${devcontainerId} }"),
        ("${localWorkspaceFolder}", "/src/shop/"),
        ("${localWorkspaceFolderBasename:zz}", "shop"),
        ("${containerWorkspaceFolder}", "/workspaces/shop/api"),
        ("${containerWorkspaceFolderBasename}", "api"),
        ("v-${devcontainerId}", "v-0id"),
        ("${containerEnv:FOO}", "${containerEnv:FOO}"),
    ] {
        assert_eq!(replaced(text), expected, "{text:?}");
    }
}

#[test]
fn b012_the_whole_default_is_kept() {
    assert_eq!(replaced("${localEnv:NOPE:https://idx.test:8443/simple}"), "https://idx.test:8443/simple");
    assert_eq!(replaced("${localEnv:NOPE:}"), "");
    assert_eq!(replaced("${localEnv:NOPE}"), "");
    assert_eq!(replaced("${localEnv:NOPE::}"), ":");
}

#[test]
fn b013_container_variables_once_the_container_is_known() {
    let text = br#"{"containerEnv": {"T": "blue", "P": "${containerEnv:PATH}"},
        "remoteEnv": {"R": "${containerEnv:T}-x", "Q": "${containerEnv:NONE:def}"},
        "postCreateCommand": {"a": ["echo ${containerEnv:T} > /tmp/o"]}}"#;
    let document = jsonc::parse_object(text).unwrap();
    let (before, said) = substitute_document("f", &document, &context());
    assert_eq!((before.value(), said.len()), (document.value(), 0));
    let container_env = Some([("T".to_owned(), "blue".to_owned()), ("PATH".into(), "/bin".into())].into());
    let (after, said) = substitute_document("f", &before, &Context { container_env, ..Context::default() });
    assert_eq!(said, []);
    assert_eq!(
        after.value(),
        &json!({
            "containerEnv": {"T": "blue", "P": "${containerEnv:PATH}"},
            "remoteEnv": {"R": "blue-x", "Q": "def"},
            "postCreateCommand": {"a": ["echo blue > /tmp/o"]},
        })
    );
}

#[test]
fn b014_the_local_environment_is_replaced_in_a_feature_and_the_shell_s_own_syntax_stays() {
    let mut context = context();
    let feature = json!({"containerEnv": {"P2": "/opt/x/bin:${PATH}", "TOK": "${localEnv:TOK}"}});
    let (value, said) = substitute(&feature, &context);
    assert_eq!(value, json!({"containerEnv": {"P2": "/opt/x/bin:${PATH}", "TOK": ""}}));
    let unset = Finding::Unset { variable: "${localEnv:TOK}".into() };
    assert_eq!(said, [("/containerEnv/TOK".to_owned(), unset)]);
    context.local_env.as_mut().unwrap().insert("TOK".into(), "t".into());
    let (value, said) = substitute(&feature, &context);
    assert_eq!(value, json!({"containerEnv": {"P2": "/opt/x/bin:${PATH}", "TOK": "t"}}));
    assert_eq!(said, []);
}

#[test]
fn b015_unknown_text_stays_byte_for_byte_and_no_name_is_an_error() {
    assert_eq!(replaced("${env:HOME}"), "/home/u");
    for text in ["${foo:bar}", "$HOME", "${{ x }}", "${unclosed", "$", "${", "}", "$}{", "${PATH:-x}"] {
        assert_eq!(substitute_text(text, &context()), (text.to_owned(), vec![]), "{text:?}");
    }
    for text in ["${localEnv}", "${env}", "${containerEnv}"] {
        let document = jsonc::parse_object(format!("{{\"name\":\n \"{text}\"}}").as_bytes()).unwrap();
        let (value, said) = substitute_document("f", &document, &context());
        assert_eq!(value.value()["name"], text);
        assert_eq!(
            said[0].to_string(),
            format!(
                "f:2:2: /name: \"{text}\" can't be resolved because it names no environment variable \
                 (write the name after a colon: ${{localEnv:NAME}})"
            )
        );
        assert_eq!((said.len(), said[0].severity), (1, Severity::Error));
    }
}

#[test]
fn an_unset_variable_becomes_empty_and_that_is_said() {
    let document =
        jsonc::parse_object(b"{\"containerEnv\": {\n \"A\": \"${localEnv:NOPE}${localEnv:FOO}\"}}").unwrap();
    let (value, said) = substitute_document("f", &document, &context());
    assert_eq!(value.value()["containerEnv"]["A"], "foo");
    assert_eq!((said[0].severity, said[0].reason), (Severity::Warning, Reason::UnsetVariable));
    assert_eq!((said[0].pointer.as_str(), said[0].position.unwrap().line), ("/containerEnv/A", 2));
}

#[test]
fn every_string_value_at_any_depth_and_no_key() {
    let value = json!({"${localEnv:FOO}": ["${localEnv:FOO}", 1, null, {"x": {"y": ["-${localEnv:FOO}"]}}], "n": true});
    let (value, _) = substitute(&value, &context());
    assert_eq!(value, json!({"${localEnv:FOO}": ["foo", 1, null, {"x": {"y": ["-foo"]}}], "n": true}));
}

#[test]
fn nothing_is_known_nothing_is_replaced() {
    let text = "${localEnv:A}${env:A:b}${containerEnv:A}${localWorkspaceFolder}${containerWorkspaceFolder}${devcontainerId}";
    assert_eq!(substitute_text(text, &Context::default()), (text.to_owned(), vec![]));
}

#[test]
fn the_result_is_bounded_and_the_rest_stays_as_written() {
    let large = "x".repeat(1 << 20);
    let context = Context { local_env: Some([("L".to_owned(), large)].into()), ..Context::default() };
    let value =
        json!(["${localEnv:L}", "${localEnv:L}${localEnv:L}${localEnv:L}${localEnv:L}", "${localEnv:L}"]);
    let (value, said) = substitute(&value, &context);
    assert_eq!(value[0].as_str().unwrap().len(), 1 << 20);
    assert_eq!(value[2], "${localEnv:L}");
    assert_eq!(said, [("/1".to_owned(), Finding::TooLarge)]);
}

#[test]
fn unclosed_variables_take_linear_time() {
    let text = "${".repeat(500_000);
    assert_eq!(replaced(&text), text);
}

proptest! {
    #[test]
    fn the_pieces_are_the_text(text in "[${}:a\n\u{2028}é]{0,40}") {
        let joined: String = scan::parts(&text).map(|part| match part {
            scan::Part::Text(text) => text,
            scan::Part::Variable { written, .. } => written,
        }).collect();
        prop_assert_eq!(joined, text);
    }

    #[test]
    fn what_was_put_in_is_not_looked_at_again(value in ".{0,40}", before in "[a-z]{0,5}") {
        let context = Context { local_env: Some([("V".to_owned(), value.clone())].into()), ..Context::default() };
        prop_assert_eq!(substitute_text(&format!("{before}${{localEnv:V}}"), &context).0, format!("{before}{value}"));
    }

    #[test]
    fn text_without_the_opening_is_untouched(text in "[^{]{0,60}") {
        prop_assert_eq!(substitute_text(&text, &context()), (text, vec![]));
    }
}
