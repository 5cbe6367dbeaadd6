//! Which changes wake which objects.

use std::sync::Arc;
use std::time::Duration;

use drydock_domain::agent::{PodRef, RunRef};

use super::Queue;
use crate::context::Context;
use crate::store::{Change, ObjectRef, Stored, Stores};

/// Something new is known of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentChange {
    /// Its hello, reachability or seal.
    Agent(PodRef),
    /// An attempt of a run.
    Attempt(RunRef),
}

/// Registers which changes wake objects of one kind.
pub struct Watches<'a> {
    context: &'a Arc<Context>,
    queue: Arc<Queue>,
}

impl<'a> Watches<'a> {
    pub(super) fn new(context: &'a Arc<Context>, queue: Arc<Queue>) -> Self {
        Self { context, queue }
    }

    /// A change of a `K` wakes the objects that `map` names. It is called in the informer's task: it reads stores and never blocks.
    pub fn on<K: Stored>(
        &mut self,
        map: impl Fn(&Change<K>, &Stores) -> Vec<ObjectRef> + Send + Sync + 'static,
    ) {
        let queue = self.queue.clone();
        // Weak, because the stores own the subscriber.
        let stores = Arc::downgrade(&self.context.stores);
        K::store(&self.context.stores).subscribe(move |change| {
            let Some(stores) = stores.upgrade() else {
                return;
            };
            for object in map(change, &stores) {
                queue.push(object);
            }
        });
    }

    /// As [`Watches::on`], for what may be a while behind: many changes within `delay` wake an object once.
    pub fn on_later<K: Stored>(
        &mut self,
        delay: Duration,
        map: impl Fn(&Change<K>, &Stores) -> Vec<ObjectRef> + Send + Sync + 'static,
    ) {
        let queue = self.queue.clone();
        let stores = Arc::downgrade(&self.context.stores);
        K::store(&self.context.stores).subscribe(move |change| {
            let Some(stores) = stores.upgrade() else {
                return;
            };
            for object in map(change, &stores) {
                queue.push_later(object, delay);
            }
        });
    }

    /// News of an agent wake the objects that `map` names.
    pub fn on_agent(
        &mut self,
        map: impl Fn(&AgentChange, &Stores) -> Vec<ObjectRef> + Send + Sync + 'static,
    ) {
        let queue = self.queue.clone();
        let stores = Arc::downgrade(&self.context.stores);
        self.context.agents.subscribe(move |change| {
            let Some(stores) = stores.upgrade() else {
                return;
            };
            for object in map(change, &stores) {
                queue.push(object);
            }
        });
    }
}
