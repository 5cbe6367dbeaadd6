//! How conditions change: the time moves only when the status does, and every known type is always there.

use drydock_crds::condition::{ConditionType, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longest message of a condition, in characters.
pub const MAX_MESSAGE: usize = 2048;

/// The three statuses of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It doesn't.
    False,
    /// Nobody knows.
    Unknown,
}

impl Truth {
    /// As it stands in a condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// `True` or `False`.
    #[must_use]
    pub fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The conditions of one object, being decided.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: i64,
    now: Timestamp,
}

impl Conditions {
    /// Starts from what the object has. `generation` is the one that is being decided upon.
    #[must_use]
    pub fn new(present: &[Condition], generation: i64, now: Timestamp) -> Self {
        Self { list: present.to_vec(), generation, now }
    }

    /// Sets a condition; its time moves only when its status changes.
    pub fn set(&mut self, type_: ConditionType, truth: Truth, reason: Reason, message: impl Into<String>) {
        let message = bounded(message.into());
        let status = truth.as_str();
        let last = self.list.iter().find(|c| c.type_ == type_.as_str());
        let since = match last {
            Some(c) if c.status == status => c.last_transition_time.clone(),
            _ => Time(self.now),
        };
        let condition = Condition {
            type_: type_.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.as_str().to_owned(),
            message,
            last_transition_time: since,
            observed_generation: Some(self.generation),
        };
        match self.list.iter_mut().find(|c| c.type_ == type_.as_str()) {
            Some(c) => *c = condition,
            None => self.list.push(condition),
        }
    }

    /// Takes a condition away.
    pub fn remove(&mut self, type_: ConditionType) {
        self.list.retain(|c| c.type_ != type_.as_str());
    }

    /// Ready, done: `Ready=True`, neither reconciling nor stalled.
    pub fn ready(&mut self, reason: Reason, message: impl Into<String>) {
        self.set(ConditionType::Ready, Truth::True, reason, message);
        self.settle();
    }

    /// Not ready yet: `Ready=False` (or `Unknown`), `Reconciling=True`.
    pub fn progressing(&mut self, truth: Truth, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        self.set(ConditionType::Ready, truth, reason, message.clone());
        self.set(ConditionType::Reconciling, Truth::True, reason, message);
        self.remove(ConditionType::Stalled);
    }

    /// A person is needed: `Ready=False`, `Stalled=True`.
    pub fn stalled(&mut self, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        self.set(ConditionType::Ready, Truth::False, reason, message.clone());
        self.set(ConditionType::Stalled, Truth::True, reason, message);
        self.remove(ConditionType::Reconciling);
    }

    /// Neither reconciling nor stalled (both are absent when they don't hold: kstatus).
    pub fn settle(&mut self) {
        self.remove(ConditionType::Reconciling);
        self.remove(ConditionType::Stalled);
    }

    /// What is decided, sorted by type so that the order never changes by itself.
    #[must_use]
    pub fn finish(mut self) -> Vec<Condition> {
        self.list.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.list
    }
}

/// Cuts a message at [`MAX_MESSAGE`] and takes control characters out of it.
#[must_use]
pub fn bounded(message: String) -> String {
    let clean = |c: char| {
        if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }
    };
    if message.chars().count() <= MAX_MESSAGE {
        return message.chars().map(clean).collect();
    }
    let mut cut: String = message.chars().take(MAX_MESSAGE - 1).map(clean).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_of_a_condition_moves_only_with_its_status() {
        let mut first = Conditions::new(&[], 1, at(10));
        first.ready(Reason::Ready, "all is well");
        let first = first.finish();
        let mut second = Conditions::new(&first, 2, at(20));
        second.ready(Reason::Ready, "all is still well");
        let second = second.finish();
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].observed_generation, Some(2));
        let mut third = Conditions::new(&second, 2, at(30));
        third.stalled(Reason::InvalidSpec, "no");
        let third = third.finish();
        assert!(third.iter().all(|c| c.last_transition_time == Time(at(30))));
        assert_eq!(third.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ["Ready", "Stalled"]);
    }

    #[test]
    fn a_message_is_bounded_and_has_no_control_characters() {
        let long = bounded("a\u{1b}[31m".repeat(MAX_MESSAGE));
        assert_eq!(long.chars().count(), MAX_MESSAGE);
        assert!(!long.contains('\u{1b}'));
    }
}
