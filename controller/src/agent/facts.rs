//! What is known, and of whom. Bounded by the pods and the open runs that there are.

use std::collections::HashMap;

use domain::agent::{AgentFacts, AttemptFact};
use drydock_domain as domain;

/// Everything that is known.
#[derive(Default)]
pub(super) struct Facts {
    agents: HashMap<String, AgentFacts>,
    runs: HashMap<String, HashMap<u32, AttemptFact>>,
}

impl Facts {
    pub(super) fn agent(&self, pod_uid: &str) -> AgentFacts {
        self.agents.get(pod_uid).cloned().unwrap_or_default()
    }

    pub(super) fn attempt(&self, run_uid: &str, attempt: u32) -> AttemptFact {
        let known = self.runs.get(run_uid).and_then(|attempts| attempts.get(&attempt));
        known.cloned().unwrap_or_default()
    }

    /// Changes what is known of an agent; answers whether that is something new.
    pub(super) fn set_agent(&mut self, pod_uid: &str, change: impl FnOnce(&mut AgentFacts)) -> bool {
        let facts = self.agents.entry(pod_uid.to_owned()).or_default();
        let before = facts.clone();
        change(facts);
        *facts != before
    }

    /// Learns of an attempt. What it ended with never changes. Answers whether that is something new.
    pub(super) fn set_attempt(&mut self, run_uid: &str, attempt: u32, fact: AttemptFact) -> bool {
        let attempts = self.runs.entry(run_uid.to_owned()).or_default();
        let known = attempts.entry(attempt).or_default();
        if *known == fact || matches!(known, AttemptFact::Finished(_)) {
            return false;
        }
        *known = fact;
        true
    }

    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.agents.remove(uid);
    }

    pub(super) fn forget_run(&mut self, uid: &str) {
        self.runs.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_ended_with_never_changes() {
        let mut facts = Facts::default();
        assert!(facts.set_attempt("run", 1, AttemptFact::Running));
        assert!(!facts.set_attempt("run", 1, AttemptFact::Running));
        assert!(facts.set_attempt("run", 1, AttemptFact::Finished(Box::default())));
        assert!(!facts.set_attempt("run", 1, AttemptFact::OtherBoot));
        assert!(matches!(facts.attempt("run", 1), AttemptFact::Finished(_)));
        assert_eq!(facts.attempt("run", 2), AttemptFact::Unknown);
        facts.forget_run("run");
        assert_eq!(facts.attempt("run", 1), AttemptFact::Unknown);
    }
}
