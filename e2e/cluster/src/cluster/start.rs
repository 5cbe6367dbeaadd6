//! Brings a cluster up: what depends on nothing starts at once, everything else when what it needs is ready.

use std::time::{Duration, Instant};

use crate::command::report;
use crate::control_plane;
use crate::image::standard::{self, Standard};
use crate::kubectl::Kubectl;
use crate::layout::Layout;
use crate::node::Node;
use crate::options::{Options, Profile};
use crate::record::Record;
use crate::registry::{self, ImageReference, Registry};
use crate::{Result, addons, packages, tools, wait};

use super::blocking;

/// Starts everything of a new cluster and returns its record when all is ready.
pub(super) async fn bring_up(layout: &Layout, options: &Options, owned: bool) -> Result<Record> {
    match options.profile {
        Profile::Api => tools::build(tools::API_TOOLS).await?,
        Profile::Node => {
            packages::require_root()?;
            packages::install().await?;
            tools::build(tools::NODE_TOOLS).await?;
        }
    }
    let mut record = Record::create(layout, options, owned)?;
    match options.profile {
        Profile::Api => bring_up_api(layout, &record, options).await?,
        Profile::Node => bring_up_nodes(layout, &record, options).await?,
    }
    record.ready = true;
    record.save(layout)?;
    Ok(record)
}

async fn bring_up_api(layout: &Layout, record: &Record, options: &Options) -> Result<()> {
    let pki = control_plane::certificates(layout, record)?;
    let (_, api_server) = control_plane::start_api(layout, record, options, &pki, &[])?;
    let kubectl = Kubectl::new(&layout.kubeconfig(), Some(layout.kubectl_cache()))?;
    control_plane::wait_for_api(record, &kubectl, &api_server).await
}

async fn bring_up_nodes(layout: &Layout, record: &Record, options: &Options) -> Result<()> {
    let started = Instant::now();
    let ready = |what: &str| report(&format!("{what} after {:.1} s", started.elapsed().as_secs_f32()));
    let nodes = create_nodes(layout, record).await?;
    let first = &nodes[0];
    let pki = control_plane::certificates(layout, record)?;
    let (_, api_server) = control_plane::start_api(layout, record, options, &pki, &first.inside)?;
    let kubectl = Kubectl::new(&layout.kubeconfig(), Some(layout.kubectl_cache()))?;
    let registry = Registry::of_node(&first.address);

    let api = async {
        control_plane::wait_for_api(record, &kubectl, &api_server).await?;
        ready("API server ready");
        control_plane::start_controllers(layout, options, &pki, &first.inside)
    };
    let runtimes = async {
        for node in &nodes {
            node.start_runtime(layout, &registry.pod).await?;
        }
        Ok(())
    };
    let (dns, (), ()) = tokio::try_join!(start_registry(layout, first, &registry), api, runtimes)?;
    ready("registry and container runtime ready");
    for node in &nodes {
        node.start_agents(layout, record, options, &pki)?;
    }
    addons::apply(&kubectl, &dns, &first.name).await?;
    for node in &nodes {
        node.wait_ready(layout, &kubectl).await?;
        ready(&format!("node {} ready", node.name));
    }
    addons::wait_ready(&kubectl).await?;
    ready("DNS ready");
    Ok(())
}

async fn create_nodes(layout: &Layout, record: &Record) -> Result<Vec<Node>> {
    let slot = record.slot()?;
    let mut nodes = Vec::new();
    for number in 1..=record.nodes {
        let node = Node::create(layout, record, number).await?;
        node.link(slot, nodes.first().unwrap_or(&node))?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// Starts the registry with the images that the cluster itself runs; returns the DNS's.
async fn start_registry(layout: &Layout, node: &Node, registry: &Registry) -> Result<ImageReference> {
    let process = registry::start(layout, &node.inside)?;
    let images = [Standard::Pause.image().await?, Standard::CoreDns.image().await?];
    wait::until("the image registry", Duration::from_secs(20), Some(&process), || {
        let registry = registry.clone();
        async move { tokio::task::spawn_blocking(move || registry.ready()).await.map_err(|e| e.to_string())? }
    })
    .await?;
    let registry = registry.clone();
    let [pause, dns] = images;
    blocking(move || {
        registry.push(&pause, Standard::Pause.name(), standard::TAG)?;
        registry.push(&dns, Standard::CoreDns.name(), standard::TAG)
    })
    .await
}
