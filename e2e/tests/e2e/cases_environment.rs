//! Environments: one pod each, the right container, their time, and what is left of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use drydock_crds::instance::ProvisioningState;
use drydock_crds::{ContainerInstance, DevcontainerInstance, label};
use drydock_e2e::Scene;
use drydock_e2e::cli::{outcome, to};
use drydock_e2e::scene::condition;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PropagationPolicy, WatchEvent, WatchParams};
use serde_json::{Value, json};

async fn in_state(scene: &Scene, name: &str, state: ProvisioningState) -> Result<ContainerInstance> {
    scene
        .wait(name, 90, move |c: &ContainerInstance| {
            c.status.as_ref().is_some_and(|s| s.provisioning_state == Some(state))
        })
        .await
}

async fn labelled<K>(scene: &Scene) -> Result<Vec<String>>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let ours = ListParams::default().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGER));
    let found = scene.api::<K>().list(&ours).await?;
    Ok(found.items.iter().map(|o| format!("{}/{}", K::kind(&()), o.name_any())).collect())
}

#[tokio::test]
async fn b088_the_tool_s_container_is_chosen_by_name() -> Result<()> {
    let scene = Scene::new("b088").await?;
    let policy = injects_a_sidecar(&scene);
    for object in &policy {
        cluster_wide(&scene, object).await?;
    }
    // A policy is in force some time after it was made.
    let injected =
        |pod: &Pod| pod.spec.as_ref().is_some_and(|s| s.containers.iter().any(|c| c.name == "sidecar"));
    let pods: Api<Pod> = scene.api();
    let probe = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "main", "image": scene.image, "command": ["sleep", "1"]}]}});
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let made = pods.create(&Default::default(), &serde_json::from_value(probe.clone())?).await?;
        pods.delete("probe", &DeleteParams::default().grace_period(0)).await?;
        scene.gone::<Pod>("probe", 30).await?;
        if injected(&made) {
            break;
        }
        ensure!(Instant::now() < end, "the policy is never in force");
    }
    scene.container("box", scene.image, json!({})).await?;
    let ran = scene.plugin(&["run", "ctr/box", "--", "cat", "/etc/hostname"]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let pod = pods.get(ran.text().trim()).await?;
    ensure!(injected(&pod), "the sidecar is missing: {:?}", pod.spec);
    let (uid, version) = (pod.uid(), pod.resource_version());
    // The sidecar has failed by then, which is nobody's business but its own.
    let name = pod.name_any();
    scene
        .wait(&name, 60, |p: &Pod| {
            let statuses = p.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            statuses
                .into_iter()
                .flatten()
                .any(|s| s.name == "sidecar" && s.state.as_ref().is_some_and(|s| s.terminated.is_some()))
        })
        .await?;
    let ran = scene.plugin(&["run", "ctr/box", "--", "sh", "-c", "echo out; exit 3"]).await?;
    ensure!(ran.code == Some(3) && ran.text() == "out\n", "{ran:?}");
    let now = pods.get(&name).await?;
    ensure!(now.uid() == uid && now.resource_version() >= version, "the pod was replaced");
    for object in policy {
        let kind = format!(
            "{}/{}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        scene.drydock.kubectl(&["delete", &kind]).await?;
    }
    scene.end().await
}

async fn cluster_wide(scene: &Scene, object: &Value) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), object.to_string())?;
    let path = file.path().display().to_string();
    scene.drydock.kubectl(&["apply", "-f", &path]).await.map(drop)
}

/// Puts a container that fails before all others of a namespace's pods.
fn injects_a_sidecar(scene: &Scene) -> [Value; 2] {
    let name = &scene.namespace;
    let sidecar = format!(
        "[JSONPatch{{op: \"add\", path: \"/spec/containers/0\", value: Object.spec.containers{{name: \"sidecar\", image: \"{}\", command: [\"sh\", \"-c\", \"exit 1\"]}}}}]",
        scene.image
    );
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                },
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": sidecar}}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name},
        }),
    ]
}

