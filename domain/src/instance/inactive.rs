//! The states in which nothing runs: at rest, starting, stopping, failed.

use std::time::Duration;

use drydock_crds::condition::Reason;
use drydock_crds::instance::{AgentStatus, DesiredState, ProvisioningState, RequestResult};
use drydock_crds::label::{self, Role};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Draft, retry_due};
use crate::agent::AgentCall;
use crate::blueprint::{Acceptance, Blueprint, RUN_CONTEXT};
use crate::decision::{Deletion, Effect, Object, Wake, after, resource_of};
use crate::name;
use crate::pod::{PodFact, PodStage};
use crate::render::{claim, environment};

/// The grace of a pod that is stopped: the agent ends what is left in it.
const POD_GRACE: u32 = 10;
/// How long a deleted pod may stay before its node is said to be unreachable.
const NODE_SILENCE: Duration = Duration::from_secs(60);

impl Draft<'_> {
    /// Discovered or stopped: it starts when somebody wants it, and only if it could.
    pub(super) fn at_rest(&mut self) {
        // A pod that nobody recorded, say of a controller that ended between two writes, isn't kept.
        self.delete_pods();
        let Some((reason, message)) = self.wanted() else {
            return;
        };
        if self.blueprint().is_some() {
            self.status.start_began_at = Some(Time(self.seen.now));
            self.step(ProvisioningState::Building, reason, message);
        }
    }

    /// Building: the image, the claims, the pod, the agent's hello; each at most until `startTimeout`.
    pub(super) fn building(&mut self) {
        if self.open_stop().is_some()
            || self.desired() == DesiredState::Stopped
            || self.is_orphaned_for_good()
        {
            let message = "it was being started; the file system outside volumes is discarded";
            return self.step(ProvisioningState::Stopping, Reason::Requested, message);
        }
        let blueprint = match &self.seen.acceptance {
            Acceptance::Accepted(blueprint) => blueprint,
            Acceptance::Waiting(o) | Acceptance::Refused(o) | Acceptance::Orphaned(o) => {
                return self.fail(o.reason, o.message.clone());
            }
        };
        if let Some(why) = &blueprint.needs_build {
            let message = format!(
                "the configuration needs an image build ({why}), which isn't available in this version"
            );
            return self.fail(Reason::BuildUnavailable, message);
        }
        let began = self.status.start_began_at.as_ref().map_or(self.seen.now, |t| t.0);
        let deadline = after(began, self.seen.settings.environments.start_timeout.0);
        let expired = self.seen.now >= deadline;
        self.wake = self.wake.min(Wake::At(deadline));
        match self.present_pod().cloned() {
            Some(pod) => self.starting_pod(&pod, blueprint, expired),
            None if expired => match self.seen.refused.clone() {
                Some(said) => self.fail(Reason::PodRejected, said),
                None => self.expire("its pod was never made"),
            },
            None => self.make_pod(blueprint),
        }
    }

    fn starting_pod(&mut self, pod: &PodFact, blueprint: &Blueprint, expired: bool) {
        match &pod.stage {
            PodStage::Ended(end) => self.fail(end.reason, end.message.clone()),
            PodStage::Starting(_) if pod.inputs.is_some() && pod.inputs != self.present_inputs() => {
                self.status.start_began_at = Some(Time(self.seen.now));
                self.delete_pods();
                self.wait(Reason::Building, "what it is made from changed: its pod is made anew");
            }
            PodStage::Starting(Some(trouble)) if trouble.permanent => {
                self.fail(trouble.reason, trouble.message.clone());
            }
            PodStage::Starting(Some(trouble)) if expired => {
                self.fail(trouble.reason, trouble.message.clone());
            }
            PodStage::Starting(None) if expired => {
                self.expire("the pod's containers were still being created");
            }
            PodStage::Starting(Some(trouble)) => self.wait(trouble.reason, trouble.message.clone()),
            PodStage::Starting(None) => {
                self.wait(Reason::Building, format!("pod {} is starting", pod.pod.name));
            }
            PodStage::Running => self.await_hello(pod, blueprint, expired),
        }
    }

    fn await_hello(&mut self, pod: &PodFact, blueprint: &Blueprint, expired: bool) {
        let facts = &self.seen.agent;
        let Some(hello) = &facts.hello else {
            if expired {
                let last = facts.last_error.as_deref().unwrap_or("no answer");
                return self.fail(Reason::AgentUnreachable, format!("the agent didn't answer: {last}"));
            }
            self.effects.push(Effect::Agent(AgentCall::Connect(pod.pod.clone())));
            return self.wait(Reason::Building, format!("waiting for the agent in pod {}", pod.pod.name));
        };
        self.status.pod_name = Some(pod.pod.name.clone());
        self.status.pod_uid = Some(pod.pod.uid.clone());
        self.status.container_id.clone_from(&pod.container_id);
        self.status.engine_type = pod
            .container_id
            .as_deref()
            .and_then(|id| id.split_once("://"))
            .map(|(engine, _)| engine.to_owned());
        self.status.agent = Some(AgentStatus {
            version: Some(hello.version.clone()),
            fingerprint: hello.fingerprint.clone(),
            boot_id: Some(hello.boot_id.clone()),
        });
        self.status.executables = hello.executables.iter().take(64).cloned().collect();
        self.status.inputs_digest.clone_from(&pod.inputs);
        self.status.image = Some(drydock_crds::instance::ImageStatus {
            reference: blueprint.image.clone(),
            digest: pod.image.clone(),
            ..drydock_crds::instance::ImageStatus::default()
        });
        self.step(ProvisioningState::Active, Reason::Active, format!("pod {} runs", pod.pod.name));
    }

    /// Makes the claims of named volumes, then the pod; never beside an old pod of the same name.
    fn make_pod(&mut self, blueprint: &Blueprint) {
        if let Some(old) = self.seen.pods.first() {
            return self
                .wait(Reason::Building, format!("waiting for the old pod {} to be gone", old.pod.name));
        }
        if let Some(conflict) = &self.seen.conflict {
            return self.fail(Reason::NameConflict, conflict.clone());
        }
        let identity = &self.seen.identity;
        for volume in blueprint.volumes.iter().filter(|v| !self.seen.volumes.contains(&v.claim_name)) {
            let owner = identity.owner.clone();
            let object = claim::volume_claim(&identity.namespace, &volume.claim_name, &identity.name, owner);
            self.effects.push(Effect::Create(Object::of(&object, &())));
        }
        let pod = self.render(blueprint);
        self.status.inputs_digest =
            pod.metadata.labels.as_ref().and_then(|labels| labels.get(label::INPUTS)).cloned();
        self.effects.push(Effect::Create(Object::of(&pod, &())));
        match self.seen.refused.clone() {
            Some(said) => self.wait(Reason::PodRejected, said),
            None => self.wait(Reason::Building, "its pod is being made"),
        }
    }

    /// The pod as it would be made now.
    pub(super) fn render(&self, blueprint: &Blueprint) -> Pod {
        render_pod(self.seen, blueprint)
    }

    fn expire(&mut self, what: &str) {
        let limit = kube::core::Duration::from(self.seen.settings.environments.start_timeout.0);
        self.fail(Reason::StartTimeout, format!("not up within {limit:?}: {what}"));
    }

    fn fail(&mut self, reason: Reason, message: String) {
        if self.status.inputs_digest.is_none() {
            self.status.inputs_digest = self.present_inputs();
        }
        self.step(ProvisioningState::Failed, reason, message);
    }

    /// Digest of what would be started now; absent where nothing could be.
    pub(super) fn present_inputs(&self) -> Option<String> {
        let pod = self.render(self.blueprint()?);
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(label::INPUTS)).cloned()
    }

    /// Stopping: the pod goes; with its object gone the environment is stopped, or has failed if it was sick.
    pub(super) fn stopping(&mut self) {
        if self.seen.pods.is_empty() {
            return self.stopped();
        }
        self.delete_pods();
        let deleted = self.seen.pods.iter().filter_map(|p| p.deleting_since).min();
        match deleted.map(|since| after(since, NODE_SILENCE + Duration::from_secs(u64::from(POD_GRACE)))) {
            Some(silent) if self.seen.now >= silent => {
                let node = self.seen.pods.iter().find_map(|p| p.node.clone()).unwrap_or_default();
                self.wait(
                    Reason::NodeUnreachable,
                    format!("its pod doesn't go: node {node} doesn't confirm it"),
                );
            }
            Some(silent) => {
                self.wake = self.wake.min(Wake::At(silent));
                self.wait(Reason::Stopping, "its pod is being deleted");
            }
            None => self.wait(Reason::Stopping, "its pod is being deleted"),
        }
    }

    fn stopped(&mut self) {
        let last = self.status.transitions.last().cloned();
        let because = last.map(|t| t.message).unwrap_or_default();
        let sick = self.status.transitions.last().is_some_and(|t| t.reason == Reason::Unhealthy.as_str());
        self.forget_pod();
        if sick {
            return self.step(ProvisioningState::Failed, Reason::Unhealthy, because);
        }
        let message = format!("{because}; the file system outside volumes was discarded");
        self.step(ProvisioningState::Stopped, Reason::StateDiscarded, message);
        self.finish_stops(Reason::Done, "stopped; the file system outside volumes was discarded");
    }

    /// Failed: nothing of it stays. It is tried again on request, with other inputs, or, for a new run, when a retry is due.
    pub(super) fn failed(&mut self) {
        self.delete_pods();
        if self.open_stop().is_some() {
            self.forget_pod();
            self.step(ProvisioningState::Stopped, Reason::Requested, "stopped after a failure");
            return self.finish_stops(Reason::Done, "it had failed and is stopped");
        }
        if !self.seen.pods.is_empty() {
            return self.wait(Reason::StartFailed, "what is left of the failed start is being removed");
        }
        let inputs = self.present_inputs();
        let changed = inputs.is_some() && inputs != self.status.inputs_digest;
        if self.open(label::RETRY).is_some() {
            if self.blueprint().is_none() {
                let message = "it can't be started as it is: see condition Accepted";
                return self.handle(label::RETRY, RequestResult::Refused, Reason::InvalidSpec, message);
            }
            self.handle(label::RETRY, RequestResult::Done, Reason::Done, "it is being started again");
            return self.restart(Reason::Retry, "a retry was requested");
        }
        if self.wanted().is_none() || self.blueprint().is_none() {
            return;
        }
        if changed {
            return self.restart(Reason::InputsChanged, "what it is made from changed since it failed");
        }
        match retry_due(&self.seen.status) {
            Some(due) if self.seen.now >= due => self.restart(Reason::Retry, "it is wanted again"),
            Some(due) => self.wake = self.wake.min(Wake::At(due)),
            None => {}
        }
    }

    fn restart(&mut self, reason: Reason, message: &str) {
        self.forget_pod();
        self.status.inputs_digest = None;
        self.status.start_began_at = Some(Time(self.seen.now));
        self.step(ProvisioningState::Building, reason, message);
    }

    fn delete_pods(&mut self) {
        for pod in self.seen.pods.iter().filter(|p| p.deleting_since.is_none()) {
            self.effects.push(Effect::Delete(Deletion {
                resource: resource_of::<Pod>(),
                namespace: pod.pod.namespace.clone(),
                name: pod.pod.name.clone(),
                uid: pod.pod.uid.clone(),
                resource_version: None,
                grace_seconds: Some(POD_GRACE),
            }));
        }
    }

    /// Whether the workspace is gone or going, so that starting makes no sense.
    pub(super) fn is_orphaned_for_good(&self) -> bool {
        self.seen.identity.workspace_deleting_since.is_some()
            || matches!(self.seen.acceptance, Acceptance::Orphaned(_))
    }
}

