//! An API server with Drydock's definitions, and a controller without its own kinds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use drydock_cluster::{Cluster, Options};
use drydock_controller::agent::{Credentials, Hub, Transport};
use drydock_controller::context::{Context, Parts};
use drydock_controller::reconcile::Loops;
use drydock_controller::store::{Scope, Stores};
use drydock_controller::{events, metrics};
use drydock_crds::{ContainerInstance, ContainerInstanceSpec};
use drydock_domain::settings::{Configuration, Installation};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Most time that anything here may take.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
/// The namespace of the tests.
pub(crate) const NAMESPACE: &str = "team";

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A server of its own for each test.
pub(crate) struct Server {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
}

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        if let Ok(filter) = std::env::var("DRYDOCK_LOG") {
            drydock_controller::telemetry::start(&filter, drydock_controller::telemetry::Format::Text);
        }
        let cluster = Cluster::start(Options::api(format!("{name}-{}", std::process::id()))).await.unwrap();
        let crds = root().join("crds");
        cluster.kubectl(&["apply", "-f", crds.to_str().unwrap()]).await.unwrap();
        let wait = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
        cluster.kubectl(&wait).await.unwrap();
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await.unwrap();
        let client = client(cluster.kubeconfig(), None).await;
        Self { cluster, client }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A controller with these kinds, which leads.
    pub(crate) async fn controller(&self, kinds: impl FnOnce(&mut Loops<'_>)) -> Controller {
        Controller::start(self.client.clone(), self.client.clone(), kinds).await
    }

    /// Creates an instance whose annotation `test/do` says what the kind made for tests does.
    pub(crate) async fn instance(&self, name: &str, what: &str) -> ContainerInstance {
        let spec = ContainerInstanceSpec { image: "busybox".into(), ..ContainerInstanceSpec::default() };
        let mut instance = ContainerInstance::new(name, spec);
        instance.metadata.annotations = Some(BTreeMap::from([("test/do".to_owned(), what.to_owned())]));
        self.api().create(&PostParams::default(), &instance).await.unwrap()
    }
}

/// A client of a kubeconfig's cluster, at another address where one is given.
pub(crate) async fn client(kubeconfig: &Path, address: Option<&str>) -> Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap();
    if let Some(address) = address {
        config.cluster_url = address.parse().unwrap();
    }
    drydock_controller::client::of(&config).unwrap()
}

/// A controller in this process; it ends when dropped.
pub(crate) struct Controller {
    pub(crate) context: Arc<Context>,
    _loops: JoinSet<()>,
    _informers: JoinSet<()>,
}

impl Controller {
    pub(crate) async fn start(client: Client, watches: Client, kinds: impl FnOnce(&mut Loops<'_>)) -> Self {
        let stores = Arc::new(Stores::new(Scope::Cluster));
        let metrics = Arc::new(metrics::Metrics::new());
        let (events, writer) = events::channel("test".into());
        tokio::spawn(writer.run(client.clone()));
        let credentials = Credentials::load(&client, "default").await.unwrap();
        let agents =
            Hub::new(client.clone(), stores.clone(), metrics.clone(), &credentials, Transport::Direct)
                .unwrap();
        let context = Arc::new(Context::new(Parts {
            client,
            stores: stores.clone(),
            agents,
            events,
            metrics: metrics.clone(),
            namespace: "default".into(),
            installation: Installation {
                tools_image: "tools".into(),
                pull_policy: None,
                client_ca: credentials.certificate().to_owned(),
            },
            configuration: Configuration::default(),
        }));
        metrics::watch_runs(&metrics, &stores);
        let (lead, stop) = (CancellationToken::new(), CancellationToken::new());
        let (mut loops, mut informers) = (JoinSet::new(), JoinSet::new());
        kinds(&mut Loops::new(&context, lead.clone(), stop, &mut loops));
        stores.start(&watches, &mut informers);
        lead.cancel();
        tokio::time::timeout(BOUND, stores.wait_ready()).await.unwrap();
        Self { context, _loops: loops, _informers: informers }
    }

    /// The value of a line of the metrics.
    pub(crate) fn metric(&self, line: &str) -> f64 {
        let text = self.context.metrics.text(&self.context.stores);
        let found = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }
}

/// Waits until `look` finds what it looks for.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let end = tokio::time::Instant::now() + BOUND;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "never seen: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
