//! One attempt at its agent: sent, waited for, cancelled. Every answer becomes a fact; a stream that ends without one means "ask again".

use std::sync::Arc;
use std::time::Duration;

use domain::agent::{AttemptFact, RefusedAttempt, RunRef, StartCall};
use drydock_crds::ToolRun;
use drydock_domain as domain;
use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{
    CancelRequest, Refusal, RunResult, WaitRequest, cancel_response, start_response, wait_response,
};
use kube::ResourceExt;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use super::request::{self, Unsent};
use super::session::{CALL, bounded, said};
use super::{Hub, session};
use crate::reconcile::AgentChange;

/// How long one wait is.
const WAIT: Duration = Duration::from_secs(30);
/// When an agent that is full, or whose disk is, is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// An attempt's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) run_uid: String,
    pub(super) attempt: u32,
}

impl Key {
    pub(super) fn of(call: &StartCall) -> Self {
        Self { run_uid: call.run.uid.clone(), attempt: call.attempt }
    }
}

/// How following an attempt ended.
pub(super) enum End {
    /// What there was to know is a fact now.
    Known,
    /// The channel broke.
    Broken(String),
}

/// How a cancel ended.
pub(super) enum Cancelled {
    /// What there was to know is a fact now.
    Answered,
    /// The attempt is being ended: its end is still to come.
    UnderWay,
    /// The channel broke.
    Broken(String),
}

/// What one question came to.
enum Step {
    /// This is how it stands with the attempt, for good.
    Fact(AttemptFact),
    /// Ask for its end.
    Wait,
    /// Send it again after a while.
    Retry,
    Broken(String),
}

/// Sends an attempt (where `call` is given) and waits for its end.
pub(super) async fn follow(
    hub: Arc<Hub>,
    mut client: AgentClient<Channel>,
    key: Key,
    call: Option<StartCall>,
) -> session::Done {
    let mut next = match &call {
        Some(call) => start(&hub, &mut client, call).await,
        None => Step::Wait,
    };
    loop {
        next = match next {
            Step::Fact(fact) => {
                learn(&hub, &key, fact);
                return session::Done::Attempt(key, End::Known);
            }
            Step::Broken(why) => return session::Done::Attempt(key, End::Broken(why)),
            Step::Retry => {
                sleep(RETRY).await;
                match &call {
                    Some(call) => start(&hub, &mut client, call).await,
                    // Nobody knows it: there is nothing to wait for.
                    None => return session::Done::Attempt(key, End::Known),
                }
            }
            Step::Wait => {
                learn(&hub, &key, AttemptFact::Running);
                wait(&hub, &mut client, &key).await
            }
        };
    }
}

/// Cancels an attempt, also one that never came to its agent.
pub(super) async fn cancel(hub: Arc<Hub>, mut client: AgentClient<Channel>, key: Key) -> session::Done {
    let request = CancelRequest { epoch: hub.epoch(), run_uid: key.run_uid.clone(), attempt: key.attempt };
    let answer = match timeout(CALL, client.cancel(request)).await {
        Err(_) => return session::Done::Cancel(key, Cancelled::Broken("no answer in time".to_owned())),
        Ok(Err(status)) => return session::Done::Cancel(key, Cancelled::Broken(said(&status))),
        Ok(Ok(answer)) => answer.into_inner().answer,
    };
    let end = match answer {
        Some(cancel_response::Answer::Cancelling(_)) => Cancelled::UnderWay,
        Some(cancel_response::Answer::Result(result)) => {
            learn(&hub, &key, AttemptFact::Finished(Box::new(result)));
            Cancelled::Answered
        }
        Some(cancel_response::Answer::Refusal(refusal)) => match refused(&refusal) {
            Step::Fact(fact) => {
                learn(&hub, &key, fact);
                Cancelled::Answered
            }
            Step::Wait => Cancelled::UnderWay,
            Step::Retry => Cancelled::Broken(bounded(&refusal.message)),
            Step::Broken(why) => Cancelled::Broken(why),
        },
        None => Cancelled::Broken("an empty answer".to_owned()),
    };
    session::Done::Cancel(key, end)
}

