//! Every label, annotation, finalizer and field manager that Drydock writes or reads.

/// The field manager of the controller's server-side applies.
pub const FIELD_MANAGER: &str = "drydock";

/// The value of [`MANAGED_BY`] on everything Drydock makes.
pub const MANAGER: &str = "drydock";
/// Label: who manages the object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label: the kind of the instance an object belongs to.
pub const INSTANCE_KIND: &str = "drydock.dev/instance-kind";
/// Label: the name of the instance an object belongs to.
pub const INSTANCE: &str = "drydock.dev/instance";
/// Label: the name of the workspace an object belongs to.
pub const WORKSPACE: &str = "drydock.dev/workspace";
/// Label: the name of the configuration of an instance (of `.devcontainer/<name>/devcontainer.json`).
pub const CONFIGURATION: &str = "drydock.dev/configuration";
/// Label: the plan an object belongs to.
pub const PLAN: &str = "drydock.dev/plan";
/// Label: what a pod or an instance is for, a [`Role`].
pub const ROLE: &str = "drydock.dev/role";
/// Label prefix on pods that mount a shared claim; the claim's uid follows.
pub const CLAIM_PREFIX: &str = "claim.drydock.dev/";
/// Label: hash of the inputs from which a pod was rendered.
pub const INPUTS: &str = "drydock.dev/inputs";

/// Annotation: ask a Workspace or Plan to look for a new revision now.
pub const RESCAN: &str = "drydock.dev/rescan";
/// Annotation: ask an instance for a new image and a new container.
pub const REBUILD: &str = "drydock.dev/rebuild";
/// Annotation: as [`REBUILD`], without the layer cache.
pub const REBUILD_NO_CACHE: &str = "drydock.dev/rebuild-no-cache";
/// Annotation: ask an instance to stop now.
pub const STOP: &str = "drydock.dev/stop";
/// Annotation: as [`STOP`], ending its runs first.
pub const STOP_FORCE: &str = "drydock.dev/stop-force";
/// Annotation: as [`STOP`], keeping nothing of the file system.
pub const STOP_DISCARD: &str = "drydock.dev/stop-discard";
/// Annotation: ask an instance to try a failed build or hook again.
pub const RETRY: &str = "drydock.dev/retry";
/// Annotation: ask an instance to go back to a snapshot.
pub const RESTORE: &str = "drydock.dev/restore";
/// Every request annotation of instances.
pub const INSTANCE_REQUESTS: [&str; 7] =
    [STOP, STOP_FORCE, STOP_DISCARD, RETRY, REBUILD, REBUILD_NO_CACHE, RESTORE];

/// Annotation on a retained claim: the uid of the Workspace whose it is.
pub const WORKSPACE_UID: &str = "drydock.dev/workspace-uid";
/// Annotation on a retained claim: the name of the Workspace whose it is or was.
pub const WORKSPACE_NAME: &str = "drydock.dev/workspace-name";
/// Annotation on a retained claim: the repository it holds.
pub const ORIGIN_URL: &str = "drydock.dev/origin-url";
/// Annotation on a retained claim whose Workspace is gone: when it is deleted (RFC 3339).
pub const EXPIRES_AT: &str = "drydock.dev/expires-at";
/// Annotation on a ToolRun: who created it, as admission saw it.
pub const REQUESTED_BY: &str = "drydock.dev/requested-by";

/// The finalizer of Workspaces.
pub const WORKSPACE_FINALIZER: &str = "drydock.dev/workspace";
/// The finalizer of Snapshots.
pub const SNAPSHOT_FINALIZER: &str = "drydock.dev/snapshot";

/// What a pod (or a made instance) is for: the value of [`ROLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Role {
    /// An environment: tools run in it.
    Environment,
    /// The host runner of a workspace.
    Host,
    /// An image build.
    Build,
    /// The push of a built image or a snapshot.
    Push,
    /// The checkout and scan of a source tree.
    Checkout,
    /// A probe of what the cluster can do.
    Probe,
    /// The embedded registry.
    Registry,
}

impl Role {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
