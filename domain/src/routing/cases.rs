//! What the table has no column for: choices within a folder, texts, checkouts, workspaces without one, order of inputs.

use std::collections::BTreeSet;

use drydock_crds::condition::Reason;
use drydock_crds::execution_environment::Priority;
use drydock_crds::project::{Detection, HostPolicy, Resource, ResourceKind};
use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::tool::{Capability, Preferred, Required, Specific};
use drydock_crds::tool_run::RouteRule;
use drydock_crds::workspace::{Devcontainer, Problem};
use drydock_crds::{ContainerInstance, DevcontainerInstance, ExecutionEnvironment};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::name;
use crate::path::WorkspacePath;

/// The configurations of workspace `shop`, named as discovery names them.
fn shop(paths: &[&str]) -> Vec<Devcontainer> {
    let mut found: Vec<Devcontainer> = paths.iter().map(|path| configuration(path)).collect();
    for (at, name) in name::instances("shop", &found.clone()).into_iter().enumerate() {
        found[at].name = name;
    }
    found
}

fn configuration(path: &str) -> Devcontainer {
    let (directory, file) = path.split_at(path.find(".devcontainer").unwrap());
    let directory = directory.trim_end_matches('/');
    let named = file.strip_prefix(".devcontainer/").and_then(|f| f.strip_suffix("/devcontainer.json"));
    Devcontainer {
        config_path: path.to_owned(),
        directory: if directory.is_empty() { "." } else { directory }.to_owned(),
        config_name: named.map(str::to_owned),
        ..Devcontainer::default()
    }
}

fn instance(name: &str) -> InstanceRef {
    InstanceRef { kind: InstanceKind::DevcontainerInstance, name: name.to_owned() }
}

fn container(name: &str) -> InstanceRef {
    InstanceRef { kind: InstanceKind::ContainerInstance, name: name.to_owned() }
}

static ROOT: std::sync::LazyLock<WorkspacePath> = std::sync::LazyLock::new(WorkspacePath::root);
static ANY: Capability = Capability { required: None, preferred: None, specific: None };

fn request(devcontainers: &[Devcontainer]) -> Request<'_> {
    Request {
        workspace: Some(Tree { name: "shop", devcontainers, cloned_by: None }),
        path: &ROOT,
        capability: &ANY,
        config_name: None,
        activate: false,
        sandbox: None,
        environments: &[],
        project: None,
        host_policy: HostPolicy::Allowed,
        devcontainers_enabled: true,
        instances: &[],
    }
}

fn chosen(request: &Request<'_>) -> String {
    route(request).chosen.map_or_else(String::new, |t| t.to_string())
}

#[test]
fn the_nearest_folder_wins_and_within_it_the_file_by_order() {
    let all = shop(&[
        ".devcontainer.json",
        ".devcontainer/devcontainer.json",
        "a/.devcontainer/two/devcontainer.json",
        "a/.devcontainer/one/devcontainer.json",
        "a/b/.devcontainer.json",
        "a/b/.devcontainer/one/devcontainer.json",
    ]);
    for (path, config_name, file) in [
        ("", None, ".devcontainer/devcontainer.json"),
        ("x/y", None, ".devcontainer/devcontainer.json"),
        ("a", None, "a/.devcontainer/one/devcontainer.json"),
        ("a/x.py", Some("two"), "a/.devcontainer/two/devcontainer.json"),
        ("a/x.py", Some("three"), "a/.devcontainer/one/devcontainer.json"),
        ("a/b/c/d.py", None, "a/b/.devcontainer.json"),
        ("a/b/c/d.py", Some("one"), "a/b/.devcontainer/one/devcontainer.json"),
        ("a/b/c/d.py", Some("two"), "a/b/.devcontainer.json"),
        ("ab/c", None, ".devcontainer/devcontainer.json"),
    ] {
        let path = WorkspacePath::parse(path, None).unwrap();
        let verdict = route(&Request { path: &path, config_name, ..request(&all) });
        let name = &all.iter().find(|d| d.config_path == file).unwrap().name;
        assert_eq!(verdict.chosen, Some(Target::devcontainer(name)), "{path:?} {config_name:?}");
        assert_eq!(verdict.rule, Some(RouteRule::NearestDevcontainer));
        assert!(verdict.reason.starts_with(file), "{}", verdict.reason);
    }
}

