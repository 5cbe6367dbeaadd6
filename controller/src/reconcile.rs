//! The one loop: observe, decide, act, write the status, tell. It is the same for each kind and has no `if` on one.
//!
//! What a kind adds is in its `observe` file: what it reads, which changes wake which of its objects, and which pure function decides.

mod backoff;
mod pass;
mod queue;
mod watches;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::decision::Decision;
use drydock_domain as domain;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::Error;
use crate::store::{Change, ObjectRef, Stored};

pub(crate) use pass::chain;
pub use queue::Queue;
pub use watches::{AgentChange, Watches};

/// A kind of objects that is reconciled.
pub trait Kind: Send + Sync + 'static {
    /// Its API type.
    type Object: Stored + Serialize;
    /// What a decision about it is a function of.
    type Observed: Send + Sync;
    /// Its status.
    type Status: Serialize + Send + Sync;

    /// How many of its objects are worked on at once.
    const CONCURRENCY: usize = 8;

    /// Reads everything that a decision about this object depends on, from the stores and the agents' facts. What is absent or can't
    /// be reached is a value, not an error. `Context::now` is read once.
    ///
    /// # Errors
    /// When the API server has to be asked and doesn't answer.
    fn observe(
        object: Arc<Self::Object>,
        context: &Context,
    ) -> impl Future<Output = Result<Self::Observed, Error>> + Send;

    /// The decision: pure, of `domain`.
    fn decide(observed: &Self::Observed) -> Decision<Self::Status>;

    /// The status that the object has.
    fn status(object: &Self::Object) -> Option<&Self::Status>;

    /// Which changes of other objects wake objects of this kind. Its own objects' changes always do. Everything that `observe` reads
    /// must be named here, by its old and its new value.
    fn watches(watches: &mut Watches<'_>);
}

/// Starts the loop of a kind. It begins to work when every store has its first list and `lead` is given; it ends when `stop` is
/// cancelled and the passes that run have ended.
///
/// The subscription is made at once, before this returns, so that no change is missed.
fn start<K: Kind>(
    context: &Arc<Context>,
    lead: CancellationToken,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let name = kind_name::<K>();
    let queue = Arc::new(Queue::new(name));
    let own = queue.clone();
    K::Object::store(&context.stores).subscribe(move |change: &Change<K::Object>| wake_own(&own, change));
    K::watches(&mut Watches::new(context, queue.clone()));
    context.metrics.register_queue(name, queue.clone());
    let context = context.clone();
    async move {
        tokio::select! {
            () = async { context.stores.wait_ready().await; lead.cancelled().await } => {}
            () = stop.cancelled() => return,
        }
        let worker = context.clone();
        let work = move |object| {
            let context = worker.clone();
            async move { pass::run::<K>(&context, &object).await }
        };
        let mut configuration = context.configuration_changes();
        let all = queue.clone();
        let refill = async {
            while configuration.changed().await.is_ok() {
                for object in K::Object::store(&context.stores).all() {
                    all.push(ObjectRef::of(object.as_ref()));
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = queue.clone().work(K::CONCURRENCY, stop, work) => {}
            () = refill => {}
        }
    }
}

/// The name of a kind, as metrics and logs have it.
pub(crate) fn kind_name<K: Kind>() -> &'static str {
    use std::borrow::Cow;
    match <K::Object as kube::Resource>::kind(&()) {
        Cow::Borrowed(name) => name,
        Cow::Owned(name) => name.leak(),
    }
}

/// Between 0 and 1, by chance: for spreading what would otherwise happen at once.
pub(crate) fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(());
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

fn wake_own<O: Stored>(queue: &Queue, change: &Change<O>) {
    let generation = |o: &Arc<O>| o.meta().generation;
    let changed = change.old.as_ref().map(generation) != change.new.as_ref().map(generation);
    if changed {
        queue.forgive(&change.reference);
    }
    queue.push(change.reference.clone());
}

/// When an object is looked at next, as a pass found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Not before something changes: the object is gone.
    Never,
    /// All is well; look again after this time.
    After(Duration),
    /// The view was stale; look again soon.
    Soon,
    /// Something failed; back off.
    Backoff,
}

/// Starts the loops of kinds.
pub struct Loops<'a> {
    context: &'a Arc<Context>,
    lead: CancellationToken,
    stop: CancellationToken,
    tasks: &'a mut tokio::task::JoinSet<()>,
}

impl<'a> Loops<'a> {
    /// Loops that begin with `lead` and end with `stop`.
    pub fn new(
        context: &'a Arc<Context>,
        lead: CancellationToken,
        stop: CancellationToken,
        tasks: &'a mut tokio::task::JoinSet<()>,
    ) -> Self {
        Self { context, lead, stop, tasks }
    }

    /// Starts the loop of a kind.
    pub fn add<K: Kind>(&mut self) {
        let work = start::<K>(self.context, self.lead.clone(), self.stop.clone());
        self.tasks.spawn(work);
    }
}
