//! The loop and the interpreter of effects.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use drydock_crds::reference::LocalRef;
use drydock_crds::tool_run::Argument;
use drydock_crds::{ContainerInstance, ToolRun, ToolRunSpec, label};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::{BOUND, Controller, NAMESPACE, Server, eventually};
use crate::kinds;

fn pod_name(instance: &ContainerInstance) -> Option<String> {
    instance.status.as_ref()?.pod_name.clone()
}

async fn with_pod_name(server: &Server, name: &str, wanted: &str) -> ContainerInstance {
    let api: Api<ContainerInstance> = server.api();
    eventually(&format!("{name} is {wanted}"), || async {
        let found = api.get(name).await.unwrap();
        (pod_name(&found).as_deref() == Some(wanted)).then_some(found)
    })
    .await
}

#[tokio::test]
async fn effects_and_statuses_reach_the_server_and_nothing_is_written_when_nothing_changed() {
    let server = Server::start("loop").await;
    let controller = server.controller(kinds::scripted).await;
    for what in ["write-ahead", "create", "apply", "finalizer", "later", "notice"] {
        server.instance(what, what).await;
    }
    for (name, wanted) in [
        ("write-ahead", "started"),
        ("create", "ours"),
        ("apply", "applied"),
        ("finalizer", "held"),
        ("later", "due"),
    ] {
        with_pod_name(&server, name, wanted).await;
    }
    let maps: Api<ConfigMap> = server.api();
    let applied = maps.get("apply").await.unwrap();
    let manager =
        applied.managed_fields().iter().find(|f| f.manager.as_deref() == Some(label::FIELD_MANAGER));
    assert_eq!(manager.and_then(|f| f.operation.as_deref()), Some("Apply"));
    let events: Api<Event> = server.api();
    let event =
        eventually("an event", || async { events.list(&Default::default()).await.unwrap().items.pop() })
            .await;
    assert_eq!(event.reason.as_deref(), Some("StartFailed"));
    assert_eq!(event.regarding.and_then(|r| r.name).as_deref(), Some("notice"));

    stays_at_rest(&server, &controller).await;
    server.api::<ContainerInstance>().delete("finalizer", &DeleteParams::default()).await.unwrap();
    eventually("the finalizer is off", || async {
        server.api::<ContainerInstance>().get_opt("finalizer").await.unwrap().is_none().then_some(())
    })
    .await;
}

/// A second pass of everything writes nothing.
async fn stays_at_rest(server: &Server, controller: &Controller) {
    let versions = || async {
        let all = server.api::<ContainerInstance>().list(&Default::default()).await.unwrap();
        all.items.iter().map(|i| (i.name_any(), i.resource_version())).collect::<BTreeMap<_, _>>()
    };
    let before = versions().await;
    let passes = controller
        .metric("controller_runtime_reconcile_total{controller=\"ContainerInstance\",result=\"success\"}");
    let configuration = controller.context.configuration().as_ref().clone();
    controller.context.set_configuration(configuration);
    eventually("a pass of each object", || async {
        let now = controller.metric(
            "controller_runtime_reconcile_total{controller=\"ContainerInstance\",result=\"success\"}",
        );
        (now >= passes + 6.0).then_some(())
    })
    .await;
    assert_eq!(versions().await, before);
}

