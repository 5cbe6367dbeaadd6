//! Whoever waits for an object comes to an end: for a good and a bad object of each kind every status ever written is read as `kstatus` and
//! with it Flux, Argo CD and `helm --wait` read it, and `kubectl wait` is tried.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drydock_e2e::Scene;
use futures::TryStreamExt;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};

/// Longer than any wait for a missing reference.
const PATIENCE: Duration = Duration::from_secs(90);

/// What kstatus makes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    InProgress,
    Current,
    Failed,
}
use Reading::{Current, Failed, InProgress};

/// The rules of kstatus for custom resources.
fn read(object: &Value) -> Reading {
    let status = &object["status"];
    let is_true = |type_: &str| condition(object, type_).is_some_and(|c| c["status"] == "True");
    let observed = &status["observedGeneration"];
    if !observed.is_null() && *observed != object["metadata"]["generation"] {
        return InProgress;
    }
    match () {
        () if is_true("Reconciling") => InProgress,
        () if is_true("Stalled") => Failed,
        () if condition(object, "Ready").is_some() && !is_true("Ready") => InProgress,
        () => Current,
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == type_)
}

/// One good and one bad object of each kind, and what they end as.
fn objects(scene: &Scene, url: &str) -> Vec<(Value, Reading)> {
    let git = |url: &str| json!({"source": {"git": {"url": url}}, "storage": {"size": "100Mi"}});
    let missing = format!("{url}-that-nobody-pushed");
    let image = scene.image;
    let tree = json!({"name": "good"});
    let nothing = json!({"name": "nothing"});
    let node = json!([{"mountPath": "/node", "hostPath": {"path": "/"}}]);
    [
        ("Workspace", "good", git(url), Current),
        ("Workspace", "bad", git(&missing), Failed),
        ("ContainerInstance", "good", json!({"image": image, "desiredState": "Active"}), Current),
        ("ContainerInstance", "bad", json!({"image": image, "mounts": node}), Failed),
        ("DevcontainerInstance", "good", json!({"workspaceRef": tree, "desiredState": "Active"}), Current),
        ("DevcontainerInstance", "bad", json!({"workspaceRef": tree, "configPath": "no/such.json"}), Failed),
        ("Project", "good", json!({"resources": [{"kind": "Workspace", "name": "good"}]}), Current),
        ("Project", "bad", json!({"resources": [{"kind": "Workspace", "name": "nothing"}]}), Failed),
        ("Plan", "good", json!({"projectRef": tree}), Current),
        ("Plan", "bad", json!({"workspaceRef": nothing}), Failed),
        ("Tool", "good", json!({"command": ["true"]}), Current),
        ("Tool", "bad", json!({"command": ["true"], "resultFormat": "Json"}), Failed),
        (
            "ExecutionEnvironment",
            "good",
            json!({"scope": {"projectRef": tree}, "target": {"host": {}}}),
            Current,
        ),
        (
            "ExecutionEnvironment",
            "bad",
            json!({"scope": {"projectRef": nothing}, "target": {"host": {}}}),
            Failed,
        ),
        ("ToolRun", "good", json!({"workspaceRef": tree, "command": ["true"]}), Current),
        // A run has ended, well or badly: its own condition says which.
        ("ToolRun", "bad", json!({"workspaceRef": tree, "command": ["false"]}), Current),
        ("ToolRun", "refused", json!({"workspaceRef": nothing, "command": ["true"]}), Current),
        ("Snapshot", "bad", json!({"instanceRef": {"kind": "DevcontainerInstance", "name": "good"}}), Failed),
    ]
    .into_iter()
    .map(|(kind, name, spec, reading)| {
        (json!({"kind": kind, "metadata": {"name": name}, "spec": spec}), reading)
    })
    .collect()
}

/// Reads every version of the objects of a kind until each of `expected` is as expected.
async fn series(api: Api<DynamicObject>, expected: BTreeMap<String, Reading>) -> Result<()> {
    let mut seen: BTreeMap<String, Vec<(Reading, Value)>> = BTreeMap::new();
    let mut versions = std::pin::pin!(watcher(api, watcher::Config::default()));
    let ended = |seen: &BTreeMap<String, Vec<(Reading, Value)>>| {
        expected.iter().all(|(name, reading)| {
            seen.get(name).and_then(|all| all.last()).is_some_and(|(last, _)| last == reading)
        })
    };
    let watched = tokio::time::timeout(PATIENCE, async {
        while !ended(&seen) {
            let event = versions.try_next().await?.context("the watch ended")?;
            if let Event::Apply(object) | Event::InitApply(object) = event {
                let name = object.metadata.name.clone().unwrap_or_default();
                let object = serde_json::to_value(object)?;
                seen.entry(name).or_default().push((read(&object), object));
            }
        }
        anyhow::Ok(())
    });
    match watched.await {
        Ok(result) => result?,
        Err(_) => anyhow::bail!("expected {expected:?}, last seen {:?}", last(&seen)),
    }
    for (name, reading) in &expected {
        let never = if *reading == Current { Failed } else { Current };
        let wrong = seen[name].iter().find(|(read, _)| *read == never);
        ensure!(wrong.is_none(), "{name} was read as {never:?} on its way: {wrong:?}");
    }
    Ok(())
}

fn last(seen: &BTreeMap<String, Vec<(Reading, Value)>>) -> Vec<String> {
    seen.iter()
        .filter_map(|(name, all)| {
            all.last().map(|(reading, object)| format!("{name} {reading:?}: {}", object["status"]))
        })
        .collect()
}

#[tokio::test]
async fn every_wait_ends_on_success_and_on_failure() -> Result<()> {
    let scene = Scene::new("waits").await?;
    let definition = json!({"image": scene.image}).to_string();
    let url = scene.repository("tree", &[(".devcontainer.json", &definition)]).await?;
    let objects = objects(&scene, &url);
    let mut kinds: BTreeMap<String, BTreeMap<String, Reading>> = BTreeMap::new();
    for (object, reading) in &objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        kinds.entry(kind).or_default().insert(name, *reading);
    }
    ensure!(kinds.len() == 9, "{} kinds", kinds.len());
    let mut watches = tokio::task::JoinSet::new();
    for (kind, expected) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("drydock.dev", "v1alpha1", &kind));
        let api = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
        watches.spawn(async move { series(api, expected).await.context(kind) });
    }
    for (object, _) in &objects {
        scene.apply(object.clone()).await?;
    }
    while let Some(watched) = watches.join_next().await {
        watched??;
    }
    for (object, reading) in &objects {
        let name = format!(
            "{}/{}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        let wanted = if *reading == Current { "--for=condition=Ready" } else { "--for=condition=Stalled" };
        scene.drydock.kubectl(&["wait", "-n", &scene.namespace, wanted, &name, "--timeout=5s"]).await?;
    }
    for (name, wanted) in [("good", "Succeeded"), ("bad", "Succeeded=False"), ("refused", "Succeeded=False")]
    {
        let (run, wanted) = (format!("toolrun/{name}"), format!("--for=condition={wanted}"));
        scene.drydock.kubectl(&["wait", "-n", &scene.namespace, &wanted, &run, "--timeout=5s"]).await?;
    }
    scene.end().await
}
