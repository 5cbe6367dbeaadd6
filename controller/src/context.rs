//! What a pass may reach.

use std::sync::Arc;

use arc_swap::ArcSwap;
use drydock_domain::settings::{Configuration, Installation};
use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

use crate::agent::Hub;
use crate::conflict::Conflicts;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::refusal::Refusals;
use crate::store::Stores;

/// What a pass may reach. Observations read it; only `act` writes through it.
pub struct Context {
    /// The API server. Observations use it for the few reads that a store can't answer.
    pub client: kube::Client,
    /// What is known of the cluster.
    pub stores: Arc<Stores>,
    /// What is known of the agents, and how they are asked.
    pub agents: Arc<Hub>,
    /// Names that are taken by others.
    pub conflicts: Conflicts,
    /// What the API server refused to create.
    pub refusals: Refusals,
    /// Events for people.
    pub events: Events,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// The operator's own namespace.
    pub namespace: String,
    /// What the operator was installed with.
    pub installation: Installation,
    /// How many writes may be under way at once.
    pub(crate) writes: Semaphore,
    configuration: ArcSwap<Configuration>,
    changes: watch::Sender<u64>,
}

/// What a [`Context`] is made of.
pub struct Parts {
    /// The API server.
    pub client: kube::Client,
    /// Empty stores.
    pub stores: Arc<Stores>,
    /// The agents' hub.
    pub agents: Arc<Hub>,
    /// The events' queue.
    pub events: Events,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// The operator's own namespace.
    pub namespace: String,
    /// What the operator was installed with.
    pub installation: Installation,
    /// The configuration at the start.
    pub configuration: Configuration,
}

/// How many writes may be under way at once.
const WRITES: usize = 64;

impl Context {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self {
            client: parts.client,
            stores: parts.stores,
            agents: parts.agents,
            conflicts: Conflicts::default(),
            refusals: Refusals::default(),
            events: parts.events,
            metrics: parts.metrics,
            namespace: parts.namespace,
            installation: parts.installation,
            writes: Semaphore::new(WRITES),
            configuration: ArcSwap::from_pointee(parts.configuration),
            changes: watch::Sender::new(0),
        }
    }

    /// The time. Read once in a pass, by its observation.
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Arc<Configuration> {
        self.configuration.load_full()
    }

    /// Puts another configuration in force: every object is looked at again.
    pub fn set_configuration(&self, configuration: Configuration) {
        self.configuration.store(Arc::new(configuration));
        self.changes.send_modify(|n| *n += 1);
    }

    /// Tells when another configuration is in force.
    pub fn configuration_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
