//! What a stopped environment costs: a run's create to its end there, beside a bare pod of the same image from create to Ready.

use std::time::{Duration, Instant};

use anyhow::Result;
use drydock_crds::DevcontainerInstance;
use drydock_crds::ProvisioningState;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;

use crate::site::{NAME, Site};
use crate::statistics::Spread;
use crate::table::Table;

/// Both by turns.
///
/// # Errors
/// What fails first.
pub(crate) async fn run(site: &Site, table: &mut Table, times: usize) -> Result<()> {
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for number in 0..times {
        bare.push(pod(site, number).await?);
        stop(site, number).await?;
        ours.push(site.run().await?);
    }
    let (bare, ours) = (Spread::of(bare), Spread::of(ours));
    table.milliseconds("a bare pod, create to Ready", &bare, &[]);
    let added = ours.quantile(0.5) - bare.quantile(0.5);
    let verdict = if added < 300.0 { "met" } else { "missed" };
    table.row(
        "a run in a stopped environment, create to end without the tool",
        ours.to_string(),
        format!("< 300 ms more, p50: {added:.0} {verdict}"),
    );
    Ok(())
}

async fn pod(site: &Site, number: usize) -> Result<Duration> {
    let pods = site.scene.api::<Pod>();
    let name = format!("bare-{number}");
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "tool", "image": site.scene.image, "command": ["sleep", "3600"]}],
    }}))?;
    let begin = Instant::now();
    let ready = await_condition(pods.clone(), &name, is_ready());
    pods.create(&PostParams::default(), &pod).await?;
    ready.await?;
    let spent = begin.elapsed();
    let uid = pods.get(&name).await?.uid().unwrap_or_default();
    pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
    await_condition(pods, &name, conditions::is_deleted(&uid)).await?;
    Ok(spent)
}

fn is_ready() -> impl kube::runtime::wait::Condition<Pod> {
    |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    }
}

async fn stop(site: &Site, number: usize) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {"drydock.dev/stop": format!("{number}")}}});
    let instances = site.scene.api::<DevcontainerInstance>();
    instances.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let stopped = |i: &DevcontainerInstance| {
        i.status.as_ref().is_some_and(|s| s.provisioning_state == Some(ProvisioningState::Stopped))
    };
    site.scene.wait(NAME, 60, stopped).await.map(drop)
}