#[tokio::test]
async fn b091_a_timeout_stops_the_work_and_leaves_the_environment() -> Result<()> {
    let scene = Scene::new("b091").await?;
    scene.container("box", scene.image, json!({})).await?;
    let spec = json!({"environment": to("box"), "timeoutSeconds": 3,
        "command": ["sh", "-c", "while :; do date >>/tmp/t; sleep 0.2; done"]});
    let run = scene.run("loop", spec).await?;
    let status = run.status.as_ref().context("it has a status")?;
    ensure!(outcome(&run) == "TimedOut", "{status:?}");
    ensure!(status.duration_ms.is_some_and(|d| (3000..30_000).contains(&d)), "{status:?}");
    let audit = status.container.as_ref().context("it ran in a container")?;
    ensure!(
        audit.timed_out == Some(true) && audit.exec_time_ms.is_some_and(|d| (3000..4500).contains(&d)),
        "{audit:?}"
    );
    let grown = "a=$(wc -l </tmp/t); sleep 1; b=$(wc -l </tmp/t); echo $a $b; [ $a -gt 5 ] && [ $a = $b ]";
    let ran = scene.plugin(&["run", "ctr/box", "--script", grown]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let ran = scene.plugin(&["run", "ctr/box", "--run-timeout", "1s", "--", "sleep", "60"]).await?;
    ensure!(ran.code == Some(124) && ran.stderr.contains("timed out after 1s"), "{ran:?}");
    let instance = scene.api::<ContainerInstance>().get("box").await?;
    ensure!(condition(instance.status.as_ref().map(|s| &s.conditions[..]), "Ready"), "{instance:?}");
    scene.end().await
}

#[tokio::test]
async fn b096_who_only_looks_moves_no_expiry() -> Result<()> {
    let scene = Scene::new("b096").await?;
    scene.container("box", scene.image, json!({"idleTimeout": "12s"})).await?;
    scene.run("only", json!({"environment": to("box"), "command": ["echo", "hi"]})).await?;
    let begun = Instant::now();
    let looking = async {
        loop {
            scene.kubectl(&["get", "ctr,trun"]).await?;
            let logs = scene.plugin(&["logs", "trun/only"]).await?;
            ensure!(logs.text() == "hi\n", "{logs:?}");
            scene.plugin(&["explain", "ctr/box"]).await?;
        }
    };
    let stopped = in_state(&scene, "box", ProvisioningState::Stopped);
    let stopped: Result<ContainerInstance> =
        tokio::select! { error = looking => error, stopped = stopped => stopped };
    stopped?;
    ensure!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
    let logs = scene.plugin(&["logs", "trun/only"]).await?;
    ensure!(logs.code == Some(0) && logs.text() == "hi\n", "{logs:?}");
    scene.end().await
}

#[tokio::test]
async fn b107_one_environment_never_has_two_pods() -> Result<()> {
    let scene = Scene::new("b107").await?;
    let pods: Api<Pod> = scene.api();
    let environment = format!("{}=environment", label::ROLE);
    let mut changes = pods.watch(&WatchParams::default().labels(&environment), "0").await?.boxed();
    let counted = tokio::spawn(async move {
        let (mut alive, mut most, mut all) = (BTreeSet::new(), 0, BTreeSet::new());
        while let Some(Ok(event)) = changes.next().await {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    let over = pod.status.as_ref().and_then(|s| s.phase.clone());
                    all.insert(pod.uid());
                    if matches!(over.as_deref(), Some("Succeeded" | "Failed")) {
                        alive.remove(&pod.uid());
                    } else {
                        alive.insert(pod.uid());
                    }
                }
                WatchEvent::Deleted(pod) if pod.name_any() == "end" => break,
                WatchEvent::Deleted(pod) => drop(alive.remove(&pod.uid())),
                _ => {}
            }
            most = most.max(alive.len());
        }
        (most, all.len())
    });
    let missing = format!("{}-that-is-not-there", scene.image);
    for number in 0..20 {
        let env = json!([{"name": "N", "value": number.to_string()}]);
        let spec = json!({"desiredState": "Active", "env": env});
        scene.container("box", if number < 15 { &missing } else { scene.image }, spec).await?;
    }
    let ran = scene.plugin(&["run", "ctr/box", "--", "printenv", "N"]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    for pod in pods.list(&ListParams::default().labels(&environment)).await?.items {
        ensure!(pod.metadata.owner_references.as_ref().is_some_and(|o| o.len() == 1), "{:?}", pod.metadata);
    }
    let marker = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "end", "labels": {label::ROLE: "environment"}},
        "spec": {"containers": [{"name": "end", "image": scene.image, "command": ["true"]}]}});
    scene.kubectl(&["delete", "ctr", "box"]).await?;
    let end = Instant::now() + Duration::from_secs(60);
    while !pods.list(&ListParams::default().labels(&environment)).await?.items.is_empty() {
        ensure!(Instant::now() < end, "the pod outlives its environment");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    pods.create(&Default::default(), &serde_json::from_value(marker)?).await?;
    pods.delete("end", &DeleteParams::default().grace_period(0)).await?;
    let (most, all) = counted.await?;
    ensure!(most == 1, "{most} pods at once, {all} in all");
    ensure!(all <= 22, "{all} pods for 20 changes");
    scene.end().await
}

