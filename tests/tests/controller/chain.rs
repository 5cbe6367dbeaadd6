//! The whole chain with Drydock's own kinds and the real agent: an object is created, routed, claimed, executed and finished. What a
//! kubelet would say of the pod is said by the test.

use std::time::{Duration, Instant};

use drydock_controller::observe;
use drydock_crds::reference::InstanceKind;
use drydock_crds::tool::{Capability, Specific};
use drydock_crds::tool_run::Argument;
use drydock_crds::{ContainerInstance, Outcome, ProvisioningState, ToolRun, ToolRunSpec};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::agents::Agent;
use crate::harness::{BOUND, Controller, Server, eventually};

/// An instance that is `Active`, in a pod that the test makes believe runs.
async fn active(server: &Server, controller: &Controller, agent: &Agent) {
    server.instance("env", "").await;
    let instances: Api<ContainerInstance> = server.api();
    let wish = Patch::Merge(json!({"spec": {"desiredState": "Active"}}));
    instances.patch("env", &PatchParams::default(), &wish).await.unwrap();
    let pods: Api<Pod> = server.api();
    let pod = eventually("the pod", || async {
        let all = pods.list(&Default::default()).await.unwrap();
        all.items.into_iter().find(|p| p.name_any().contains("env"))
    })
    .await;
    let uid = pod.uid().unwrap();
    eventually("the certificate is pinned", || async {
        let status = json!({"status": {"podUid": uid, "agent": {"fingerprint": agent.identity.fingerprint}}});
        instances.patch_status("env", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let known = controller.context.stores.container_instances.get(crate::harness::NAMESPACE, "env")?;
        known.status.as_ref()?.agent.clone()
    })
    .await;
    let name = pod.name_any();
    let status = json!({"status": {
        "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
        "containerStatuses": [{
            "name": "main", "image": "busybox", "imageID": "busybox@sha256:0", "containerID": "containerd://1",
            "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    }});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    eventually("the environment is active", || async {
        let status = instances.get("env").await.unwrap().status?;
        (status.provisioning_state == Some(ProvisioningState::Active)).then_some(())
    })
    .await;
}

fn run(name: &str, command: &[&str]) -> ToolRun {
    ToolRun::new(
        name,
        ToolRunSpec {
            command: Some(command.iter().map(|a| Argument((*a).to_owned())).collect()),
            environment: Some(Capability {
                specific: Some(Specific { kind: Some(InstanceKind::ContainerInstance), name: "env".into() }),
                ..Capability::default()
            }),
            working_directory: Some("/".into()),
            ..ToolRunSpec::default()
        },
    )
}

/// Creates a run and answers what a watcher sees: how many changes, the last of them, and how long it took.
async fn watched(api: &Api<ToolRun>, run: &ToolRun) -> (usize, ToolRun, Duration) {
    let only = WatchParams::default().fields(&format!("metadata.name={}", run.name_any()));
    let version = api.list_metadata(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = std::pin::pin!(api.watch(&only, &version).await.unwrap());
    let began = Instant::now();
    api.create(&PostParams::default(), run).await.unwrap();
    let mut changes = 0;
    while let Some(event) = tokio::time::timeout(BOUND, events.try_next()).await.unwrap().unwrap() {
        changes += 1;
        if let WatchEvent::Modified(run) = event
            && run.status.as_ref().is_some_and(|s| s.outcome.is_some())
        {
            return (changes, run, began.elapsed());
        }
    }
    panic!("the watch ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_run_is_three_writes_and_no_event() {
    const RUNS: usize = 100;
    let server = Server::start("chain").await;
    let controller = server.controller(observe::kinds).await;
    controller.context.agents.set_epoch(1);
    let agent = Agent::start(&controller.context.installation.client_ca).await;
    controller.context.agents.set_port(agent.identity.port.unwrap());
    active(&server, &controller, &agent).await;
    let api: Api<ToolRun> = server.api();
    let (changes, ended, _) = watched(&api, &run("first", &["sh", "-c", "echo out; exit 3"])).await;
    let status = ended.status.unwrap();
    assert_eq!((status.outcome, status.exit_code), (Some(Outcome::NonZeroExit), Some(3)));
    assert_eq!(status.stdout.unwrap().head.as_deref(), Some("out\n"));
    assert_eq!(changes, 3, "created, claimed, finished");
    let before: Api<Event> = server.api();
    let before = before.list(&Default::default()).await.unwrap().items.len();
    let (mut whole, mut overhead) = (Vec::new(), Vec::new());
    for n in 0..RUNS {
        let (changes, ended, took) = watched(&api, &run(&format!("run-{n}"), &["true"])).await;
        let status = ended.status.unwrap();
        assert_eq!((status.outcome, changes), (Some(Outcome::Succeeded), 3));
        let tool = status.container.and_then(|c| c.exec_time_ms).unwrap_or(0);
        whole.push(took);
        overhead.push(took.saturating_sub(Duration::from_millis(u64::try_from(tool).unwrap())));
    }
    whole.sort();
    overhead.sort();
    println!("create to outcome of `true`: p50 {:?}, p99 {:?}", whole[RUNS / 2], whole[RUNS - 2]);
    println!("without the tool's own time: p50 {:?}, p99 {:?}", overhead[RUNS / 2], overhead[RUNS - 2]);
    let events: Api<Event> = server.api();
    assert_eq!(events.list(&Default::default()).await.unwrap().items.len(), before, "no event on success");
}
