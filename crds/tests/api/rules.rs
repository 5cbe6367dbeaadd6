//! What the rules of the schemas say of an object and of a change to it.
//!
//! The examples in `examples/invalid/` are refused by a real API server in `tests/`; here are the changes, which need an old object.

use kube_cel::validate;
use serde_json::{Value, json};

use super::{all, schema};

/// The messages with which a change from `old` to `new` (specs, or whole parts with `status`) is refused.
fn refusals(kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let crds = all();
    let (_, crd) = crds.iter().find(|(found, _)| found == kind).unwrap();
    let whole = |part: &Value| match part.get("status") {
        Some(_) => part.clone(),
        None => json!({"metadata": {"name": "shop"}, "spec": part}),
    };
    let errors = validate(schema(crd), &whole(new), old.map(whole).as_ref());
    errors.err().map(|e| e.into_vec().into_iter().map(|e| e.message).collect()).unwrap_or_default()
}

#[track_caller]
fn refused(kind: &str, old: &Value, new: &Value, advice: &str) {
    assert_eq!(refusals(kind, old, None), Vec::<String>::new(), "the old object is valid");
    let found = refusals(kind, new, Some(old));
    assert!(found.iter().any(|message| message.contains(advice)), "{found:?} lacks {advice:?}");
}

#[track_caller]
fn allowed(kind: &str, old: &Value, new: &Value) {
    assert_eq!(refusals(kind, new, Some(old)), Vec::<String>::new());
}

fn git(url: &str) -> Value {
    json!({"source": {"git": {"url": url}}})
}

#[test]
fn the_repository_of_a_workspace_stays() {
    let old = git("https://git.example.com/shop.git");
    refused("Workspace", &old, &git("https://git.example.com/other.git"), "make a new Workspace");
    refused("Workspace", &old, &json!({"source": {"upload": {}}}), "make a new Workspace");
    let mut new = old.clone();
    new["source"]["git"]["revision"] = json!("v2");
    new["suspend"] = json!(true);
    allowed("Workspace", &old, &new);
}

#[test]
fn urls_are_allow_listed() {
    for url in [
        "https://git.example.com/shop.git",
        "http://git.drydock-git.svc:8080/shop",
        "ssh://git@git.example.com:2222/shop.git",
        "git@git.example.com:team/shop.git",
        "https://[fd00::1]:8443/shop.git",
    ] {
        assert_eq!(refusals("Workspace", &git(url), None), Vec::<String>::new(), "{url}");
    }
    for url in [
        "-uhttps://git.example.com",
        "https://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x/y",
        "ssh://git@-oProxyCommand=x/y",
        "git@-oProxyCommand=x:y",
        "git@host:-x",
        "https://user:secret@git.example.com/shop.git",
        "file:///etc",
        "ext::sh -c id",
        "/srv/git/shop.git",
        "git://git.example.com/shop.git",
        "https://git.example.com/a b",
    ] {
        let found = refusals("Workspace", &git(url), None);
        assert!(found.iter().any(|m| m.contains("url must be https://HOST/PATH")), "{url}: {found:?}");
    }
}

#[test]
fn storage_is_chosen_once_but_may_grow() {
    let workspace = |storage: Value| json!({"source": {"git": {"url": "https://git.example.com/shop.git"}}, "storage": storage});
    let old = workspace(json!({"size": "10Gi", "storageClassName": "fast"}));
    allowed("Workspace", &old, &workspace(json!({"size": "20Gi", "storageClassName": "fast"})));
    refused(
        "Workspace",
        &old,
        &workspace(json!({"size": "10Gi", "storageClassName": "slow"})),
        "can't be changed, as the claim is there",
    );
    refused("Workspace", &old, &workspace(json!({"size": "10Gi"})), "can't be changed");
}

#[test]
fn an_instance_keeps_its_workspace_and_its_birth() {
    let old = json!({"workspaceRef": {"name": "shop"}});
    refused(
        "DevcontainerInstance",
        &old,
        &json!({"workspaceRef": {"name": "other"}}),
        "workspaceRef can't be changed",
    );
    refused(
        "DevcontainerInstance",
        &old,
        &json!({"workspaceRef": {"name": "shop"}, "restoreFrom": {"snapshotRef": {"name": "s1"}}}),
        "drydock.dev/restore",
    );
    allowed(
        "DevcontainerInstance",
        &old,
        &json!({"workspaceRef": {"name": "shop"}, "desiredState": "Active"}),
    );
}

