//! The work queue of one kind: each object at most once, first come first served, never two passes of one object at a time.
//!
//! It is bounded by the number of objects, and adds no delay of its own: an object that is pushed runs as soon as a place is free,
//! unless it is backing off.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::Failures;
use super::{Next, jitter};
use crate::store::ObjectRef;

/// The work queue of one kind.
pub struct Queue {
    name: &'static str,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<(ObjectRef, Instant)>,
    queued: HashSet<ObjectRef>,
    /// Objects in a pass; `true`: pushed meanwhile.
    running: HashMap<ObjectRef, bool>,
    /// When an object is due, and the same by time.
    due: HashMap<ObjectRef, Instant>,
    timers: BTreeMap<(Instant, ObjectRef), ()>,
    failures: HashMap<ObjectRef, (Failures, Instant)>,
}

impl Queue {
    /// An empty queue; `name` is the kind's.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, state: Mutex::default(), changed: Notify::new() }
    }

    /// Wakes an object: at once, or when its backoff ends.
    pub fn push(&self, object: ObjectRef) {
        let mut state = self.state();
        let now = Instant::now();
        match state.failures.get(&object) {
            Some((_, until)) if *until > now => {
                let until = *until;
                state.schedule(object, until);
            }
            _ => state.enqueue(object, now),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Wakes an object after a while, together with everything that wakes it until then.
    pub(super) fn push_later(&self, object: ObjectRef, delay: Duration) {
        self.state().schedule(object, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Forgets that an object failed: what it asks for has changed.
    pub(super) fn forgive(&self, object: &ObjectRef) {
        self.state().failures.remove(object);
    }

    /// How many objects wait for a place.
    pub fn depth(&self) -> usize {
        self.state().ready.len()
    }

    /// How long the first of them has waited.
    pub fn oldest(&self) -> Duration {
        let state = self.state();
        state.ready.front().map(|(_, since)| since.elapsed()).unwrap_or_default()
    }

    /// How many objects are being worked on.
    pub fn active(&self) -> usize {
        self.state().running.len()
    }

    /// Works on objects, `concurrency` at once, until `stop`; then waits for the passes that run.
    pub(super) async fn work<F>(
        self: Arc<Self>,
        concurrency: usize,
        stop: CancellationToken,
        work: impl Fn(ObjectRef) -> F + Send + Sync + Clone + 'static,
    ) where
        F: Future<Output = Next> + Send + 'static,
    {
        let mut passes = JoinSet::new();
        while !stop.is_cancelled() {
            let (object, due) = self.take(concurrency);
            if let Some(object) = object {
                let (queue, work) = (self.clone(), work.clone());
                passes.spawn(async move {
                    // A pass never panics by itself: it catches what its kind does.
                    let next = work(object.clone()).await;
                    queue.finish(&object, next);
                });
                continue;
            }
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep => {}
                Some(_) = passes.join_next() => {}
                () = stop.cancelled() => {}
            }
        }
        while passes.join_next().await.is_some() {}
        tracing::debug!(kind = self.name, "the queue is at rest");
    }

    /// The next object that may run, else when the next timer is due.
    fn take(&self, concurrency: usize) -> (Option<ObjectRef>, Option<Instant>) {
        let mut state = self.state();
        let now = Instant::now();
        while let Some(((at, _), ())) = state.timers.first_key_value() {
            if *at > now {
                break;
            }
            if let Some(((_, object), ())) = state.timers.pop_first() {
                state.due.remove(&object);
                state.enqueue(object, now);
            }
        }
        let due = state.timers.first_key_value().map(|((at, _), ())| *at);
        if state.running.len() >= concurrency {
            return (None, due);
        }
        let Some((object, _)) = state.ready.pop_front() else {
            return (None, due);
        };
        state.queued.remove(&object);
        state.unschedule(&object);
        state.running.insert(object.clone(), false);
        (Some(object), due)
    }

    fn finish(&self, object: &ObjectRef, next: Next) {
        let mut state = self.state();
        let again = state.running.remove(object).unwrap_or(false);
        let now = Instant::now();
        let delay = match next {
            Next::Never => {
                state.failures.remove(object);
                None
            }
            Next::After(delay) => {
                state.failures.remove(object);
                Some(delay)
            }
            Next::Soon | Next::Backoff => Some(state.fail(object, next, now)),
        };
        if let Some(delay) = delay {
            state.schedule(object.clone(), now + delay);
        }
        if again {
            match state.failures.get(object) {
                Some((_, until)) if *until > now => {}
                _ => state.enqueue(object.clone(), now),
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enqueue(&mut self, object: ObjectRef, now: Instant) {
        if let Some(again) = self.running.get_mut(&object) {
            *again = true;
        } else if self.queued.insert(object.clone()) {
            self.ready.push_back((object, now));
        }
    }

    /// The earlier of two times wins.
    fn schedule(&mut self, object: ObjectRef, at: Instant) {
        match self.due.get(&object) {
            Some(due) if *due <= at => return,
            _ => self.unschedule(&object),
        }
        self.due.insert(object.clone(), at);
        self.timers.insert((at, object), ());
    }

    fn unschedule(&mut self, object: &ObjectRef) {
        if let Some(at) = self.due.remove(object) {
            self.timers.remove(&(at, object.clone()));
        }
    }

    fn fail(&mut self, object: &ObjectRef, next: Next, now: Instant) -> Duration {
        let (failures, until) = self.failures.entry(object.clone()).or_insert((Failures::default(), now));
        if next == Next::Soon {
            let delay = failures.stale(jitter());
            // A stale view isn't a fault of the object: what changes it may wake it at once.
            *until = if delay >= super::backoff::FIRST.mul_f64(0.8) { now + delay } else { now };
            delay
        } else {
            let delay = failures.failed(jitter());
            *until = now + delay;
            delay
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new("ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_queued_once_and_runs_again_when_it_was_pushed_meanwhile() {
        let queue = Arc::new(Queue::new("Test"));
        queue.push(object("a"));
        queue.push(object("a"));
        assert_eq!(queue.depth(), 1);
        let (taken, _) = queue.take(1);
        assert_eq!(taken, Some(object("a")));
        queue.push(object("a"));
        assert_eq!(queue.take(8).0, None, "never two passes of one object");
        queue.finish(&object("a"), Next::Never);
        assert_eq!(queue.take(8).0, Some(object("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_pass_decides_when_an_object_is_due() {
        let queue = Arc::new(Queue::new("Test"));
        queue.push(object("a"));
        assert!(queue.take(1).0.is_some());
        queue.finish(&object("a"), Next::After(Duration::from_secs(10)));
        queue.push(object("a"));
        assert!(queue.take(1).0.is_some());
        queue.finish(&object("a"), Next::After(Duration::from_secs(100)));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(queue.take(1).0, None);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(queue.take(1).0, Some(object("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_object_backs_off_although_it_is_pushed_and_is_forgiven_when_it_changes() {
        let queue = Arc::new(Queue::new("Test"));
        for _ in 0..4 {
            queue.forgive(&object("b"));
            queue.push(object("b"));
            assert!(queue.take(1).0.is_some());
            queue.finish(&object("b"), Next::Backoff);
        }
        queue.push(object("b"));
        assert_eq!(queue.take(1).0, None);
        queue.forgive(&object("b"));
        queue.push(object("b"));
        assert!(queue.take(1).0.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn work_keeps_to_its_concurrency_and_ends_after_its_passes() {
        static ACTIVE: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let queue = Arc::new(Queue::new("Test"));
        for n in 0..20 {
            queue.push(object(&n.to_string()));
        }
        let stop = CancellationToken::new();
        let work = tokio::spawn(queue.clone().work(4, stop.clone(), |_| async {
            assert!(ACTIVE.fetch_add(1, Ordering::SeqCst) < 4);
            tokio::time::sleep(Duration::from_secs(1)).await;
            ACTIVE.fetch_sub(1, Ordering::SeqCst);
            DONE.fetch_add(1, Ordering::SeqCst);
            Next::Never
        }));
        tokio::time::sleep(Duration::from_millis(2500)).await;
        stop.cancel();
        work.await.unwrap();
        assert_eq!(DONE.load(Ordering::SeqCst), 12, "two rounds and the one that ran");
    }
}
