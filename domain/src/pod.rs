//! What a Pod's status says, in the few words that decisions need.

use drydock_crds::condition::Reason;
use drydock_crds::label;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use crate::agent::PodRef;

/// The container in which tools run, a checkout works, and so on: the one that a pod of ours is made for.
pub const MAIN_CONTAINER: &str = "main";

/// A pod of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFact {
    /// Which pod.
    pub pod: PodRef,
    /// When it was created.
    pub created: Timestamp,
    /// When its deletion was asked for.
    pub deleting_since: Option<Timestamp>,
    /// The node it is on.
    pub node: Option<String>,
    /// Whether the cluster takes it away: a drain, a preemption, its node in trouble.
    pub evicted: bool,
    /// How far it is.
    pub stage: PodStage,
    /// Id of its main container.
    pub container_id: Option<String>,
    /// Image of its main container, by digest where the node says it.
    pub image: Option<String>,
    /// Digest of the inputs it was made from (label [`label::INPUTS`]).
    pub inputs: Option<String>,
}

/// How far a pod is.
#[derive(Clone, Debug, PartialEq)]
pub enum PodStage {
    /// Its main container doesn't run yet.
    Starting(Option<Trouble>),
    /// Its main container runs.
    Running,
    /// Its main container ended, or will never start.
    Ended(End),
}

/// Why a pod doesn't come up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word.
    pub reason: Reason,
    /// What the cluster says.
    pub message: String,
    /// Whether it can't come up without a change.
    pub permanent: bool,
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// One word.
    pub reason: Reason,
    /// What the cluster says.
    pub message: String,
    /// Exit code of its main container, where it ran.
    pub exit_code: Option<i32>,
    /// When, where the cluster says it.
    pub at: Option<Timestamp>,
}

impl PodFact {
    /// Reads a pod. One without name and uid (it was never on a server) is nothing.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let status = pod.status.as_ref();
        let main = status.and_then(|s| container(s.container_statuses.as_deref(), MAIN_CONTAINER));
        Some(Self {
            pod: PodRef {
                namespace: meta.namespace.clone()?,
                name: meta.name.clone()?,
                uid: meta.uid.clone()?,
            },
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0),
            deleting_since: meta.deletion_timestamp.as_ref().map(|t| t.0),
            node: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
            evicted: status.is_some_and(evicted),
            stage: status.map_or(PodStage::Starting(None), |s| stage(s, main)),
            container_id: main.and_then(|c| c.container_id.clone()),
            image: main.map(|c| if c.image_id.is_empty() { c.image.clone() } else { c.image_id.clone() }),
            inputs: meta.labels.as_ref().and_then(|l| l.get(label::INPUTS).cloned()),
        })
    }

    /// Whether its main container runs and nobody asked for its deletion.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.deleting_since.is_none() && self.stage == PodStage::Running
    }

    /// Whether it is on its way out or over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deleting_since.is_some() || matches!(self.stage, PodStage::Ended(_))
    }
}

fn container<'a>(list: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    list.unwrap_or_default().iter().find(|c| c.name == name)
}

fn stage(status: &PodStatus, main: Option<&ContainerStatus>) -> PodStage {
    if let Some(ended) = main.and_then(|c| c.state.as_ref()?.terminated.as_ref()) {
        let reason = match ended.reason.as_deref() {
            _ if evicted(status) => Reason::Evicted,
            Some("OOMKilled") => Reason::OutOfMemory,
            _ => Reason::ContainerExited,
        };
        let message = first_of([status.message.as_deref(), ended.message.as_deref()])
            .map_or_else(|| format!("the container ended with exit code {}", ended.exit_code), str::to_owned);
        return PodStage::Ended(End {
            reason,
            message,
            exit_code: Some(ended.exit_code),
            at: ended.finished_at.as_ref().map(|t| t.0),
        });
    }
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        let trouble = init_failure(status);
        return PodStage::Ended(End {
            reason: if evicted(status) { Reason::Evicted } else { Reason::ContainerFailed },
            message: first_of([status.message.as_deref(), trouble.as_deref(), status.reason.as_deref()])
                .unwrap_or("the pod ended before its container started")
                .to_owned(),
            exit_code: None,
            at: None,
        });
    }
    if main.is_some_and(|c| c.state.as_ref().is_some_and(|s| s.running.is_some())) {
        return PodStage::Running;
    }
    PodStage::Starting(waiting_trouble(status).or_else(|| scheduling_trouble(status)))
}

/// The kubelet says it in the reason, everybody else in the condition.
fn evicted(status: &PodStatus) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    matches!(status.reason.as_deref(), Some("Evicted" | "Preempting"))
        || conditions.iter().any(|c| c.type_ == "DisruptionTarget" && c.status == "True")
}

