//! Puts the controller together, lets it work while it leads, and takes it apart in time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use drydock_domain::settings::Installation;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::{Credentials, Hub, Transport};
use crate::context::{Context, Parts};
use crate::health::Health;
use crate::leader::{Elector, Leadership};
use crate::metrics::Metrics;
use crate::reconcile::Loops;
use crate::store::{Scope, Stores};
use crate::{capabilities, client, configuration, events, metrics, observe, retention};

/// How long the passes that run may take to end.
const STOP: Duration = Duration::from_secs(7);
/// How long the API server is waited for at the start.
const START: Duration = Duration::from_secs(60);

/// What the controller is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The operator's configuration file
    #[arg(long, value_name = "PATH")]
    pub config: PathBuf,
    /// Work in this namespace alone; can be repeated. Default: in all
    #[arg(long = "watch-namespace", value_name = "NAME")]
    pub watch_namespaces: Vec<String>,
    /// The image with the agent and git
    #[arg(long, env = "DRYDOCK_AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: String,
    /// Its pull policy. Default: the cluster's
    #[arg(long, value_name = "POLICY")]
    pub agent_image_pull_policy: Option<String>,
    /// How agents are reached
    #[arg(long, value_enum, default_value_t)]
    pub agent_transport: Transport,
    /// The operator's own namespace
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = "drydock-system")]
    pub namespace: String,
    /// Name of this controller in events and in the lease
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "drydock-controller")]
    pub instance: String,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8081")]
    pub health_address: SocketAddr,
    /// Where /metrics is served
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,
}

/// What runs, before and while it leads.
struct Controller {
    context: Arc<Context>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    loops: JoinSet<()>,
    /// What never ends while all is well.
    services: JoinSet<anyhow::Result<()>>,
    informers: JoinSet<()>,
    lead: CancellationToken,
    stop: CancellationToken,
}

/// Runs the controller until it is told to stop.
///
/// # Errors
/// A bad configuration, a cluster that can't be reached at the start, a lost lease, and everything that ends though it shouldn't: the
/// process is to be started anew then.
pub async fn run(options: Options) -> anyhow::Result<()> {
    // Asked for at once, so that no signal is missed.
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let told = async move {
        tokio::select! { _ = term.recv() => {}, _ = interrupt.recv() => {} }
    };
    let mut told = std::pin::pin!(told);
    let started = tokio::select! {
        started = start(&options) => started?,
        () = &mut told => return Ok(()),
    };
    let mut controller = started;
    let elector =
        Elector::new(controller.context.client.clone(), &options.namespace, identity(&options.instance));
    let leadership = tokio::select! {
        leadership = elector.acquire() => leadership,
        ended = controller.watch() => return ended,
        () = &mut told => return Ok(()),
    };
    controller.leads(&leadership);
    let release = CancellationToken::new();
    let mut held = std::pin::pin!(leadership.hold(release.clone()));
    tokio::select! {
        _ = &mut held => bail!("the lease is lost: another controller leads"),
        ended = controller.watch() => return ended,
        () = &mut told => tracing::info!("told to stop"),
    }
    // The lease is kept while passes end, and given back after them.
    let stopped = timeout(STOP, controller.stop());
    tokio::select! {
        stopped = stopped => if stopped.is_err() { tracing::warn!("some passes didn't end in time") },
        _ = &mut held => bail!("the lease was lost while passes ended"),
    }
    release.cancel();
    held.await;
    Ok(())
}

