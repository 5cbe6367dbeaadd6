//! One pass over one object.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::decision::{Decision, Wake};
use drydock_domain as domain;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use super::{Kind, Next, jitter, kind_name};
use crate::act;
use crate::context::Context;
use crate::error::{Class, Error};
use crate::store::{ObjectRef, Stored as _};

/// How long a pass may take.
const DEADLINE: Duration = Duration::from_secs(25);
/// How often a pass goes on at once with what it wrote.
const ROUNDS: usize = 8;
/// An object is looked at again after this time at the latest, and up to twice of it.
const RESYNC: Duration = Duration::from_secs(300);

/// Runs a pass and answers when the object is looked at next. Never panics and never waits longer than its deadline.
pub(super) async fn run<K: Kind>(context: &Context, object: &ObjectRef) -> Next {
    let kind = kind_name::<K>();
    let started = Instant::now();
    let rounds = AssertUnwindSafe(rounds::<K>(context, object)).catch_unwind();
    let (result, next) = match timeout(DEADLINE, rounds).await {
        Ok(Ok(Ok(next))) => ("success", next),
        Ok(Ok(Err(error))) => failed(context, kind, object, &error),
        Ok(Err(panic)) => {
            context.metrics.panicked(kind);
            let said = said(panic.as_ref());
            tracing::error!(kind, %object, panic = said, "a pass panicked: the object is left alone for a while");
            ("error", Next::Backoff)
        }
        Err(_) => failed(context, kind, object, &Error::PassDeadline(DEADLINE)),
    };
    context.metrics.reconciled(kind, result, started.elapsed());
    next
}

fn failed(context: &Context, kind: &'static str, object: &ObjectRef, error: &Error) -> (&'static str, Next) {
    let class = error.class();
    context.metrics.failed(kind, class);
    match class {
        Class::Conflict | Class::Foreign => {
            tracing::debug!(kind, %object, error = %chain(error), "the view was stale");
            ("requeue", Next::Soon)
        }
        Class::Transient | Class::Refused => {
            tracing::warn!(kind, %object, class = class.as_str(), error = %chain(error), "a pass failed");
            ("error", Next::Backoff)
        }
    }
}

async fn rounds<K: Kind>(context: &Context, reference: &ObjectRef) -> Result<Next, Error> {
    let store = K::Object::store(&context.stores);
    for _ in 0..ROUNDS {
        let Some(object) = store.get(&reference.namespace, &reference.name) else {
            return Ok(Next::Never);
        };
        let observed = K::observe(object.clone(), context).await?;
        let decision = K::decide(&observed);
        let wake = decision.wake;
        carry_out::<K>(context, &object, decision).await?;
        match wake {
            Wake::Again => {}
            Wake::OnChange => return Ok(Next::After(resync())),
            Wake::At(time) => return Ok(Next::After(until(time, context.now()).min(resync()))),
        }
    }
    tracing::warn!(kind = kind_name::<K>(), object = %reference, "a pass didn't come to rest");
    Ok(Next::Soon)
}

/// Effects in order up to the first failure, then the status, then the notices.
async fn carry_out<K: Kind>(
    context: &Context,
    object: &Arc<K::Object>,
    decision: Decision<K::Status>,
) -> Result<(), Error> {
    let mut subject = act::Subject::of(object.as_ref());
    let acted = act::effects(context, &mut subject, decision.effects).await;
    // The status says what was seen, not what was done: it is right even when an effect failed.
    if let Some(status) = &decision.status
        && !subject.is_gone()
        && act::status_differs(K::status(object), status)
        && let Err(error) = act::write_status::<K::Object>(context, &subject, status).await
    {
        return acted.and(Err(error));
    }
    for notice in decision.notices {
        context.events.publish(&subject, notice);
    }
    acted
}

fn resync() -> Duration {
    RESYNC.mul_f64(1.0 + jitter())
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    // A little late rather than a little early: early would be a pass for nothing.
    let wait = time.duration_since(now);
    Duration::try_from(wait).map(|d| d + Duration::from_millis(1)).unwrap_or_default()
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}

/// An error with its sources, once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
