//! The agents of environment pods: what is known of them, and how they are asked. Facts live in memory only; nothing here writes to
//! the cluster, and nothing here decides.

use std::sync::{PoisonError, RwLock};

use domain::agent::{AgentCall, AgentFacts, AttemptFact};
use drydock_domain as domain;

use crate::reconcile::AgentChange;

type Subscriber = Box<dyn Fn(&AgentChange) + Send + Sync>;

/// All agents.
#[derive(Default)]
pub struct Hub {
    subscribers: RwLock<Vec<Subscriber>>,
}

impl Hub {
    /// What is known of the agent in the pod with that uid.
    pub fn agent(&self, _pod_uid: &str) -> AgentFacts {
        AgentFacts::default()
    }

    /// What is known of an attempt.
    pub fn attempt(&self, _run_uid: &str, _attempt: u32) -> AttemptFact {
        AttemptFact::Unknown
    }

    /// Asks an agent for something. Never waits: the answer becomes a fact.
    pub fn call(&self, _call: AgentCall) {}

    /// Calls `subscriber` with all news from now on. It must not block.
    pub fn subscribe(&self, subscriber: impl Fn(&AgentChange) + Send + Sync + 'static) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.push(Box::new(subscriber));
    }
}
