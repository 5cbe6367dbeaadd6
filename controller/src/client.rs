//! The client of the API server. It repeats nothing by itself (the loop decides again), sends small requests at once, and notices a peer
//! that is gone.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

const CONNECT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(20);

/// A client of the cluster that the environment says: a kubeconfig, or the pod's own service account.
///
/// # Errors
/// When no cluster is configured, or its configuration can't be used.
pub async fn infer() -> anyhow::Result<Client> {
    use anyhow::Context as _;
    let config = Config::infer().await.context("no cluster is configured")?;
    Ok(of(&config)?)
}

/// A client of a configured cluster.
///
/// Not kube's own: with that, TCP holds a small request back until the peer has acknowledged the one before, up to 40 ms.
///
/// # Errors
/// When a certificate or token can't be used.
pub fn of(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(3));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}