#[tokio::test]
async fn a_name_taken_by_another_is_a_fact_and_a_create_that_was_ours_is_success() {
    let server = Server::start("taken").await;
    let maps: Api<ConfigMap> = server.api();
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("foreign".into());
    maps.create(&PostParams::default(), &foreign).await.unwrap();
    let controller = server.controller(kinds::scripted).await;
    server.instance("foreign", "create").await;
    with_pod_name(&server, "foreign", "foreign").await;
    let left = maps.get("foreign").await.unwrap();
    assert!(left.owner_references().is_empty() && left.data.is_none(), "nothing of it was touched");
    drop(controller);

    // A create whose answer was lost: the object is there, ours, and no store knows it yet.
    let ours = server.instance("lost-answer", "").await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("lost-answer".into());
    map.metadata.owner_references = drydock_domain::decision::owner_reference(&ours).map(|o| vec![o]);
    maps.create(&PostParams::default(), &map).await.unwrap();
    let _controller = server.controller(kinds::scripted).await;
    let patch = json!({"metadata": {"annotations": {"test/do": "create"}}});
    let instances: Api<ContainerInstance> = server.api();
    instances.patch("lost-answer", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    // Without the label it is in no store: the create meets it each time, and is success each time.
    let merge = json!({"metadata": {"labels": {label::MANAGED_BY: label::MANAGER}}});
    maps.patch("lost-answer", &PatchParams::default(), &Patch::Merge(merge)).await.unwrap();
    with_pod_name(&server, "lost-answer", "ours").await;
}

#[tokio::test]
async fn a_poisoned_object_is_left_alone_and_hurts_no_other() {
    let server = Server::start("poison").await;
    let controller = server.controller(kinds::scripted).await;
    server.instance("poison", "panic").await;
    let panics = "controller_runtime_reconcile_panics_total{controller=\"ContainerInstance\"}";
    eventually("a panic", || async { (controller.metric(panics) > 0.0).then_some(()) }).await;
    server.instance("healthy", "write-ahead").await;
    with_pod_name(&server, "healthy", "started").await;
    assert!(controller.metric(panics) <= 3.0, "it backs off");

    // What it asks for has changed: it is tried at once, although it backs off.
    let patch = json!({"metadata": {"annotations": {"test/do": "write-ahead"}}, "spec": {"image": "other"}});
    let instances: Api<ContainerInstance> = server.api();
    instances.patch("poison", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    with_pod_name(&server, "poison", "started").await;
}

#[tokio::test]
async fn a_status_over_a_stale_view_is_refused_and_decided_again() {
    let server = Server::start("stale").await;
    let controller = server.controller(kinds::scripted).await;
    // Two writers: every object is changed by somebody else as soon as it is there.
    let instances: Api<ContainerInstance> = server.api();
    for n in 0..20 {
        let name = format!("busy-{n}");
        server.instance(&name, "write-ahead").await;
        for round in 0..5 {
            let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
            instances.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    }
    for n in 0..20 {
        with_pod_name(&server, &format!("busy-{n}"), "started").await;
    }
    let errors =
        "controller_runtime_reconcile_errors_total{controller=\"ContainerInstance\",class=\"refused\"}";
    assert!(controller.metric(errors) < 1.0);
}

fn run(name: &str) -> ToolRun {
    ToolRun::new(
        name,
        ToolRunSpec {
            command: Some(vec![Argument("true".into())]),
            workspace_ref: Some(LocalRef::new("shop")),
            ..ToolRunSpec::default()
        },
    )
}

/// Creates a run and waits until a watcher sees its outcome.
async fn timed(api: &Api<ToolRun>, name: &str) -> Duration {
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let version = api.list_metadata(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = std::pin::pin!(api.watch(&only, &version).await.unwrap());
    let began = Instant::now();
    api.create(&PostParams::default(), &run(name)).await.unwrap();
    while let Some(event) = tokio::time::timeout(BOUND, events.try_next()).await.unwrap().unwrap() {
        if let WatchEvent::Modified(run) = event
            && run.status.is_some_and(|s| s.outcome.is_some())
        {
            return began.elapsed();
        }
    }
    panic!("the watch of {name} ended");
}

/// What the API server takes for the same three writes.
async fn bare_cycle(api: &Api<ToolRun>, name: &str) -> Duration {
    let began = Instant::now();
    api.create(&PostParams::default(), &run(name)).await.unwrap();
    for outcome in
        [json!({"claim": {"attempt": 1, "podUid": "pod", "bootId": "boot"}}), json!({"outcome": "Succeeded"})]
    {
        let patch = Patch::Merge(json!({"status": outcome}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_takes_two_status_writes_and_no_time_of_its_own() {
    const RUNS: usize = 200;
    let server = Server::start("fast").await;
    let mut bare = Vec::new();
    for n in 0..100 {
        bare.push(bare_cycle(&server.api(), &format!("bare-{n}")).await);
    }
    bare.sort();
    let controller = server.controller(kinds::instant).await;
    let api: Api<ToolRun> = server.api();
    timed(&api, "warm").await;
    let mut times = Vec::new();
    for n in 0..RUNS {
        times.push(timed(&api, &format!("run-{n}")).await);
    }
    times.sort();
    println!("create and two statuses by one client: p50 {:?}, p99 {:?}", bare[50], bare[98]);
    println!("create to outcome: p50 {:?}, p99 {:?}", times[RUNS / 2], times[RUNS * 99 / 100]);
    let writes = controller.metric("drydock_api_calls_total{verb=\"update the status of\",kind=\"ToolRun\"}");
    assert_eq!(writes, ((RUNS + 1) * 2) as f64, "claim and outcome, and nothing else");
    let events: Api<Event> = Api::namespaced(server.client.clone(), NAMESPACE);
    assert!(events.list(&Default::default()).await.unwrap().items.is_empty());

    let began = Instant::now();
    futures::future::join_all((0..500).map(|n| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &run(&format!("burst-{n}"))).await.unwrap() }
    }))
    .await;
    let open = drydock_controller::store::index_name::OPEN;
    eventually("every run of the burst ended", || async {
        let view = controller.context.stores.tool_runs.read();
        (view.count(open, NAMESPACE, "") == 0).then_some(())
    })
    .await;
    println!("500 runs at once: {:.0} a second", 500.0 / began.elapsed().as_secs_f64());
}