/// The pod of an instance as it would be made now.
fn render_pod(seen: &super::Observed, blueprint: &Blueprint) -> Pod {
    let identity = &seen.identity;
    let kind: &'static str = identity.kind.into();
    let mut env = blueprint.env.clone();
    if !blueprint.user.is_empty() {
        env.push(("DRYDOCK_USER".into(), blueprint.user.clone()));
    }
    if !blueprint.remote_env.is_empty() {
        let remote: Vec<(&String, &Option<String>)> =
            blueprint.remote_env.iter().map(|(k, v)| (k, v)).collect();
        env.push(("DRYDOCK_REMOTE_ENV".into(), serde_json::to_string(&remote).unwrap_or_default()));
    }
    let environment = environment::Environment {
        namespace: &identity.namespace,
        kind,
        instance: &identity.name,
        role: identity.role,
        name: name::child(&identity.uid, Role::Environment),
        owner: identity.owner.clone(),
        workspace: identity.workspace.as_deref(),
        image: &blueprint.image,
        env,
        workspace_folder: &blueprint.context.workspace_folder,
        mounts: blueprint.mounts.clone(),
        shared_claims: blueprint.shared_claims.clone(),
        spec: &seen.spec,
    };
    let mut pod = environment::pod(&environment, &seen.settings, &seen.installation);
    let context = serde_json::to_string(&blueprint.context).unwrap_or_default();
    pod.metadata.annotations.get_or_insert_default().insert(RUN_CONTEXT.into(), context);
    pod
}