fn first_of<const N: usize>(texts: [Option<&str>; N]) -> Option<&str> {
    texts.into_iter().flatten().find(|t| !t.is_empty())
}

fn init_failure(status: &PodStatus) -> Option<String> {
    status.init_container_statuses.as_deref().unwrap_or_default().iter().find_map(|c| {
        let ended = c.state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code != 0).then(|| {
            let message = first_of([ended.message.as_deref(), ended.reason.as_deref()]).unwrap_or_default();
            format!("init container {} ended with exit code {}: {message}", c.name, ended.exit_code)
        })
    })
}

/// What the kubelet says of a container that waits; ordinary waiting is no trouble.
fn waiting_trouble(status: &PodStatus) -> Option<Trouble> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let all = init.iter().chain(status.container_statuses.as_deref().unwrap_or_default());
    all.filter_map(|c| Some((c, c.state.as_ref()?.waiting.as_ref()?))).find_map(|(c, waiting)| {
        let (reason, permanent) = match waiting.reason.as_deref()? {
            "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => {
                (Reason::ImagePullFailed, false)
            }
            "InvalidImageName" | "ErrImageNeverPull" => (Reason::ImagePullFailed, true),
            "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "CrashLoopBackOff"
            | "PreCreateHookError"
            | "PreStartHookError"
            | "PostStartHookError" => (Reason::ContainerFailed, false),
            _ => return None,
        };
        let said = waiting.message.as_deref().unwrap_or_default();
        Some(Trouble { reason, message: format!("container {}: {said}", c.name), permanent })
    })
}

fn scheduling_trouble(status: &PodStatus) -> Option<Trouble> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let unscheduled = conditions.iter().find(|c| {
        c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(Trouble {
        reason: Reason::Unschedulable,
        message: unscheduled.message.clone().unwrap_or_default(),
        permanent: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fact(status: serde_json::Value) -> PodFact {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": status,
        }))
        .unwrap();
        PodFact::of(&pod).unwrap()
    }

    #[test]
    fn the_stage_follows_the_main_container() {
        let waiting = |reason: &str| {
            json!({"phase": "Pending", "containerStatuses": [{"name": "main", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason, "message": "m"}}}]})
        };
        assert_eq!(fact(json!({})).stage, PodStage::Starting(None));
        assert_eq!(fact(waiting("ContainerCreating")).stage, PodStage::Starting(None));
        let PodStage::Starting(Some(trouble)) = fact(waiting("ImagePullBackOff")).stage else {
            panic!("trouble expected")
        };
        assert_eq!((trouble.reason, trouble.permanent), (Reason::ImagePullFailed, false));
        let PodStage::Starting(Some(trouble)) = fact(waiting("InvalidImageName")).stage else {
            panic!("trouble expected")
        };
        assert!(trouble.permanent);
        let running = json!({"phase": "Running", "containerStatuses": [{"name": "main", "image": "i", "imageID": "sha", "ready": true,
            "restartCount": 0, "containerID": "c://1", "state": {"running": {}}}]});
        let fact_running = fact(running);
        assert!(fact_running.is_up());
        assert_eq!(fact_running.image.as_deref(), Some("sha"));
    }

    #[test]
    fn an_end_is_told_apart_by_its_cause() {
        let ended = |reason: &str, pod_reason: &str| {
            json!({"phase": "Failed", "reason": pod_reason, "containerStatuses": [{"name": "main",
            "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": reason}}}]})
        };
        for (reason, pod_reason, expected) in [
            ("OOMKilled", "", Reason::OutOfMemory),
            ("Error", "Evicted", Reason::Evicted),
            ("Error", "", Reason::ContainerExited),
        ] {
            let PodStage::Ended(end) = fact(ended(reason, pod_reason)).stage else { panic!("end expected") };
            assert_eq!(end.reason, expected);
            assert_eq!(end.exit_code, Some(137));
        }
        let PodStage::Ended(end) =
            fact(json!({"phase": "Failed", "reason": "Evicted", "message": "disk"})).stage
        else {
            panic!("end expected")
        };
        assert_eq!((end.reason, end.message.as_str()), (Reason::Evicted, "disk"));
        let drained =
            fact(json!({"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}));
        assert!(drained.evicted);
    }

    #[test]
    fn an_unschedulable_pod_says_why() {
        let status = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes"}]});
        let PodStage::Starting(Some(trouble)) = fact(status).stage else { panic!("trouble expected") };
        assert_eq!((trouble.reason, trouble.message.as_str()), (Reason::Unschedulable, "0/1 nodes"));
    }
}