async fn start(hub: &Hub, client: &mut AgentClient<Channel>, call: &StartCall) -> Step {
    let request = match request::request(&hub.client, call, hub.epoch()).await {
        Ok(request) => request,
        Err(Unsent::Never(why)) => return Step::Fact(AttemptFact::Unsendable(why)),
        Err(Unsent::Now(why)) => {
            tracing::warn!(run = call.run.name, error = why, "a run's values can't be read yet");
            return Step::Retry;
        }
    };
    let answer = match timeout(CALL, client.start(request)).await {
        Err(_) => return Step::Broken("no answer in time".to_owned()),
        Ok(Err(status)) => return Step::Broken(said(&status)),
        Ok(Ok(answer)) => answer.into_inner().answer,
    };
    match answer {
        Some(start_response::Answer::Started(started)) => match started.result {
            Some(result) => Step::Fact(AttemptFact::Finished(Box::new(result))),
            None => Step::Wait,
        },
        Some(start_response::Answer::Refusal(refusal)) => refused(&refusal),
        None => Step::Broken("an empty answer".to_owned()),
    }
}

async fn wait(hub: &Hub, client: &mut AgentClient<Channel>, key: &Key) -> Step {
    let request = WaitRequest {
        epoch: hub.epoch(),
        run_uid: key.run_uid.clone(),
        attempt: key.attempt,
        timeout_ms: u64::try_from(WAIT.as_millis()).unwrap_or(0),
    };
    match timeout(WAIT + CALL, client.wait(request)).await {
        Err(_) => Step::Broken("no answer in time".to_owned()),
        Ok(Err(status)) => Step::Broken(said(&status)),
        Ok(Ok(answer)) => match answer.into_inner().answer {
            Some(wait_response::Answer::Running(_)) => Step::Wait,
            Some(wait_response::Answer::Result(result)) => Step::Fact(finished(result)),
            Some(wait_response::Answer::Refusal(refusal)) => refused(&refusal),
            None => Step::Broken("an empty answer".to_owned()),
        },
    }
}

fn finished(result: RunResult) -> AttemptFact {
    AttemptFact::Finished(Box::new(result))
}

fn refused(refusal: &Refusal) -> Step {
    match refusal.reason() {
        Reason::Sealed => Step::Fact(AttemptFact::Refused(RefusedAttempt::Sealed)),
        Reason::CancelledBeforeStart => {
            Step::Fact(AttemptFact::Refused(RefusedAttempt::CancelledBeforeStart))
        }
        Reason::WrongBoot => Step::Fact(AttemptFact::OtherBoot),
        Reason::Invalid => Step::Fact(AttemptFact::Unsendable(bounded(&refusal.message))),
        Reason::TooMany | Reason::JournalFailed | Reason::UnknownRun => Step::Retry,
        Reason::AlreadyEnded | Reason::RunsActive => Step::Wait,
        Reason::StaleEpoch => {
            Step::Broken("another controller leads: the agent has seen a higher epoch".to_owned())
        }
        Reason::Unspecified => {
            Step::Broken(format!("refused for an unknown reason: {}", bounded(&refusal.message)))
        }
    }
}

/// Learns of an attempt, if its run is still there and open, and tells so.
fn learn(hub: &Hub, key: &Key, fact: AttemptFact) {
    let mut facts = hub.facts();
    // Under the lock: whoever drops a run's facts does so after the store knows of its end.
    let run = hub.stores.tool_runs.with_uid(&key.run_uid).filter(|run| is_open(run));
    let Some(run) = run else {
        return;
    };
    tracing::trace!(run = run.name_any(), attempt = key.attempt, ?fact, "learnt");
    // That it runs is what everybody assumed who had it started: no decision is another for it.
    let is_news = fact != AttemptFact::Running;
    let is_new = facts.set_attempt(&key.run_uid, key.attempt, fact);
    drop(facts);
    if is_new && is_news {
        hub.publish(&AgentChange::Attempt(RunRef {
            namespace: run.namespace().unwrap_or_default(),
            name: run.name_any(),
            uid: key.run_uid.clone(),
        }));
    }
}

/// Whether a run has no outcome yet.
pub(super) fn is_open(run: &ToolRun) -> bool {
    run.status.as_ref().is_none_or(|s| s.outcome.is_none())
}
