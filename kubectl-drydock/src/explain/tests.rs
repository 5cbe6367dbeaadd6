use clap::Parser as _;
use drydock_crds::workspace::Devcontainer;
use drydock_crds::{Project, Workspace};

use super::*;
use crate::cli::Cli;

fn workspace() -> Workspace {
    serde_json::from_value(json!({
        "apiVersion": "drydock.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": "shop"},
        "spec": {"source": {"git": {"url": "https://git.example/shop.git"}}},
        "status": {"devcontainers": [
            {"name": "shop-services-api", "configPath": "services/api/.devcontainer/devcontainer.json", "directory": "services/api"}
        ]}
    }))
    .unwrap()
}

fn facts() -> Facts {
    let devcontainers: Vec<Devcontainer> = workspace().status.unwrap().devcontainers;
    Facts { workspace: Some(("shop".into(), devcontainers)), ..Facts::default() }
}

fn spec(path: &str) -> ToolRunSpec {
    ToolRunSpec { path: Some(path.into()), ..ToolRunSpec::default() }
}

fn global() -> Global {
    Cli::try_parse_from(["kubectl-drydock", "version"]).unwrap().global
}

#[test]
fn a_verdict_for_people_has_target_rule_reason_and_the_rest() {
    let verdict = decide(&spec("services/api/src"), &facts(), &operator::Status::default(), false).unwrap();
    let text = for_people(&verdict, "dc/shop-services-api", "Discovered", &global());
    assert_eq!(
        text,
        "target  dc/shop-services-api\nstate   Discovered\nrule    NearestDevcontainer\nreason  \
         services/api/.devcontainer/devcontainer.json is the nearest configuration of services/api/src\n\nCONSIDERED   \
         TARGET   VERDICT\nHost         host     not reached: NearestDevcontainer decides\n"
    );
}

#[test]
fn a_document_is_the_route_of_a_run() {
    let verdict = decide(&spec("services/api"), &facts(), &operator::Status::default(), false).unwrap();
    let value = document(&verdict, "shop-host", Some("u-1".into()));
    assert_eq!(
        value["target"],
        json!({"kind": "DevcontainerInstance", "name": "shop-services-api", "uid": "u-1"})
    );
    assert_eq!(value["rule"], "NearestDevcontainer");
    assert!(value.get("outcome").is_none());
    let off = operator::Status { devcontainers_enabled: false, ..operator::Status::default() };
    let value = document(&decide(&spec("services/api"), &facts(), &off, false).unwrap(), "shop-host", None);
    assert_eq!(value["outcome"], "NoEnvironment");
    assert_eq!(value["outcomeReason"], "DevcontainersDisabled");
    assert!(value.get("target").is_none());
}

#[test]
fn the_host_has_the_name_of_its_runner() {
    let mut facts = facts();
    let verdict = decide(&spec("docs"), &facts, &operator::Status::default(), false).unwrap();
    assert_eq!(document(&verdict, &host_name(&facts), None)["target"]["name"], "shop-host");
    let project: Project = serde_json::from_value(json!({
        "apiVersion": "drydock.dev/v1alpha1", "kind": "Project", "metadata": {"name": "p"},
        "spec": {"host": {"policy": "Forbidden"}}
    }))
    .unwrap();
    facts.project = Some(project);
    let verdict = decide(&spec("docs"), &facts, &operator::Status::default(), false).unwrap();
    assert_eq!(verdict.refusal, Some(Refusal::NoAnswer));
}

#[test]
fn a_path_that_leaves_the_workspace_is_told_as_the_run_would_be() {
    let failure = decide(&spec("../x"), &facts(), &operator::Status::default(), false).unwrap_err();
    assert_eq!(failure.reason, "Rejected");
    assert!(failure.headline.contains("leaves the workspace"), "{}", failure.headline);
}
