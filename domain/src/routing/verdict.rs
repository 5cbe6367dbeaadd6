//! The answer of routing.

use drydock_crds::condition::Reason;
use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::tool_run::{Considered, Route, RouteRule, RouteTarget};

/// How many things that were considered are listed.
const CONSIDERED_MAX: usize = 32;
/// Longest text of a route, in characters.
const TEXT_MAX: usize = 1024;
/// Longest source, in characters.
const SOURCE_MAX: usize = 256;

/// Where a run goes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where; none exactly where `refusal` is set.
    pub chosen: Option<Target>,
    /// The rule that decided, or whose answer was refused. Absent: none did.
    pub rule: Option<RouteRule>,
    /// Why, for people: one line without control characters.
    pub reason: String,
    /// Why it goes nowhere.
    pub refusal: Option<Refusal>,
    /// What else was considered, in order.
    pub considered: Vec<Considered>,
}

/// Where a run goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// To an instance.
    Instance(InstanceRef),
    /// To the host runner: the plan's own where the request has a sandbox, else the project's with `host` settings, else
    /// the workspace's ([`crate::name::host_runner`]).
    Host,
}

impl Target {
    /// A dev container.
    #[must_use]
    pub fn devcontainer(name: impl Into<String>) -> Self {
        Self::Instance(InstanceRef { kind: InstanceKind::DevcontainerInstance, name: name.into() })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Instance(instance) => write!(f, "{}/{}", instance.kind, instance.name),
            Self::Host => f.write_str("host"),
        }
    }
}

/// Why a run goes nowhere. Its outcome is `NoEnvironment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No rule has an answer.
    NoAnswer,
    /// The instance named doesn't exist.
    TargetNotFound,
    /// The instance named isn't linked to the project.
    TargetNotLinked,
    /// Instances of both kinds have the name.
    AmbiguousName,
    /// The nearest configuration can't be used.
    InvalidConfig,
    /// There is no container where one is needed.
    NoContainer,
    /// An override sends runs to the host, and the tool requires a container.
    ContainerRequired,
    /// The host policy doesn't allow the host.
    HostForbidden,
    /// There is no workspace, or none with a checkout, that a host runner could work on.
    HostUnavailable,
    /// The workspace has no checkout, and the instance doesn't clone it.
    NotCloned,
    /// The plan works in checkouts of its own, and what was chosen isn't in them.
    NotInCheckout,
    /// The operator turned dev containers off.
    DevcontainersDisabled,
}

impl Refusal {
    /// The reason for conditions.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::DevcontainersDisabled => Reason::DevcontainersDisabled,
            _ => Reason::NoEnvironment,
        }
    }
}

impl Verdict {
    /// The verdict as it stands in a run's status, within the bounds of the API. `uid_of` gives the uid of an instance
    /// that exists; `host` is the host runner's name.
    #[must_use]
    pub fn to_route(&self, host: &str, uid_of: impl Fn(&InstanceRef) -> Option<String>) -> Route {
        let target = self.chosen.as_ref().map(|target| {
            let instance = match target {
                Target::Instance(instance) => instance.clone(),
                Target::Host => InstanceRef { kind: InstanceKind::ContainerInstance, name: host.to_owned() },
            };
            let uid = uid_of(&instance);
            RouteTarget { kind: instance.kind, name: instance.name, uid }
        });
        Route { target, rule: self.rule, reason: self.reason.clone(), considered: self.considered.clone() }
    }

    /// Puts the texts within their bounds.
    pub(super) fn bounded(mut self) -> Self {
        self.reason = text(&self.reason, TEXT_MAX);
        let total = self.considered.len();
        if total > CONSIDERED_MAX {
            self.considered.truncate(CONSIDERED_MAX - 1);
            self.considered.push(Considered {
                source: "…".to_owned(),
                target: None,
                verdict: format!("{} more", total - CONSIDERED_MAX + 1),
            });
        }
        for entry in &mut self.considered {
            entry.source = text(&entry.source, SOURCE_MAX);
            entry.target = entry.target.as_deref().map(|t| text(t, TEXT_MAX));
            entry.verdict = text(&entry.verdict, TEXT_MAX);
        }
        self
    }
}

/// One line of at most `max` characters without control characters.
fn text(given: &str, max: usize) -> String {
    let clean = given.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    if given.chars().count() <= max {
        return clean.collect();
    }
    let mut cut: String = clean.take(max - 1).collect();
    cut.push('…');
    cut
}
