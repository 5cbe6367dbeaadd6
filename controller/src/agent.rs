//! The agents of environment pods: what is known of them, and how they are asked.
//!
//! Each pod has a session: a task that keeps a channel to its agent, carries out what was asked for and turns the answers into facts.
//! Facts live in memory only and are dropped with what they are about. Nothing here writes to the cluster, and nothing here decides:
//! what isn't known after a restart is asked again by the decisions.

mod attempt;
mod credentials;
mod direct;
mod exec;
mod facts;
mod orphan;
mod request;
mod seal;
mod session;
mod transport;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::agent::{AgentCall, AgentFacts, AttemptFact, PodRef};
use drydock_domain as domain;
use kube::{Client, ResourceExt};

use crate::metrics::Metrics;
use crate::reconcile::AgentChange;
use crate::store::Stores;

pub use credentials::{Credentials, CredentialsError};
pub use transport::Transport;

use facts::Facts;
use session::Session;

type Subscriber = Box<dyn Fn(&AgentChange) + Send + Sync>;

/// All agents.
pub struct Hub {
    facts: Mutex<Facts>,
    sessions: Mutex<HashMap<String, Session>>,
    subscribers: RwLock<Vec<Subscriber>>,
    epoch: AtomicU64,
    port: AtomicU16,
    client: Client,
    stores: Arc<Stores>,
    metrics: Arc<Metrics>,
    dialer: transport::Dialer,
}

impl Hub {
    /// A hub without sessions. It follows the stores: what is gone there is forgotten here.
    pub fn new(
        client: Client,
        stores: Arc<Stores>,
        metrics: Arc<Metrics>,
        credentials: &Credentials,
        transport: Transport,
    ) -> Result<Arc<Self>, CredentialsError> {
        let hub = Arc::new(Self {
            facts: Mutex::default(),
            sessions: Mutex::default(),
            subscribers: RwLock::default(),
            epoch: AtomicU64::new(0),
            port: AtomicU16::new(session::PORT),
            dialer: transport::Dialer::new(client.clone(), credentials, transport)?,
            client,
            stores: stores.clone(),
            metrics,
        });
        let weak = Arc::downgrade(&hub);
        stores.pods.subscribe(move |change| {
            let gone = change.old.as_ref().filter(|old| {
                let now = change.new.as_ref().and_then(|new| new.uid());
                now != old.uid()
            });
            if let (Some(hub), Some(uid)) = (weak.upgrade(), gone.and_then(|old| old.uid())) {
                hub.forget_pod(&uid);
            }
        });
        let weak = Arc::downgrade(&hub);
        stores.tool_runs.subscribe(move |change| {
            if let Some(hub) = weak.upgrade() {
                orphan::follow(&hub, change);
            }
        });
        Ok(hub)
    }

    /// What is known of the agent in the pod with that uid.
    pub fn agent(&self, pod_uid: &str) -> AgentFacts {
        self.facts().agent(pod_uid)
    }

    /// What is known of an attempt.
    pub fn attempt(&self, run_uid: &str, attempt: u32) -> AttemptFact {
        self.facts().attempt(run_uid, attempt)
    }

    /// Asks an agent for something. Never waits: the answer becomes a fact. What was asked for already is not asked twice.
    pub fn call(self: &Arc<Self>, call: AgentCall) {
        match call {
            AgentCall::Connect(pod) => self.with_session(&pod, Session::connect),
            AgentCall::Start(call) => {
                let pod = call.pod.clone();
                self.with_session(&pod, |session| session.start(*call));
            }
            AgentCall::Cancel { pod, run_uid, attempt } => {
                self.with_session(&pod, |session| session.cancel(run_uid, attempt));
            }
            AgentCall::Seal { pod, boot_id } => self.with_session(&pod, |session| session.seal(boot_id)),
            AgentCall::Unseal { pod, boot_id } => self.with_session(&pod, |session| session.unseal(boot_id)),
        }
    }

    /// Calls `subscriber` with all news from now on. It must not block.
    pub fn subscribe(&self, subscriber: impl Fn(&AgentChange) + Send + Sync + 'static) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.push(Box::new(subscriber));
    }

    /// Sets the fencing epoch that every call carries from now on.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Sets the TLS port on which agents are looked for, where it isn't the one that their pods are rendered with.
    pub fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::SeqCst);
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod that is gone gets no session: the store knows it no more, or not yet.
    fn with_session(self: &Arc<Self>, pod: &PodRef, ask: impl FnOnce(&Session)) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.stores.pods.get(&pod.namespace, &pod.name);
        if there.and_then(|p| p.uid()).as_deref() != Some(pod.uid.as_str()) {
            tracing::debug!(pod = pod.name, "asked of a pod that isn't there");
            return;
        }
        let session = sessions.entry(pod.uid.clone()).or_insert_with(|| Session::open(self, pod.clone()));
        ask(session);
    }

    fn forget_pod(&self, uid: &str) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping a session ends its task.
        sessions.remove(uid);
        drop(sessions);
        self.facts().forget_pod(uid);
    }

    fn publish(&self, change: &AgentChange) {
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for subscriber in subscribers.iter() {
            subscriber(change);
        }
    }
}
