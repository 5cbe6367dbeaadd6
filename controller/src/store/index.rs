//! What each kind can be looked up by. An index holds every object it names; nothing is ever scanned.

use drydock_crds::label;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;

use super::Stored;

/// Names of indexes.
pub mod name {
    /// Every kind: the object's uid, in no namespace.
    pub const UID: &str = "uid";
    /// Every kind: the uid of the controlling owner, in no namespace.
    pub const OWNER: &str = "owner";
    /// Every kind: all objects of a namespace; the value is empty.
    pub const NAMESPACE: &str = "namespace";

    /// ToolRun: `KIND/NAME` of the routed instance, finished runs too: the last is the one that ended last.
    pub const TARGET: &str = "target";
    /// ToolRun: `KIND/NAME` of the routed instance, runs without an outcome.
    pub const OPEN_TARGET: &str = "open-target";
    /// ToolRun: runs without an outcome; the value is empty.
    pub const OPEN: &str = "open";
    /// ToolRun: runs without an outcome that go nowhere yet; the value is empty.
    pub const UNROUTED: &str = "unrouted";
    /// ToolRun without an outcome: uid of the claimed pod.
    pub const OPEN_POD: &str = "open-pod";
    /// ToolRun: the plan, finished runs too.
    pub const PLAN: &str = "plan";
    /// ToolRun without an outcome, DevcontainerInstance, Plan, and what has the label: name of the workspace.
    pub const WORKSPACE: &str = "workspace";
    /// ToolRun without an outcome, Plan: name of the project.
    pub const PROJECT: &str = "project";
    /// ToolRun without an outcome: name of the tool.
    pub const TOOL: &str = "tool";

    /// Both kinds of instances: names of the workspaces that are mounted or cloned.
    pub const MOUNTED_WORKSPACE: &str = "mounted-workspace";

    /// ExecutionEnvironment: `Project/NAME` or `Plan/NAME`.
    pub const SCOPE: &str = "scope";
    /// ExecutionEnvironment, Snapshot: `KIND/NAME` of the instance it names; Project: of each resource.
    pub const NAMED: &str = "named";

    /// Pod: uid of each shared claim that it mounts (from its labels).
    pub const CLAIM_UID: &str = "claim-uid";
    /// Pod: name of each claim that it mounts. Workspace: the claim that it names or has.
    pub const CLAIM: &str = "claim";
    /// PersistentVolumeClaim: uid of the workspace in its annotation.
    pub const WORKSPACE_UID: &str = "workspace-uid";
}

/// One entry of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexKey {
    index: &'static str,
    namespace: String,
    value: String,
}

impl IndexKey {
    /// The objects whose `index` has `value` in `namespace`.
    pub fn new(index: &'static str, namespace: &str, value: &str) -> Self {
        Self { index, namespace: namespace.to_owned(), value: value.to_owned() }
    }
}

/// Collects the keys of one object in its namespace.
pub(super) struct Keys {
    namespace: String,
    list: Vec<IndexKey>,
}

impl Keys {
    pub(super) fn of<K: kube::Resource>(object: &K) -> Self {
        Self { namespace: object.meta().namespace.clone().unwrap_or_default(), list: Vec::new() }
    }

    pub(super) fn add(&mut self, index: &'static str, value: &str) -> &mut Self {
        let key = IndexKey::new(index, &self.namespace, value);
        if !self.list.contains(&key) {
            self.list.push(key);
        }
        self
    }

    pub(super) fn add_all<'a>(
        &mut self,
        index: &'static str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> &mut Self {
        for value in values {
            self.add(index, value);
        }
        self
    }

    pub(super) fn list(self) -> Vec<IndexKey> {
        self.list
    }
}

pub(super) fn all_keys<K: Stored>(object: &K) -> Vec<IndexKey> {
    let mut keys = object.keys();
    let meta = object.meta();
    if let Some(uid) = &meta.uid {
        keys.push(IndexKey::new(name::UID, "", uid));
    }
    let owners = meta.owner_references.iter().flatten();
    for owner in owners.filter(|o| o.controller == Some(true)) {
        keys.push(IndexKey::new(name::OWNER, "", &owner.uid));
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    keys.push(IndexKey::new(name::NAMESPACE, namespace, ""));
    keys
}

pub(super) fn pod_keys(pod: &Pod) -> Vec<IndexKey> {
    let mut keys = Keys::of(pod);
    let labels = pod.labels();
    keys.add_all(name::CLAIM_UID, labels.keys().filter_map(|k| k.strip_prefix(label::CLAIM_PREFIX)));
    keys.add_all(name::WORKSPACE, labels.get(label::WORKSPACE).map(String::as_str));
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let claims = volumes.filter_map(|v| v.persistent_volume_claim.as_ref());
    keys.add_all(name::CLAIM, claims.map(|c| c.claim_name.as_str()));
    keys.list()
}

pub(super) fn claim_keys(claim: &PersistentVolumeClaim) -> Vec<IndexKey> {
    let mut keys = Keys::of(claim);
    let uid = claim.annotations().get(label::WORKSPACE_UID);
    keys.add_all(name::WORKSPACE_UID, uid.map(String::as_str));
    keys.list()
}