#[test]
fn a_run_can_only_be_cancelled() {
    let old = json!({"workspaceRef": {"name": "shop"}, "command": ["make"], "input": {"a": 1}});
    let mut new = old.clone();
    new["cancel"] = json!(true);
    allowed("ToolRun", &old, &new);
    refused("ToolRun", &new, &old, "cancel can't be taken back");
    for (field, value) in [
        ("command", json!(["make", "all"])),
        ("input", json!({"a": 2})),
        ("timeoutSeconds", json!(5)),
        ("workspaceRef", json!({"name": "other"})),
        ("description", json!("why")),
    ] {
        let mut changed = old.clone();
        changed[field] = value;
        refused("ToolRun", &old, &changed, "create a new one");
    }
}

#[test]
fn every_field_of_a_run_but_cancel_is_immutable() {
    let crds = all();
    let (_, crd) = crds.iter().find(|(kind, _)| kind == "ToolRun").unwrap();
    let spec = &schema(crd)["properties"]["spec"];
    let rules: String = spec["x-kubernetes-validations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    let missing: Vec<&String> = spec["properties"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| *name != "cancel" && !rules.contains(&format!("self.{name} == oldSelf.{name}")))
        .collect();
    assert!(missing.is_empty(), "{missing:?} can be changed");
}

#[test]
fn what_a_run_came_to_never_changes() {
    let run = |status: Value| json!({"metadata": {"name": "r"}, "spec": {"workspaceRef": {"name": "shop"}, "command": ["make"]}, "status": status});
    let claim = |attempt: i32, boot: &str| {
        run(json!({"observedGeneration": 1, "claim": {"attempt": attempt, "podUid": "p", "bootId": boot}}))
    };
    allowed("ToolRun", &run(json!({"observedGeneration": 1})), &claim(1, "a"));
    allowed("ToolRun", &claim(1, "a"), &claim(2, "b"));
    refused("ToolRun", &claim(1, "a"), &claim(1, "b"), "higher attempt");
    refused("ToolRun", &claim(1, "a"), &run(json!({"observedGeneration": 1})), "higher attempt");
    let ended = |outcome: &str| run(json!({"observedGeneration": 1, "outcome": outcome}));
    refused("ToolRun", &ended("Lost"), &ended("Succeeded"), "never changes");
    refused("ToolRun", &ended("Lost"), &run(json!({"observedGeneration": 1})), "never changes");
}

#[test]
fn a_plan_that_ended_stays_so() {
    let plan = |state: &str| json!({"workspaceRef": {"name": "shop"}, "state": state});
    allowed("Plan", &plan("Active"), &plan("Completed"));
    refused("Plan", &plan("Completed"), &plan("Active"), "the plan has ended");
    refused("Plan", &plan("Failed"), &json!({"workspaceRef": {"name": "shop"}}), "the plan has ended");
    refused("Plan", &plan("Active"), &json!({"projectRef": {"name": "shop"}}), "make a new Plan");
}

#[test]
fn a_snapshot_is_immutable() {
    let old = json!({"instanceRef": {"kind": "ContainerInstance", "name": "tools"}});
    let mut new = old.clone();
    new["retain"] = json!(true);
    refused("Snapshot", &old, &new, "make a new one");
}

#[test]
fn durations_are_bounded() {
    let plan = |timeout: &str| json!({"workspaceRef": {"name": "shop"}, "idleTimeout": timeout});
    for good in ["30m", "1h30m", "0s", "1.5h", "500ms"] {
        assert_eq!(refusals("Plan", &plan(good), None), Vec::<String>::new(), "{good}");
    }
    for bad in ["", "30", "-5m", "1d", "99999999999999h", "five"] {
        let found = refusals("Plan", &plan(bad), None);
        assert!(found.iter().any(|m| m.contains("such as 90s, 30m or 1h30m")), "{bad}: {found:?}");
    }
}
