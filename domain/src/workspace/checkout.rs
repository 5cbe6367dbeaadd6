//! The claim, and the pod that checks out and scans: when one is due, and what its report changes.

use std::time::Duration;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::instance::{HandledRequest, RequestResult};
use drydock_crds::label;
use drydock_crds::workspace::{CheckoutAttempt, DiscoveryMode, Submodules, WorkspaceSpec};
use drydock_protocol::checkout as protocol;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::{CheckoutPod, ClaimSeen, Draft, SecretFact, source};
use crate::decision::{Deletion, Effect, Object, Wake, after, owner_reference, resource_of};
use crate::name;
use crate::pod::PodStage;
use crate::render::checkout::{CREDENTIALS_FOLDER, Checkout, TreeClaim};
use crate::render::{CLAIM_FOLDER, checkout, claim};

/// How long a checkout may take.
const TIMEOUT: Duration = Duration::from_secs(900);
/// The first wait after a failed checkout.
const RETRY_FIRST: Duration = Duration::from_secs(5);
/// The longest.
const RETRY_MOST: Duration = Duration::from_secs(300);
/// How often a Secret that is missing is looked for: it isn't watched.
const SECRET_POLL: Duration = Duration::from_secs(10);

impl Draft<'_> {
    /// The claim that the tree lies on, once it is there and ours; `Some(None)` where none is needed.
    pub(super) fn take_claim(&mut self) -> Option<Option<TreeClaim>> {
        let spec = &self.seen.workspace.spec;
        if source::is_remote_only(spec) {
            return Some(None);
        }
        if let Some(named) = &spec.source.persistent_volume_claim {
            let found = self.present_claim(&named.claim_name)?;
            self.status.claim_name = Some(named.claim_name.clone());
            let sub_path = named.sub_path.clone();
            return Some(Some(TreeClaim { claim: found.claim, sub_path, read_only: true }));
        }
        let named = spec.storage.as_ref().and_then(|s| s.claim_name.clone());
        let own = match named {
            Some(name) => self.take_over(&name)?,
            None => self.own_claim()?,
        };
        self.status.claim_name = Some(own.claim.name.clone());
        Some(Some(TreeClaim { claim: own.claim, sub_path: None, read_only: false }))
    }

    fn present_claim(&mut self, name: &str) -> Option<ClaimSeen> {
        match self.seen.claim.clone() {
            Some(claim) if claim.deleting => {
                self.progress(Reason::ClaimPending, format!("PersistentVolumeClaim {name} is being deleted"));
                None
            }
            Some(claim) => Some(claim),
            None => {
                let message = format!("PersistentVolumeClaim {name} isn't there");
                self.await_reference(Reason::ClaimNotFound, &message);
                None
            }
        }
    }

    fn await_reference(&mut self, reason: Reason, message: &str) {
        let present = self.seen.workspace.status.clone().unwrap_or_default().conditions;
        let generation = self.status.observed_generation;
        let now = self.seen.now;
        self.progress(reason, message);
        self.wake =
            crate::reference::unresolved(&mut self.conditions, &present, generation, now, reason, message);
    }

    /// Drydock's own claim: made where it isn't there.
    fn own_claim(&mut self) -> Option<ClaimSeen> {
        let name = name::workspace_claim(self.uid());
        match self.seen.claim.clone() {
            Some(claim) if claim.deleting => {
                self.progress(Reason::ClaimPending, format!("PersistentVolumeClaim {name} is being deleted"));
                None
            }
            Some(claim) if claim.workspace_uid.as_deref() == Some(self.uid()) => Some(claim),
            Some(_) => {
                let message =
                    format!("PersistentVolumeClaim {name} belongs to something else: delete or rename it");
                self.stall(Reason::NameConflict, message);
                None
            }
            None => {
                let spec = &self.seen.workspace.spec;
                let workspace = (self.name(), self.uid());
                let origin = source::origin(spec);
                let claim = claim::workspace_claim(
                    self.namespace(),
                    &name,
                    workspace,
                    &origin,
                    spec.storage.as_ref(),
                );
                self.effects.push(Effect::Create(Object::of(&claim, &())));
                self.progress(Reason::ClaimPending, format!("PersistentVolumeClaim {name} is being made"));
                None
            }
        }
    }

    /// A claim that a deleted Workspace of the same repository left.
    fn take_over(&mut self, name: &str) -> Option<ClaimSeen> {
        let claim = self.present_claim(name)?;
        let own = claim.workspace_uid.as_deref() == Some(self.uid());
        if own && claim.expires_at.is_none() {
            return Some(claim);
        }
        let origin = source::origin(&self.seen.workspace.spec);
        let refusal = match &claim.origin {
            _ if claim.workspace_uid.is_none() => Some("isn't one that a Workspace left".to_owned()),
            _ if !own && claim.workspace_alive => Some("belongs to a Workspace that is alive".to_owned()),
            Some(other) if *other == origin => None,
            Some(other) => Some(format!("holds {other}, not {origin}")),
            None => Some("doesn't say what repository it holds".to_owned()),
        };
        if let Some(why) = refusal {
            self.stall(
                Reason::ClaimRefused,
                format!("PersistentVolumeClaim {name} can't be taken over: it {why}"),
            );
            return None;
        }
        self.effects.push(Effect::Apply(Object::of(
            &ours(self.namespace(), name, self.name(), self.uid(), &origin),
            &(),
        )));
        self.progress(Reason::ClaimPending, format!("PersistentVolumeClaim {name} is being taken over"));
        None
    }

    /// Takes in what a pod said, or makes one when one is due.
    pub(super) fn check_out(&mut self, claim: Option<TreeClaim>) {
        let ask = ask(&self.seen.workspace.spec, self.rescan_token().as_deref());
        if let Some(found) = self.seen.checkout.clone() {
            return self.with_pod(&found, &ask);
        }
        match self.due(&ask) {
            Some(why) => self.make_pod(claim, &ask, why),
            None => self.report_readiness(),
        }
    }

    fn with_pod(&mut self, found: &CheckoutPod, ask: &str) {
        let recorded =
            self.status.last_attempt.as_ref().and_then(|a| a.pod_uid.as_deref()) == Some(&found.pod.pod.uid);
        if let Some(since) = found.pod.deleting_since {
            self.wake = self.wake.min(Wake::At(after(since, Duration::from_secs(30))));
            return self.report_readiness();
        }
        if recorded {
            self.delete_pod(found);
            return self.report_readiness();
        }
        if found.pod.inputs.as_deref() != Some(ask) {
            // Somebody changed their mind: what it finds is no longer asked for.
            self.delete_pod(found);
            return self.progress(Reason::CheckingOut, "what is asked for changed: checking out anew");
        }
        match (&found.pod.stage, &found.report) {
            (PodStage::Ended(end), None) => {
                self.failed_attempt(found, ask, Reason::CheckoutFailed, &end.message);
            }
            (PodStage::Ended(end), Some(Err(why))) => {
                let message = format!("{}; its report can't be read: {why}", end.message);
                self.failed_attempt(found, ask, Reason::CheckoutFailed, &message);
            }
            (PodStage::Ended(_), Some(Ok(report))) => self.take_in(found, ask, report),
            (PodStage::Starting(Some(trouble)), _) => self.pod_trouble(found, ask, trouble),
            (PodStage::Starting(None) | PodStage::Running, _) => {
                let deadline = after(found.pod.created, TIMEOUT + Duration::from_secs(60));
                self.wake = self.wake.min(Wake::At(deadline));
                if self.seen.now >= deadline {
                    self.failed_attempt(
                        found,
                        ask,
                        Reason::CheckoutFailed,
                        "the checkout pod didn't end in time",
                    );
                } else if self.is_another_look(ask) {
                    self.report_readiness();
                } else {
                    self.progress(
                        Reason::CheckingOut,
                        format!("pod {} checks the tree out", found.pod.pod.name),
                    );
                }
            }
        }
    }

    fn pod_trouble(&mut self, found: &CheckoutPod, ask: &str, trouble: &crate::pod::Trouble) {
        let deadline = after(found.pod.created, self.seen.settings.environments.start_timeout.0);
        if trouble.permanent || self.seen.now >= deadline {
            return self.failed_attempt(found, ask, trouble.reason, &trouble.message);
        }
        self.wake = self.wake.min(Wake::At(deadline));
        self.progress(trouble.reason, format!("the checkout pod doesn't start: {}", trouble.message));
    }

    /// Records a finished attempt, which is then no longer due.
    pub(super) fn record(&mut self, found: &CheckoutPod, ask: &str, failure: Option<(Reason, String)>) {
        let last = self.status.last_attempt.take().unwrap_or_default();
        let failures = if failure.is_some() { last.failures.saturating_add(1) } else { 0 };
        let (reason, message) = failure.unzip();
        self.status.last_attempt = Some(CheckoutAttempt {
            ask: ask.to_owned(),
            pod_uid: Some(found.pod.pod.uid.clone()),
            failures,
            finished_at: Some(Time(self.seen.now)),
            reason: reason.map(|r| r.to_string()),
            message: message.map(|m: String| m.chars().take(2048).collect()),
        });
        self.wake = Wake::Again;
        if let Some(token) = self.rescan_token() {
            let failed = self.status.last_attempt.as_ref().and_then(|a| a.message.clone());
            let handled = HandledRequest {
                token,
                result: RequestResult::Done,
                reason: Reason::Done.to_string(),
                message: failed
                    .map_or_else(|| "scanned".to_owned(), |m| format!("scanned, and failed: {m}"))
                    .chars()
                    .take(1024)
                    .collect(),
            };
            self.status.handled_requests.insert("rescan".into(), handled);
        }
    }

    fn failed_attempt(&mut self, found: &CheckoutPod, ask: &str, reason: Reason, message: &str) {
        self.record(found, ask, Some((reason, message.to_owned())));
        self.report_readiness();
    }

    /// Why a checkout is due now, if it is. Sets when to look again.
    fn due(&mut self, ask: &str) -> Option<&'static str> {
        let Some(last) = self.status.last_attempt.clone() else {
            return Some("the tree is to be checked out");
        };
        if last.ask != ask {
            return Some("what is asked for changed");
        }
        let finished = last.finished_at.as_ref().map_or(self.seen.now, |t| t.0);
        let mut deadlines = Vec::new();
        if last.reason.is_some() {
            let doublings = u32::try_from(last.failures.saturating_sub(1)).unwrap_or_default().min(16);
            let wait = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MOST);
            deadlines.push((after(finished, wait), "the last checkout failed"));
        }
        let git = self.seen.workspace.spec.source.git.as_ref();
        if let Some(interval) = git.and_then(|g| g.interval) {
            deadlines.push((after(finished, interval.into()), "the interval is over"));
        }
        let up_to_date = ConditionType::UpToDate.find(&self.status.conditions);
        let held = up_to_date.is_some_and(|c| c.status == "False" && c.reason == Reason::TreeInUse.as_str());
        if held && self.seen.mounted_by.is_empty() {
            deadlines.push((after(finished, RETRY_FIRST), "the tree is no longer held"));
        }
        let due = deadlines.iter().find(|(at, _)| *at <= self.seen.now).map(|(_, why)| *why);
        if let (None, Some(next)) = (due, deadlines.iter().map(|(at, _)| *at).min()) {
            self.wake = self.wake.min(Wake::At(next));
        }
        due
    }

    fn make_pod(&mut self, claim: Option<TreeClaim>, ask: &str, why: &str) {
        if let Some(message) = self.secret_objection() {
            self.wake = Wake::At(after(self.seen.now, SECRET_POLL));
            return self.progress(Reason::SecretInvalid, message);
        }
        if let Some(conflict) = self.seen.conflict.clone() {
            return self.stall(Reason::NameConflict, conflict);
        }
        let Some(owner) = owner_reference(self.seen.workspace.as_ref()) else {
            return;
        };
        let spec = self.checkout_spec();
        let git = self.seen.workspace.spec.source.git.as_ref();
        let pod = checkout::pod(
            &Checkout {
                namespace: self.namespace(),
                workspace: (self.name(), self.uid()),
                owner,
                ask,
                spec: &spec,
                claim,
                secret: git.and_then(|g| g.secret_ref.as_ref()).map(|s| s.name.as_str()),
                deadline_seconds: i64::try_from(TIMEOUT.as_secs()).unwrap_or(i64::MAX) + 30,
            },
            &self.seen.installation,
        );
        self.effects.push(Effect::Create(Object::of(&pod, &())));
        if self.is_another_look(ask) {
            return self.report_readiness();
        }
        self.progress(Reason::CheckingOut, format!("{why}: checking out"));
    }

    /// Another look at the remote for what was found before: it changes nothing until it has found something.
    fn is_another_look(&self, ask: &str) -> bool {
        let known = ConditionType::Discovered.is_true(&self.status.conditions);
        known && self.status.last_attempt.as_ref().is_some_and(|a| a.ask == ask)
    }

    fn secret_objection(&self) -> Option<String> {
        let git = self.seen.workspace.spec.source.git.as_ref()?;
        let name = &git.secret_ref.as_ref()?.name;
        match &self.seen.secret {
            SecretFact::NotNeeded => None,
            SecretFact::Missing => {
                Some(format!("Secret {name} isn't there: create it, or correct spec.source.git.secretRef"))
            }
            SecretFact::Present { keys } => {
                let has = |key: &str| keys.contains(key);
                let ssh = git.url.starts_with("ssh://") || !git.url.contains("://");
                let wanted: &[&str] =
                    if ssh { &["ssh-privatekey", "known_hosts"] } else { &["username", "password"] };
                let only_ca = !ssh && has("ca.crt") && !has("username") && !has("password");
                let missing: Vec<&str> = wanted.iter().filter(|k| !has(k)).copied().collect();
                (!only_ca && !missing.is_empty())
                    .then(|| format!("Secret {name} lacks {}: add what is missing", missing.join(", ")))
            }
        }
    }

    fn checkout_spec(&self) -> protocol::CheckoutSpec {
        let spec = &self.seen.workspace.spec;
        let owner = spec.owner.unwrap_or_default();
        let number = |id: i64| u32::try_from(id).unwrap_or(65_534);
        let discovery = spec.discovery.clone().unwrap_or_default();
        let hold = self.seen.mounted_by.first().map(|i| format!("{} {} mounts it", i.kind, i.name));
        let own_claim = spec.source.git.is_some() && !source::is_remote_only(spec);
        protocol::CheckoutSpec {
            source: checkout_source(spec),
            root: CLAIM_FOLDER.into(),
            owner: protocol::Owner { uid: number(owner.uid), gid: number(owner.gid) },
            hold,
            discovery: protocol::DiscoverySpec {
                disabled: discovery.mode == Some(DiscoveryMode::Disabled),
                exclude: discovery.exclude,
                max_depth: discovery.max_depth.and_then(|d| u32::try_from(d).ok()),
            },
            living: own_claim.then(|| protocol::Living {
                plans: self.seen.living.plans.clone(),
                instances: self.seen.living.instances.clone(),
            }),
            timeout_seconds: TIMEOUT.as_secs(),
        }
    }

    fn rescan_token(&self) -> Option<String> {
        let token = self.seen.workspace.metadata.annotations.as_ref()?.get(label::RESCAN)?;
        (!token.is_empty()).then(|| token.chars().take(256).collect())
    }

    fn delete_pod(&mut self, found: &CheckoutPod) {
        self.effects.push(Effect::Delete(Deletion {
            resource: resource_of::<Pod>(),
            namespace: found.pod.pod.namespace.clone(),
            name: found.pod.pod.name.clone(),
            uid: found.pod.pod.uid.clone(),
            resource_version: None,
            grace_seconds: Some(1),
        }));
    }
}