#[test]
fn an_ambiguous_choice_and_an_unknown_name_are_said() {
    let all = shop(&[".devcontainer/b/devcontainer.json", ".devcontainer/a/devcontainer.json"]);
    let verdict = route(&Request { config_name: Some("c"), ..request(&all) });
    assert_eq!(
        verdict.reason,
        ".devcontainer/a/devcontainer.json is the nearest configuration of .; ambiguous: the first by name of 2 in its \
         folder, the others are b; no configuration there is called c"
    );
    assert_eq!(verdict.considered[0].target.as_deref(), Some("configuration b"));
}

#[test]
fn an_invalid_configuration_stops_the_walk_and_is_placed() {
    let mut all = shop(&[".devcontainer.json", "a/.devcontainer.json"]);
    all[1].problem = Some(Problem {
        reason: "InvalidConfig".into(),
        message: "expected a comma\u{1b}[31m".into(),
        file: Some("a/.devcontainer.json".into()),
        line: Some(3),
        column: Some(7),
    });
    let path = WorkspacePath::parse("a/b", None).unwrap();
    let verdict = route(&Request { path: &path, ..request(&all) });
    assert_eq!(verdict.refusal, Some(Refusal::InvalidConfig));
    assert_eq!(verdict.reason, "a/.devcontainer.json:3:7: expected a comma\u{fffd}[31m");
}

#[test]
fn the_host_says_why_and_a_run_elsewhere_says_what_else() {
    let all = shop(&["services/api/.devcontainer/devcontainer.json"]);
    let docs = WorkspacePath::parse("docs", None).unwrap();
    let verdict = route(&Request { path: &docs, ..request(&all) });
    assert_eq!(verdict.chosen, Some(Target::Host));
    assert_eq!(
        verdict.reason,
        "no dev container from docs up to the workspace root, and no environment applies: the host"
    );
    let api = WorkspacePath::parse("services/api", None).unwrap();
    let verdict = route(&Request { path: &api, ..request(&all) });
    let considered: Vec<_> =
        verdict.considered.iter().map(|c| (c.source.as_str(), c.verdict.as_str())).collect();
    assert_eq!(considered, [("Host", "not reached: NearestDevcontainer decides")]);
    let known = verdict.to_route("shop-host", |i| (i.name == "shop-services-api").then(|| "u".to_owned()));
    assert_eq!(known.target.unwrap().uid.as_deref(), Some("u"));
}

#[test]
fn a_specific_name_is_looked_up_in_both_kinds() {
    let named =
        |kind| Capability { specific: Some(Specific { kind, name: "x".into() }), ..Capability::default() };
    let both = [instance("x"), container("x"), container("y")];
    let one = named(Some(InstanceKind::ContainerInstance));
    let any = named(None);
    let ask = |capability, instances| route(&Request { capability, instances, ..request(&[]) });
    assert_eq!(ask(&one, &both).chosen, Some(Target::Instance(container("x"))));
    assert_eq!(ask(&any, &both[..1]).chosen, Some(Target::devcontainer("x")));
    assert_eq!(ask(&any, &both).refusal, Some(Refusal::AmbiguousName));
    assert_eq!(ask(&any, &both[2..]).refusal, Some(Refusal::TargetNotFound));
    let verdict = route(&Request {
        capability: &any,
        instances: &both[..1],
        project: Some(ProjectFacts { name: "p", links: &[], detection: Detection::Enabled }),
        ..request(&[])
    });
    assert_eq!(verdict.refusal, Some(Refusal::TargetNotLinked));
}

#[test]
fn dev_containers_can_be_turned_off() {
    let all = shop(&[".devcontainer.json"]);
    let off = Request { devcontainers_enabled: false, ..request(&all) };
    let verdict = route(&off);
    assert_eq!(verdict.refusal, Some(Refusal::DevcontainersDisabled));
    assert_eq!(verdict.refusal.unwrap().reason(), Reason::DevcontainersDisabled);
    let host = Capability { preferred: Some(Preferred::Host), ..Capability::default() };
    assert_eq!(chosen(&Request { capability: &host, ..off }), "host");
}

