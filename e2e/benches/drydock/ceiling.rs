//! What the API server alone can do: create, two status updates and a delete of an object of the same size and the same schema as a
//! tool run, of a kind that nobody watches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use drydock_crds::ToolRun;
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::site::Site;
use crate::statistics::Spread;

const GROUP: &str = "bench.drydock.dev";
const WARM: usize = 50;
const SINGLY: usize = 200;

/// Cycles one by one, then `count` of them, `places` at once. Answers the time of the former and the rate of the latter.
///
/// # Errors
/// What the API server says.
pub(crate) async fn run(site: &Site, places: usize, count: usize) -> Result<(Spread, f64)> {
    define(site).await?;
    let sample = site.scene.api::<ToolRun>().list(&ListParams::default().limit(1)).await?;
    let sample = sample.items.into_iter().next().context("there is no run to copy")?;
    let cycle = Cycle::of(site, &sample)?;
    let next = AtomicUsize::new(0);
    let mut spent = Vec::new();
    for _ in 0..WARM + SINGLY {
        spent.push(cycle.once(next.fetch_add(1, Ordering::Relaxed)).await?);
    }
    let spread = Spread::of(spent.split_off(WARM));
    let (begin, taken) = (Instant::now(), AtomicUsize::new(0));
    let place = || async {
        while taken.fetch_add(1, Ordering::Relaxed) < count {
            cycle.once(next.fetch_add(1, Ordering::Relaxed)).await?;
        }
        anyhow::Ok(())
    };
    try_join_all((0..places).map(|_| place())).await?;
    Ok((spread, count as f64 / begin.elapsed().as_secs_f64()))
}

/// The definition of tool runs once more, in a group of the benchmark's own.
async fn define(site: &Site) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(site.scene.client.clone());
    let mut own = serde_json::to_value(definitions.get("toolruns.drydock.dev").await?)?;
    let name = format!("toolruns.{GROUP}");
    own["metadata"] = json!({"name": name});
    own["spec"]["group"] = GROUP.into();
    own["spec"]["names"]["categories"] = json!([]);
    own["spec"]["names"]["shortNames"] = json!([]);
    own["apiVersion"] = "apiextensions.k8s.io/v1".into();
    own["kind"] = "CustomResourceDefinition".into();
    own.as_object_mut().context("a definition is an object")?.remove("status");
    definitions.patch(&name, &PatchParams::apply("e2e").force(), &Patch::Apply(&own)).await?;
    await_condition(definitions, &name, conditions::is_crd_established()).await?;
    Ok(())
}

/// What is written.
struct Cycle {
    objects: Api<DynamicObject>,
    spec: Value,
    /// As the controller's two writes.
    statuses: [Value; 2],
}

impl Cycle {
    fn of(site: &Site, sample: &ToolRun) -> Result<Self> {
        let mut resource = ApiResource::erase::<ToolRun>(&());
        resource.group = GROUP.to_owned();
        resource.api_version = format!("{GROUP}/{}", resource.version);
        let last = serde_json::to_value(&sample.status)?;
        let mut first = last.clone();
        let early = ["route", "claim", "effective", "conditions", "observedGeneration"];
        if let Some(fields) = first.as_object_mut() {
            fields.retain(|key, _| early.contains(&key.as_str()));
        }
        Ok(Self {
            objects: Api::namespaced_with(site.scene.client.clone(), &site.scene.namespace, &resource),
            spec: serde_json::to_value(&sample.spec)?,
            statuses: [first, last],
        })
    }

    async fn once(&self, number: usize) -> Result<Duration> {
        let name = format!("cycle-{number}");
        let begin = Instant::now();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": format!("{GROUP}/{}", drydock_crds::VERSION), "kind": "ToolRun",
            "metadata": {"name": name}, "spec": self.spec,
        }))?;
        let mut object = self.objects.create(&PostParams::default(), &object).await?;
        for status in &self.statuses {
            object.data["status"] = status.clone();
            object = self.objects.replace_status(&name, &PostParams::default(), &object).await?;
        }
        self.objects.delete(&name, &DeleteParams::default()).await?;
        Ok(begin.elapsed())
    }
}