async fn start(options: &Options) -> anyhow::Result<Controller> {
    let configuration = configuration::read(&options.config).await?;
    let client = client::infer().await?;
    let credentials = timeout(START, credentials(&client, &options.namespace)).await;
    let credentials = credentials.context("the API server didn't answer in time")??;
    let stores = Arc::new(Stores::new(scope(&options.watch_namespaces)));
    let metrics = Arc::new(Metrics::new());
    let (events, writer) = events::channel(options.instance.clone());
    let agents =
        Hub::new(client.clone(), stores.clone(), metrics.clone(), &credentials, options.agent_transport)?;
    let context = Arc::new(Context::new(Parts {
        client: client.clone(),
        stores: stores.clone(),
        agents,
        events,
        metrics: metrics.clone(),
        namespace: options.namespace.clone(),
        installation: Installation {
            tools_image: options.agent_image.clone(),
            pull_policy: options.agent_image_pull_policy.clone(),
            client_ca: credentials.certificate().to_owned(),
        },
        configuration,
    }));
    let health = Arc::new(Health::new(stores.clone(), metrics.clone()));
    let mut controller = Controller {
        context,
        health,
        metrics,
        loops: JoinSet::new(),
        services: JoinSet::new(),
        informers: JoinSet::new(),
        lead: CancellationToken::new(),
        stop: CancellationToken::new(),
    };
    controller.begin(options, writer, client).await?;
    Ok(controller)
}

impl Controller {
    /// Subscribes first, then listens: no change is missed.
    async fn begin(
        &mut self,
        options: &Options,
        writer: events::Writer,
        events: Client,
    ) -> anyhow::Result<()> {
        let context = &self.context;
        metrics::watch_runs(&self.metrics, &context.stores);
        observe::kinds(&mut Loops::new(context, self.lead.clone(), self.stop.clone(), &mut self.loops));
        // Watches have connections of their own, so that a burst of writes never waits for one.
        context.stores.start(&client::infer().await?, &mut self.informers);
        let (health, addresses) = (self.health.clone(), (options.health_address, options.metrics_address));
        self.services.spawn(async move {
            let served = health.serve(addresses.0, addresses.1).await;
            served.context("the health or metrics port can't be served")
        });
        self.services.spawn(async move {
            writer.run(events).await;
            Ok(())
        });
        let followed = configuration::follow(options.config.clone(), context.clone(), self.health.clone());
        self.services.spawn(async move {
            followed.await;
            Ok(())
        });
        Ok(())
    }

    fn leads(&mut self, leadership: &Leadership) {
        let epoch = leadership.epoch();
        tracing::info!(epoch, "this controller leads");
        self.context.agents.set_epoch(epoch);
        self.metrics.leads(true);
        let (swept, published) = (self.context.clone(), self.context.clone());
        self.services.spawn(async move {
            retention::sweep(swept).await;
            Ok(())
        });
        self.services.spawn(async move {
            capabilities::publish(published).await;
            Ok(())
        });
        self.lead.cancel();
    }

    /// Waits for the first thing that ends though it shouldn't.
    async fn watch(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            Some(ended) = self.loops.join_next() => bail!("a loop ended: {ended:?}"),
            Some(ended) = self.informers.join_next() => bail!("an informer ended: {ended:?}"),
            Some(ended) = self.services.join_next() => match ended {
                Ok(Err(error)) => Err(error),
                other => bail!("a service ended: {other:?}"),
            },
            else => bail!("nothing runs"),
        }
    }

    /// No new passes; those that run end.
    async fn stop(&mut self) {
        self.stop.cancel();
        while self.loops.join_next().await.is_some() {}
    }
}

/// Waits for an API server that is only just coming up.
async fn credentials(client: &Client, namespace: &str) -> anyhow::Result<Credentials> {
    loop {
        match Credentials::load(client, namespace).await {
            Ok(credentials) => return Ok(credentials),
            Err(
                error @ (crate::agent::CredentialsError::Api(_) | crate::agent::CredentialsError::Deadline),
            ) => {
                tracing::warn!(error = crate::reconcile::chain(&error), "the API server isn't reached yet");
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn scope(namespaces: &[String]) -> Scope {
    if namespaces.is_empty() {
        return Scope::Cluster;
    }
    let mut names = namespaces.to_vec();
    names.sort();
    names.dedup();
    Scope::Namespaces(names)
}

/// A name that no other process has, not even the next one of the same pod.
fn identity(instance: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{instance}_{:016x}", RandomState::new().hash_one(std::process::id()))
}