#[test]
fn without_a_checkout_only_what_clones_it_can_serve() {
    let all = shop(&[".devcontainer.json"]);
    let cloned_by = [container("cloner"), container("later")];
    let without = |cloned_by| Request {
        workspace: Some(Tree { name: "shop", devcontainers: &all, cloned_by: Some(cloned_by) }),
        ..request(&all)
    };
    let itself = [instance("shop")];
    let verdict = route(&without(&cloned_by));
    assert_eq!(verdict.refusal, Some(Refusal::HostUnavailable), "{verdict:#?}");
    let links: Vec<Link> =
        [container("no"), container("cloner")].map(|instance| Link { instance, of_plan: false }).into();
    let project = Some(ProjectFacts { name: "p", links: &links, detection: Detection::Enabled });
    let needs = Capability { required: Some(Required::Container), ..Capability::default() };
    let linked = Request { project, capability: &needs, ..without(&cloned_by) };
    assert_eq!(chosen(&linked), "ContainerInstance/cloner");
    assert_eq!(chosen(&without(&itself)), "DevcontainerInstance/shop");
    let named =
        Capability { specific: Some(Specific { kind: None, name: "no".into() }), ..Capability::default() };
    let verdict =
        route(&Request { capability: &named, instances: &[container("no")], ..without(&cloned_by) });
    assert_eq!(verdict.refusal, Some(Refusal::NotCloned));
}

#[test]
fn a_run_without_a_workspace_has_no_host() {
    let verdict = route(&Request { workspace: None, ..request(&[]) });
    assert_eq!(verdict.refusal, Some(Refusal::HostUnavailable));
}

#[test]
fn a_sandboxed_plan_works_in_its_own() {
    let shared = shop(&[".devcontainer.json", "old/.devcontainer.json"]);
    let own = shop(&["new/.devcontainer.json", ".devcontainer.json"]);
    let checkouts = [Checkout { workspace: "shop", devcontainers: &own, shared: &shared }];
    let sandboxed = |path, environments| Request {
        path,
        environments,
        sandbox: Some(Sandbox { plan: "fix", checkouts: &checkouts }),
        ..request(&shared)
    };
    let [new, old] = ["new", "old/x"].map(|text| WorkspacePath::parse(text, None).unwrap());
    assert_eq!(chosen(&sandboxed(&new, &[])), "DevcontainerInstance/shop-new-fix");
    assert_eq!(chosen(&sandboxed(&old, &[])), "DevcontainerInstance/shop-fix");
    let [shared_one, gone] = ["elsewhere", "shop-old"].map(|name| {
        [Environment {
            name: "over",
            scope: Scope::Plan,
            priority: Priority::Override,
            target: EnvironmentTarget::Instance(instance(name), TargetState::Usable),
        }]
    });
    assert_eq!(chosen(&sandboxed(&ROOT, &shared_one)), "DevcontainerInstance/elsewhere");
    let verdict = route(&sandboxed(&ROOT, &gone));
    assert_eq!(verdict.refusal, Some(Refusal::NotInCheckout), "{verdict:#?}");
    let elsewhere = Request {
        workspace: Some(Tree { name: "docs", devcontainers: &[], cloned_by: None }),
        ..sandboxed(&ROOT, &[])
    };
    assert_eq!(route(&elsewhere).refusal, Some(Refusal::NotInCheckout));
}

#[test]
fn a_refused_requirement_lists_what_was_considered() {
    let needs = Capability { required: Some(Required::Container), ..Capability::default() };
    let verdict = route(&Request { capability: &needs, ..request(&[]) });
    assert_eq!(verdict.refusal, Some(Refusal::NoContainer));
    assert_eq!(
        verdict.reason,
        "the tool requires a container, and there is none; considered: NearestDevcontainer (the workspace root has no dev \
         container); Host host (not taken: the tool requires a container)"
    );
}

