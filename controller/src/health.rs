//! What the kubelet and people are told: `/healthz`, `/readyz` on one port, `/metrics` on another.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;
use crate::store::Stores;

/// An informer that has neither heard nor tried anything for this long hangs.
const HANGS: Duration = Duration::from_secs(180);

/// What is told.
pub struct Health {
    stores: Arc<Stores>,
    metrics: Arc<Metrics>,
    /// What is wrong with the configuration that isn't in force.
    configuration: Mutex<Option<String>>,
}

impl Health {
    /// All is well, once the stores are ready.
    pub fn new(stores: Arc<Stores>, metrics: Arc<Metrics>) -> Self {
        Self { stores, metrics, configuration: Mutex::default() }
    }

    /// Says what is wrong with a changed configuration; `None`: the file is in force.
    pub fn set_configuration(&self, problem: Option<String>) {
        *self.configuration.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Why the process must be started anew, if it must.
    pub fn is_dead(&self) -> Option<String> {
        let health = self.stores.health();
        let hanging = health.iter().find(|(_, h)| h.inaction() > HANGS)?;
        Some(format!("the informer of {} hangs", hanging.0))
    }

    /// Why the controller isn't ready, if it isn't.
    pub fn is_unready(&self) -> Option<String> {
        let health = self.stores.health();
        let missing: Vec<&str> =
            health.iter().filter(|(_, h)| !h.is_listed()).map(|(kind, _)| *kind).collect();
        if !missing.is_empty() {
            return Some(format!("not listed yet: {}", missing.join(", ")));
        }
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves both ports until the process ends.
    ///
    /// # Errors
    /// When a port can't be had.
    pub async fn serve(self: Arc<Self>, health: SocketAddr, metrics: SocketAddr) -> std::io::Result<()> {
        let live = self.clone();
        let ready = self.clone();
        let probes = Router::new()
            .route("/healthz", get(move || async move { answer(live.is_dead()) }))
            .route("/readyz", get(move || async move { answer(ready.is_unready()) }));
        let numbers = Router::new().route("/metrics", get(move || async move { self.numbers() }));
        let probes = axum::serve(listen(health).await?, probes);
        let numbers = axum::serve(listen(metrics).await?, numbers);
        tokio::select! {
            ended = async { probes.await } => ended,
            ended = async { numbers.await } => ended,
        }
    }

    fn numbers(&self) -> impl IntoResponse + use<> {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], self.metrics.text(&self.stores))
    }
}

/// Where a machine has no IPv6, every address means every IPv4 address.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() => {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn answer(problem: Option<String>) -> (StatusCode, String) {
    match problem {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
    }
}