const WITH_VOLUME: &str = r#"{"image": "IMAGE", "mounts": ["type=volume,source=cache,target=/cache"]}"#;

#[tokio::test]
async fn b109_a_new_environment_never_takes_a_claim_that_goes() -> Result<()> {
    let scene = Scene::new("b109").await?;
    let definition = WITH_VOLUME.replace("IMAGE", scene.image);
    scene.workspace("shop", &[(".devcontainer/devcontainer.json", &definition)]).await?;
    let instance = json!({"kind": "DevcontainerInstance", "metadata": {"name": "mine"}, "spec": {"workspaceRef": {"name": "shop"}}});
    scene.apply(instance.clone()).await?;
    let ran = scene
        .plugin(&["run", "dc/mine", "--script", "echo old > /cache/x; trap '' TERM; cat /etc/hostname"])
        .await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let claim = async || {
        let made: DevcontainerInstance = scene.api().get("mine").await?;
        let volumes = made.status.map(|s| s.volumes).unwrap_or_default();
        volumes.first().map(|v| v.claim_name.clone()).context("the volume has a claim")
    };
    let before = claim().await?;
    scene.api::<DevcontainerInstance>().delete("mine", &DeleteParams::background()).await?;
    scene.apply(instance).await?;
    let ran = scene.plugin(&["run", "dc/mine", "--", "ls", "-A", "/cache"]).await?;
    ensure!(ran.code == Some(0) && !ran.text().contains('x'), "{ran:?}");
    let after = claim().await?;
    ensure!(before != after, "the claim {before} was to go with its environment");
    let claims: Api<PersistentVolumeClaim> = scene.api();
    ensure!(claims.get(&after).await?.metadata.deletion_timestamp.is_none());
    scene.gone::<PersistentVolumeClaim>(&before, 90).await?;
    scene.end().await
}

#[tokio::test]
async fn b111_nothing_of_a_deleted_object_is_left() -> Result<()> {
    let scene = Scene::new("b111").await?;
    let definition = WITH_VOLUME.replace("IMAGE", scene.image);
    let files = [(".devcontainer/devcontainer.json", definition.as_str())];
    scene.workspace("shop", &files).await?;
    scene.container("box", scene.image, json!({})).await?;
    for place in ["dc/shop", "ctr/box"] {
        let ran = scene.plugin(&["run", place, "--", "true"]).await?;
        ensure!(ran.code == Some(0), "{ran:?}");
    }
    scene
        .kubectl(&[
            "patch",
            "ws",
            "shop",
            "--type=merge",
            "-p",
            r#"{"spec":{"storage":{"reclaim":{"policy":"Delete"}}}}"#,
        ])
        .await?;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    scene.api::<ContainerInstance>().delete("box", &orphan).await?;
    scene.kubectl(&["delete", "ws", "shop", "--timeout=90s"]).await?;
    scene.kubectl(&["delete", "trun", "--all", "--timeout=60s"]).await?;
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let mut left = labelled::<Pod>(&scene).await?;
        left.extend(labelled::<PersistentVolumeClaim>(&scene).await?);
        left.extend(labelled::<k8s_openapi::api::core::v1::ConfigMap>(&scene).await?);
        left.extend(labelled::<k8s_openapi::api::core::v1::Secret>(&scene).await?);
        left.extend(labelled::<k8s_openapi::api::core::v1::Service>(&scene).await?);
        left.extend(labelled::<k8s_openapi::api::coordination::v1::Lease>(&scene).await?);
        left.extend(
            scene
                .api::<DevcontainerInstance>()
                .list(&ListParams::default())
                .await?
                .items
                .iter()
                .map(ResourceExt::name_any),
        );
        if left.is_empty() {
            return scene.end().await;
        }
        ensure!(Instant::now() < end, "left: {left:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