#[test]
fn texts_and_lists_are_bounded() {
    let paths: Vec<String> =
        (0..400).map(|n| format!(".devcontainer/n{n:03}{}/devcontainer.json", "x".repeat(200))).collect();
    let all = shop(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    let verdict = route(&request(&all));
    assert_eq!(verdict.considered.len(), 32);
    assert_eq!(verdict.considered[31].verdict, "369 more");
    assert_eq!(verdict.reason.chars().count(), 1024);
}

#[test]
fn objects_become_facts() {
    let owned = |kind: &str| json!({"apiVersion": "drydock.dev/v1alpha1", "kind": kind, "name": "x", "uid": "u", "controller": true});
    let dc = |name: &str, owner: &str| -> InstanceFacts {
        let object: DevcontainerInstance = serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "DevcontainerInstance",
            "metadata": {"name": name, "ownerReferences": [owned(owner)]},
            "spec": {"workspaceRef": {"name": "shop"}, "cloneInto": [{"workspaceRef": {"name": "lib"}, "path": "/lib"}]}
        }))
        .unwrap();
        InstanceFacts::from(&object)
    };
    let ctr = |name: &str, owners: serde_json::Value| -> InstanceFacts {
        let object: ContainerInstance = serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ContainerInstance",
            "metadata": {"name": name, "ownerReferences": owners}, "spec": {"image": "i"}
        }))
        .unwrap();
        InstanceFacts::from(&object)
    };
    let facts = [
        dc("shop-b", "Workspace"),
        dc("shop-a-plan", "Plan"),
        ctr("db", json!([])),
        ctr("shop-host", json!([owned("Workspace")])),
    ];
    assert_eq!(facts[0].clones, ["lib"]);
    assert!(facts[1].of_plan && facts[3].host_runner && !facts[2].host_runner);
    let resource = |kind, name: &str| Resource { kind, name: name.into() };
    let resources = [
        resource(ResourceKind::ContainerInstance, "db"),
        resource(ResourceKind::ContainerInstance, "shop-host"),
        resource(ResourceKind::DevcontainerInstance, "shop-b"),
        resource(ResourceKind::Workspace, "shop"),
        resource(ResourceKind::DevcontainerInstance, "gone"),
    ];
    let linked = links(&resources, &facts);
    let names: Vec<_> = linked.iter().map(|l| (l.instance.name.as_str(), l.of_plan)).collect();
    assert_eq!(names, [("db", false), ("shop-b", false), ("shop-a-plan", true)]);
    assert_eq!(target_state(&container("db"), true, Some(&linked)), TargetState::Usable);
    assert_eq!(target_state(&container("x"), true, Some(&linked)), TargetState::NotLinked);
    assert_eq!(target_state(&container("x"), true, None), TargetState::Usable);
    assert_eq!(target_state(&container("x"), false, None), TargetState::NotFound);
}

#[test]
fn an_environment_counts_for_its_scope_unless_conflicted() {
    let object = |spec: serde_json::Value, reason: &str| -> ExecutionEnvironment {
        serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ExecutionEnvironment", "metadata": {"name": "e"}, "spec": spec,
            "status": {"conditions": [{"type": "Accepted", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        }))
        .unwrap()
    };
    let of = |object: &ExecutionEnvironment| {
        let state = |_: &InstanceRef| TargetState::NotFound;
        Environment::of(object, Some("plan"), Some("proj"), state).map(|e| (e.scope, e.priority, e.target))
    };
    let spec =
        json!({"scope": {"projectRef": {"name": "proj"}}, "target": {"containerInstanceRef": {"name": "x"}}});
    let target = EnvironmentTarget::Instance(container("x"), TargetState::NotFound);
    assert_eq!(
        of(&object(spec.clone(), "TargetNotFound")),
        Some((Scope::Project, Priority::Fallback, target))
    );
    assert_eq!(of(&object(spec, "Conflicted")), None);
    let spec =
        json!({"scope": {"planRef": {"name": "plan"}}, "target": {"host": {}}, "priority": "Override"});
    assert_eq!(
        of(&object(spec, "Accepted")),
        Some((Scope::Plan, Priority::Override, EnvironmentTarget::Host))
    );
    let spec = json!({"scope": {"planRef": {"name": "other"}}, "target": {"container": {}}});
    assert_eq!(of(&object(spec, "Accepted")), None);
}

#[test]
fn a_runs_capability_replaces_the_tools_field_by_field() {
    let tool = Capability {
        required: Some(Required::Container),
        preferred: Some(Preferred::Container),
        specific: None,
    };
    let run = Capability { preferred: Some(Preferred::Host), ..Capability::default() };
    let merged = capability(Some(&tool), Some(&run));
    assert_eq!((merged.required, merged.preferred), (Some(Required::Container), Some(Preferred::Host)));
    assert_eq!(capability(None, None), Capability::default());
}