/// The metadata by which a claim is a Workspace's, as it is applied: an expiry that was applied before goes with it.
pub(super) fn ours(
    namespace: &str,
    claim: &str,
    name: &str,
    uid: &str,
    origin: &str,
) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(
                [
                    (label::MANAGED_BY.to_owned(), label::MANAGER.to_owned()),
                    (label::WORKSPACE.to_owned(), crate::render::label_value(name)),
                ]
                .into(),
            ),
            annotations: Some(
                [
                    (label::WORKSPACE_UID.to_owned(), uid.to_owned()),
                    (label::WORKSPACE_NAME.to_owned(), name.to_owned()),
                    (label::ORIGIN_URL.to_owned(), origin.to_owned()),
                ]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        spec: None,
        status: None,
    }
}

/// Identifies what is asked for: 40 hex digits.
fn ask(spec: &WorkspaceSpec, token: Option<&str>) -> String {
    let mut source = spec.source.clone();
    if let Some(git) = &mut source.git {
        git.interval = None;
    }
    let asked = json!({"source": source, "owner": spec.owner, "discovery": spec.discovery, "rescan": token});
    name::digest(&asked.to_string(), 40)
}

fn checkout_source(spec: &WorkspaceSpec) -> protocol::CheckoutSource {
    let Some(git) = &spec.source.git else {
        return protocol::CheckoutSource::Directory {};
    };
    protocol::CheckoutSource::Git(protocol::GitSource {
        url: git.url.clone(),
        revision: git.revision.clone(),
        submodules: match git.submodules.unwrap_or_default() {
            Submodules::None => protocol::Submodules::None,
            Submodules::Recursive => protocol::Submodules::Recursive,
        },
        depth: git.depth.and_then(|d| u32::try_from(d).ok()),
        remote_only: source::is_remote_only(spec),
        credentials: git.secret_ref.as_ref().map(|_| CREDENTIALS_FOLDER.to_owned()),
    })
}
