use super::*;
use crate::diagnostic::Reason;
use crate::jsonc;
use crate::substitute::devcontainer_id;

const FILE: &str = "services/api/.devcontainer/devcontainer.json";

fn inputs() -> Inputs {
    Inputs {
        workspace_name: "shop".into(),
        local_env: [("TOKEN".to_owned(), "t".to_owned())].into(),
        local_workspace_folder: Some("/src/shop".into()),
        devcontainer_id: Some(devcontainer_id(&[("a".to_owned(), "b".to_owned())].into())),
        workspace_folder: None,
    }
}

fn resolved(text: &str) -> Resolution {
    resolve(FILE, &jsonc::parse_object(text.as_bytes()).unwrap(), &inputs())
}

#[test]
fn the_workspace_folder_has_the_default_of_the_specification() {
    for (file, text, expected) in [
        (FILE, r#"{"image":"d"}"#, "/workspaces/shop/services/api"),
        (
            "services/api/.devcontainer/x/devcontainer.json",
            r#"{"image":"d"}"#,
            "/workspaces/shop/services/api",
        ),
        (".devcontainer.json", r#"{"image":"d"}"#, "/workspaces/shop"),
        (".devcontainer.json", r#"{"image":"d","workspaceFolder":""}"#, "/workspaces/shop"),
        (FILE, r#"{"image":"d","workspaceFolder":"/w/${localWorkspaceFolderBasename}"}"#, "/w/shop"),
        (FILE, r#"{"dockerComposeFile":"c","service":"s"}"#, "/"),
        (
            FILE,
            r#"{"image":"d","workspaceFolder":"/w/${containerWorkspaceFolderBasename}"}"#,
            "/w/${containerWorkspaceFolderBasename}",
        ),
    ] {
        let document = jsonc::parse_object(text.as_bytes()).unwrap();
        let resolution = resolve(file, &document, &inputs());
        assert_eq!(resolution.workspace_folder.as_deref(), Some(expected), "{file} {text}");
    }
    let above = Inputs { workspace_folder: Some("/mine".into()), ..inputs() };
    let text = br#"{"image":"d","workspaceFolder":"/w","containerEnv":{"W":"${containerWorkspaceFolder}"}}"#;
    let resolution = resolve(FILE, &jsonc::parse_object(text).unwrap(), &above);
    assert_eq!(resolution.workspace_folder.as_deref(), Some("/mine"));
    assert_eq!(resolution.config.unwrap().container_env["W"], "/mine");
}

#[test]
fn variables_reach_every_property() {
    let resolution = resolved(
        r#"{"image":"${localEnv:IMAGE:registry.example:5000/base:1}","remoteUser":"${localEnv:TOKEN}",
            "containerEnv":{"W":"${containerWorkspaceFolder}","P":"${containerEnv:PATH}"},
            "mounts":["type=volume,source=h-${devcontainerId},target=${containerWorkspaceFolder}/x"],
            "postCreateCommand":{"a":["echo","${localWorkspaceFolder}"]}}"#,
    );
    assert_eq!(resolution.diagnostics, []);
    let config = resolution.config.unwrap();
    assert_eq!(config.source, config::Source::Image { image: "registry.example:5000/base:1".into() });
    assert_eq!(config.remote_user.as_deref(), Some("t"));
    assert_eq!(config.container_env["W"], "/workspaces/shop/services/api");
    assert_eq!(config.container_env["P"], "${containerEnv:PATH}");
    assert_eq!(config.mounts[0].target, "/workspaces/shop/services/api/x");
    assert_eq!(config.mounts[0].source.as_ref().unwrap().len(), 2 + 52);
    let command = config::Command::Exec(vec!["echo".into(), "/src/shop".into()]);
    let named = config::NamedCommand { name: "a".into(), command };
    assert_eq!(
        config.lifecycle[&config::LifecycleHook::PostCreateCommand],
        config::LifecycleCommand::Parallel(vec![named])
    );
}

#[test]
fn what_a_variable_became_is_judged() {
    let resolution = resolved("{\"image\":\"d\",\n\"mounts\":[\"${localEnv:TOKEN}\"]}");
    assert_eq!((resolution.config, resolution.workspace_folder), (None, None));
    assert_eq!(resolution.diagnostics.len(), 1);
    assert_eq!(resolution.diagnostics[0].reason, Reason::InvalidMount);
    assert_eq!(resolution.diagnostics[0].position.unwrap().line, 2);
}

#[test]
fn a_variable_without_a_name_and_a_broken_configuration_have_no_result() {
    let resolution = resolved(r#"{"image":"d","containerEnv":{"A":"${localEnv}"}}"#);
    assert_eq!((resolution.config, resolution.diagnostics[0].reason), (None, Reason::InvalidVariable));
    let resolution = resolved(r#"{"init":true}"#);
    assert_eq!((resolution.config, resolution.diagnostics[0].reason), (None, Reason::NoSource));
}

#[test]
fn an_unset_variable_is_told_and_doesn_t_stop() {
    let resolution = resolved(r#"{"image":"d","containerEnv":{"A":"${localEnv:NOPE}"}}"#);
    assert_eq!(resolution.config.unwrap().container_env["A"], "");
    assert_eq!(resolution.diagnostics[0].reason, Reason::UnsetVariable);
}
