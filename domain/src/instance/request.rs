//! One-time requests: annotations whose value is any new token, and what became of them.

use drydock_crds::condition::Reason;
use drydock_crds::instance::{DesiredState, HandledRequest, ProvisioningState, RequestResult};
use drydock_crds::label;

use super::Draft;

/// The longest token that is looked at, in characters.
const MAX_TOKEN: usize = 256;

/// The requests that stop an environment.
const STOPS: [&str; 3] = [label::STOP, label::STOP_FORCE, label::STOP_DISCARD];

/// A request's token, where it wasn't handled yet.
#[must_use]
pub fn open_request<'a>(
    annotations: &'a std::collections::BTreeMap<String, String>,
    handled: &std::collections::BTreeMap<String, HandledRequest>,
    key: &str,
) -> Option<&'a str> {
    let token = annotations.get(key).filter(|t| !t.is_empty())?;
    let done = handled.get(short(key)).is_some_and(|h| h.token == bounded(token));
    (!done).then_some(token.as_str())
}

impl Draft<'_> {
    /// Answers what can be answered at once; a stop of something that runs is answered when it has stopped.
    pub(super) fn answer_requests(&mut self) {
        for key in [label::REBUILD, label::REBUILD_NO_CACHE, label::RESTORE] {
            if self.open(key).is_some() {
                let message = "not implemented in this version: nothing was changed";
                self.handle(key, RequestResult::Refused, Reason::NotImplemented, message);
            }
        }
        if self.open(label::RETRY).is_some() && self.state() != ProvisioningState::Failed {
            self.handle(label::RETRY, RequestResult::Done, Reason::NothingToDo, "nothing has failed");
        }
        let Some(stop) = self.open_stop() else { return };
        match self.state() {
            ProvisioningState::Discovered | ProvisioningState::Stopped => {
                self.finish_stops(Reason::NothingToDo, "it isn't running");
            }
            ProvisioningState::Failed | ProvisioningState::Stopping => {}
            ProvisioningState::Building | ProvisioningState::Active => self.refuse_stop(stop),
        }
    }

    /// The stop request that is open, the gentlest first.
    pub(super) fn open_stop(&self) -> Option<&'static str> {
        STOPS.into_iter().find(|key| self.open(key).is_some())
    }

    /// Every open stop request is done.
    pub(super) fn finish_stops(&mut self, reason: Reason, message: &str) {
        for key in STOPS {
            if self.open(key).is_some() {
                self.handle(key, RequestResult::Done, reason, message);
            }
        }
    }

    /// The request's token, where it is open.
    pub(super) fn open(&self, key: &str) -> Option<String> {
        open_request(&self.seen.identity.annotations, &self.status.handled_requests, key).map(str::to_owned)
    }

    /// Records what became of a request.
    pub(super) fn handle(&mut self, key: &str, result: RequestResult, reason: Reason, message: &str) {
        let Some(token) = self.open(key) else { return };
        let message = message.chars().take(1024).collect();
        let handled = HandledRequest { token: bounded(&token), result, reason: reason.to_string(), message };
        self.status.handled_requests.insert(short(key).to_owned(), handled);
    }

    fn refuse_stop(&mut self, key: &'static str) {
        if self.desired() == DesiredState::Active {
            let message = "spec.desiredState is Active: set it to Auto or Stopped first";
            self.handle(key, RequestResult::Refused, Reason::DesiredStateConflict, message);
            return;
        }
        let users = self.seen.demand.active + self.seen.demand.waiting;
        if key != label::STOP_FORCE && users > 0 {
            let names = self.seen.demand.active_names.join(", ");
            let message = format!("{users} tool runs use it: {names}; to end them set {}", label::STOP_FORCE);
            self.handle(key, RequestResult::Refused, Reason::RunsActive, &message);
        }
    }
}

/// The name of a request without our prefix: its key in `status.handledRequests`.
fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn bounded(token: &str) -> String {
    token.chars().take(MAX_TOKEN).collect()
}
