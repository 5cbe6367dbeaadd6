//! What is measured, in the text format of Prometheus: controller-runtime's names where it has one, ours for the rest.

mod runs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::error::Class;
use crate::reconcile::Queue;
use crate::store::Stores;

pub use runs::watch as watch_runs;

type Labels = Vec<(&'static str, String)>;
type Timings = Family<Labels, Histogram, fn() -> Histogram>;

/// Everything that is measured.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    panics: Family<Labels, Counter>,
    durations: Timings,
    calls: Family<Labels, Counter>,
    outcomes: Family<Labels, Counter>,
    overhead: Histogram,
    /// Whether this controller leads.
    pub(crate) leads: Arc<AtomicBool>,
    leading: Gauge,
    sessions: Family<Labels, Gauge<i64, AtomicI64>>,
    queues: Mutex<BTreeMap<&'static str, Arc<Queue>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing is measured yet.
    pub fn new() -> Self {
        let fast: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let metrics = Self {
            registry: Registry::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            durations: Family::new_with_constructor(fast),
            calls: Family::default(),
            outcomes: Family::default(),
            overhead: Histogram::new(exponential_buckets(0.001, 1.6, 20)),
            leads: Arc::default(),
            leading: Gauge::default(),
            sessions: Family::default(),
            queues: Mutex::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        let mut counter = |name: &str, help: &str, family: &Family<Labels, Counter>| {
            registry.register(name, help, family.clone());
        };
        counter("controller_runtime_reconcile", "Passes, by controller and result", &self.reconciles);
        counter(
            "controller_runtime_reconcile_errors",
            "Passes that failed, by controller and class",
            &self.errors,
        );
        counter("controller_runtime_reconcile_panics", "Passes that panicked, by controller", &self.panics);
        counter("drydock_api_calls", "Calls of the API server by act, by verb and kind", &self.calls);
        counter("drydock_runs", "Tool runs that ended, by outcome", &self.outcomes);
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass, by controller",
            self.durations.clone(),
        );
        registry.register(
            "drydock_run_overhead_seconds",
            "Time from the moment a run was seen to its final status, without the tool's own time and without starts of environments",
            self.overhead.clone(),
        );
        registry.register(
            "drydock_agent_sessions",
            "Open channels to agents, by transport",
            self.sessions.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 where this controller leads",
            self.leading.clone(),
        );
        self
    }

    pub(crate) fn register_queue(&self, name: &'static str, queue: Arc<Queue>) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.insert(name, queue);
    }

    pub(crate) fn reconciled(&self, kind: &'static str, result: &str, took: Duration) {
        let labels = vec![("controller", kind.to_owned()), ("result", result.to_owned())];
        self.reconciles.get_or_create(&labels).inc();
        let labels = vec![("controller", kind.to_owned())];
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, kind: &'static str, class: Class) {
        let labels = vec![("controller", kind.to_owned()), ("class", class.as_str().to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    pub(crate) fn panicked(&self, kind: &'static str) {
        self.panics.get_or_create(&vec![("controller", kind.to_owned())]).inc();
    }

    pub(crate) fn called(&self, verb: &'static str, kind: &str) {
        let labels = vec![("verb", verb.to_owned()), ("kind", kind.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }

    pub(crate) fn session(&self, transport: &'static str, change: i64) {
        let labels = vec![("transport", transport.to_owned())];
        self.sessions.get_or_create(&labels).inc_by(change);
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leads.store(leads, std::sync::atomic::Ordering::Relaxed);
        self.leading.set(leads.into());
    }

    /// Everything, as text.
    pub fn text(&self, stores: &Stores) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.truncate(end);
        self.write_queues(&mut text);
        write_stores(&mut text, stores);
        text.push_str("# EOF\n");
        text
    }

    fn write_queues(&self, text: &mut String) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        gauge(
            text,
            "workqueue_depth",
            "Objects that wait for a place",
            "name",
            queues.iter().map(|(n, q)| (*n, q.depth() as f64)),
        );
        gauge(
            text,
            "workqueue_unfinished_work_seconds",
            "How long the first of them has waited",
            "name",
            queues.iter().map(|(n, q)| (*n, q.oldest().as_secs_f64())),
        );
        gauge(
            text,
            "controller_runtime_active_workers",
            "Passes under way",
            "controller",
            queues.iter().map(|(n, q)| (*n, q.active() as f64)),
        );
    }
}

fn write_stores(text: &mut String, stores: &Stores) {
    gauge(
        text,
        "drydock_store_objects",
        "Objects in memory",
        "kind",
        stores.sizes().into_iter().map(|(kind, n)| (kind, n as f64)),
    );
    let health = stores.health();
    gauge(
        text,
        "drydock_watch_silence_seconds",
        "Time since the last sign of life of a watch",
        "kind",
        health.iter().map(|(kind, h)| (*kind, h.silence().as_secs_f64())),
    );
    gauge(
        text,
        "drydock_watch_errors",
        "Lists and watches that failed",
        "kind",
        health.iter().map(|(kind, h)| (*kind, h.errors() as f64)),
    );
}

fn gauge<'a>(
    text: &mut String,
    name: &str,
    help: &str,
    label: &str,
    values: impl Iterator<Item = (&'a str, f64)>,
) {
    // Writing to a String can't fail.
    let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n");
    for (value, number) in values {
        let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {number}");
    }
}
