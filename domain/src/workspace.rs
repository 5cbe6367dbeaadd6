//! What becomes of a Workspace: its claim, its checkout, the configurations found in it, and its end.

mod checkout;
mod deletion;
mod discovery;
mod report;
pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::label;
use drydock_crds::reference::InstanceRef;
use drydock_crds::workspace::{Workspace, WorkspaceStatus};
use drydock_protocol::checkout::CheckoutReport;
use jiff::Timestamp;

use crate::condition::{Conditions, Truth};
use crate::decision::{Decision, Effect, Notice, Wake};
use crate::pod::PodFact;
use crate::render::SharedClaim;
use crate::settings::{Installation, Settings};

/// Everything a Workspace is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub workspace: Arc<Workspace>,
    /// The claim that holds the tree: Drydock's own, the one to take over, or the one that the source names.
    pub claim: Option<ClaimSeen>,
    /// The checkout pod, with what it said where it has ended.
    pub checkout: Option<CheckoutPod>,
    /// The Secret with git's credential.
    pub secret: SecretFact,
    /// The files that are kept, by key; absent: there is no config map yet.
    pub kept_files: Option<BTreeMap<String, String>>,
    /// The instances that belong to it.
    pub instances: Vec<InstanceSeen>,
    /// Environments that mount the tree now.
    pub mounted_by: Vec<InstanceRef>,
    /// How many pods of it there are but the checkout's.
    pub pods: usize,
    /// Uids of plans and instances whose folders on the claim must stay.
    pub living: Living,
    /// Why something can't be made, where something foreign has its name.
    pub conflict: Option<String>,
    /// What the cluster said when it last refused to make its claim or its checkout pod.
    pub refused: Option<String>,
    /// The settings of its namespace.
    pub settings: Settings,
    /// What the controller was installed with.
    pub installation: Installation,
    /// When it was observed.
    pub now: Timestamp,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimSeen {
    /// Name, uid, access.
    pub claim: SharedClaim,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The uid of the workspace in its annotation.
    pub workspace_uid: Option<String>,
    /// Whether a Workspace of that uid is alive.
    pub workspace_alive: bool,
    /// The repository in its annotation.
    pub origin: Option<String>,
    /// Its expiry, in its annotation.
    pub expires_at: Option<String>,
}

/// The checkout pod.
#[derive(Clone, Debug)]
pub struct CheckoutPod {
    /// The pod.
    pub pod: PodFact,
    /// What it said; absent while it works. `Err`: why that can't be read.
    pub report: Option<Result<CheckoutReport, String>>,
}

/// A Secret, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFact {
    /// None is named, or none is needed now.
    NotNeeded,
    /// It isn't there.
    Missing,
    /// It is.
    Present {
        /// Its keys.
        keys: BTreeSet<String>,
    },
}

/// An instance of the workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceSeen {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether the Workspace owns it.
    pub automatic: bool,
    /// The workspace it names.
    pub workspace: String,
    /// The configuration it names.
    pub config_path: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether runs that aren't finished are routed to it.
    pub in_use: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Uids whose folders on the claim must stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Living {
    /// Of plans.
    pub plans: Vec<String>,
    /// Of instances.
    pub instances: Vec<String>,
}

/// A decision on its way.
struct Draft<'a> {
    seen: &'a Observed,
    status: WorkspaceStatus,
    conditions: Conditions,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    wake: Wake,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<WorkspaceStatus> {
    let meta = &seen.workspace.metadata;
    let status = seen.workspace.status.clone().unwrap_or_default();
    let conditions = Conditions::new(&status.conditions, meta.generation.unwrap_or_default(), seen.now);
    let mut draft =
        Draft { seen, status, conditions, effects: Vec::new(), notices: Vec::new(), wake: Wake::OnChange };
    draft.status.observed_generation = meta.generation.unwrap_or_default();
    if meta.deletion_timestamp.is_some() {
        return draft.deleted();
    }
    draft.living();
    draft.status.conditions = draft.conditions.finish();
    Decision { effects: draft.effects, status: Some(draft.status), notices: draft.notices, wake: draft.wake }
}

impl Draft<'_> {
    fn living(&mut self) {
        let finalizers = self.seen.workspace.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|f| f == label::WORKSPACE_FINALIZER) {
            self.effects.push(Effect::AddFinalizer(label::WORKSPACE_FINALIZER));
            self.wake = Wake::Again;
            return self.progress(Reason::Pending, "the workspace is being taken on");
        }
        self.status.used_by.clone_from(&self.seen.mounted_by);
        self.status.used_by.truncate(64);
        if self.seen.workspace.spec.suspend == Some(true) {
            return self.suspended();
        }
        if let Some((reason, message)) = source::objection(&self.seen.workspace.spec, &self.seen.settings) {
            return self.stall(reason, message);
        }
        if let Some(claim) = self.take_claim() {
            self.check_out(claim);
            self.keep_instances();
        }
    }

    fn suspended(&mut self) {
        let scanned = ConditionType::Discovered.is_true(&self.status.conditions);
        self.conditions.set(
            ConditionType::Ready,
            Truth::of(scanned),
            Reason::Suspended,
            "spec.suspend is set",
        );
        self.conditions.settle();
        self.keep_instances();
    }

    fn progress(&mut self, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        for type_ in [ConditionType::CheckedOut, ConditionType::Discovered] {
            if !type_.is_true(&self.seen.workspace.status.clone().unwrap_or_default().conditions) {
                self.conditions.set(type_, Truth::Unknown, reason, message.clone());
            }
        }
        self.conditions.progressing(Truth::False, reason, message);
    }

    fn stall(&mut self, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        for type_ in [ConditionType::CheckedOut, ConditionType::Discovered] {
            if !type_.is_true(&self.seen.workspace.status.clone().unwrap_or_default().conditions) {
                self.conditions.set(type_, Truth::False, reason, message.clone());
            }
        }
        self.conditions.stalled(reason, message);
    }

    fn name(&self) -> &str {
        self.seen.workspace.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.seen.workspace.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.seen.workspace.metadata.uid.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