fn configurations() -> impl Strategy<Value = Vec<Devcontainer>> {
    let path = "([ab]/){0,2}(\\.devcontainer\\.json|\\.devcontainer/devcontainer\\.json|\\.devcontainer/[ab]/devcontainer\\.json)";
    let one = (path, any::<bool>());
    proptest::collection::btree_map("[a-z]", one, 0..8).prop_map(|found| {
        let paths: BTreeSet<(String, bool)> = found.into_values().collect();
        let names: Vec<&str> = paths.iter().map(|(p, _)| p.as_str()).collect();
        let mut all = shop(&names);
        for (one, (_, broken)) in all.iter_mut().zip(&paths) {
            one.problem = broken.then(Problem::default);
        }
        all.dedup_by(|a, b| a.config_path == b.config_path);
        all
    })
}

proptest! {
    #[test]
    fn the_answer_is_one_and_independent_of_order(
        found in configurations(),
        own in configurations(),
        path in "([ab]/){0,3}",
        config_name in proptest::option::of("[ab]"),
        required in proptest::option::of(prop_oneof![Just(Required::Any), Just(Required::Container), Just(Required::Host)]),
        preferred in proptest::option::of(prop_oneof![Just(Preferred::Container), Just(Preferred::Host)]),
        specific in proptest::option::of("(shop|x)"),
        targets in proptest::collection::vec((any::<bool>(), any::<bool>(), "(shop|shop-a|x)", 0_u8..5), 0..5),
        bits in 0_u32..64,
    ) {
        let path = WorkspacePath::parse(&path, None).unwrap();
        let capability = Capability { required, preferred, specific: specific.map(|name| Specific { kind: None, name }) };
        let names: Vec<String> = (0..targets.len()).map(|n| format!("e{n}")).collect();
        let mut environments: Vec<Environment<'_>> = targets.iter().zip(&names).map(|((plan, over, name, kind), own)| Environment {
            name: own,
            scope: if *plan { Scope::Plan } else { Scope::Project },
            priority: if *over { Priority::Override } else { Priority::Fallback },
            target: match kind {
                0 => EnvironmentTarget::Host,
                1 => EnvironmentTarget::Container,
                2 => EnvironmentTarget::Instance(instance(name), TargetState::NotFound),
                3 => EnvironmentTarget::Instance(instance(name), TargetState::NotLinked),
                _ => EnvironmentTarget::Instance(container(name), TargetState::Usable),
            },
        }).collect();
        let mut instances = vec![instance("shop"), container("shop"), container("x")];
        let mut cloned_by = vec![instance("shop"), container("x")];
        let links: Vec<Link> = instances.iter().map(|i| Link { instance: i.clone(), of_plan: false }).collect();
        let on = |bit: u32| bits & (1 << bit) != 0;
        let ask = |found: &[Devcontainer], own: &[Devcontainer], environments: &[Environment<'_>], instances: &[InstanceRef], cloned_by: &[InstanceRef], turned: bool| {
            let mut checkouts = vec![
                Checkout { workspace: "shop", devcontainers: own, shared: found },
                Checkout { workspace: "lib", devcontainers: &[], shared: &[] },
            ];
            if turned {
                checkouts.reverse();
            }
            route(&Request {
                workspace: Some(Tree { name: "shop", devcontainers: found, cloned_by: on(0).then_some(cloned_by) }),
                path: &path,
                capability: &capability,
                config_name: config_name.as_deref(),
                activate: on(1),
                sandbox: on(2).then_some(Sandbox { plan: "p", checkouts: &checkouts }),
                environments,
                project: on(3).then_some(ProjectFacts { name: "proj", links: &links, detection: Detection::Enabled }),
                host_policy: if on(4) { HostPolicy::Allowed } else { HostPolicy::Forbidden },
                devcontainers_enabled: on(5),
                instances,
            })
        };
        let first = ask(&found, &own, &environments, &instances, &cloned_by, false);
        prop_assert_eq!(first.chosen.is_some(), first.refusal.is_none());
        prop_assert!(!first.reason.is_empty() && first.considered.len() <= 32);
        let (mut found, mut own) = (found, own);
        found.reverse();
        own.reverse();
        environments.reverse();
        instances.reverse();
        cloned_by.reverse();
        prop_assert_eq!(ask(&found, &own, &environments, &instances, &cloned_by, true), first);
    }
}
