//! The two JSON documents of a checkout pod: what it is to do ([`CheckoutSpec`], no secret values) and what it found
//! ([`CheckoutReport`], one document on stdout of at most [`crate::limits::CHECKOUT_REPORT`] bytes).
//!
//! The report comes out of a pod: a reader bounds, checks and never trusts it.

use serde::{Deserialize, Serialize};

/// Environment variable in which the checkout pod finds its [`CheckoutSpec`] as JSON.
pub const SPEC_ENV: &str = "DRYDOCK_CHECKOUT";

/// What a checkout pod is to do. Holds no secret value: credentials are mounted files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckoutSpec {
    /// Where the tree comes from.
    pub source: CheckoutSource,
    /// Absolute path at which the claim is mounted. Of [`CheckoutSource::Directory`]: the folder to walk.
    /// Unused with `remote_only`.
    pub root: String,
    /// Who owns the files; git runs as this user.
    pub owner: Owner,
    /// Whether `tree/` may not move, and who says so (`environment shop-api mounts it`); absent: it may, if it is clean.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold: Option<String>,
    /// Which configurations to look for.
    #[serde(default)]
    pub discovery: DiscoverySpec,
    /// Uids of living objects: what else lies in `plans/`, `runs/` and `state/` is removed. Absent: nothing is swept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub living: Option<Living>,
    /// For everything together, in seconds.
    pub timeout_seconds: u64,
}

/// Where a tree comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckoutSource {
    /// A git repository.
    Git(GitSource),
    /// `tree/` of the claim as it stands (filled by an upload).
    Upload {},
    /// The folder `root` itself as it stands (a claim that isn't Drydock's): nothing is written to it.
    Directory {},
}

/// A git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitSource {
    /// Accepted by [`crate::git::GitUrl::parse`].
    pub url: String,
    /// Branch, tag or commit, accepted by [`crate::git::check_revision`]; absent: the remote's HEAD.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revision: Option<String>,
    /// Submodules.
    #[serde(default)]
    pub submodules: Submodules,
    /// History depth; absent: all of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub depth: Option<u32>,
    /// `checkout: None`: configurations are read from a temporary shallow fetch; no claim is needed.
    #[serde(default)]
    pub remote_only: bool,
    /// Folder with the credential's files: `username` and `password`, or `ssh-privatekey` and `known_hosts`, and `ca.crt`.
    /// Absent: none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credentials: Option<String>,
}

/// What is done about submodules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Submodules {
    /// Left alone.
    #[default]
    None,
    /// Checked out, theirs too; the credential goes to its own host alone.
    Recursive,
}

/// An owner of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Which configurations to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscoverySpec {
    /// Nothing is looked for.
    #[serde(default)]
    pub disabled: bool,
    /// Globs of folders to leave out, added to the built-in list.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Deepest folder that is looked at; absent: the built-in bound.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_depth: Option<u32>,
}

/// Uids of living objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Living {
    /// Of Plans (`plans/<uid>`).
    #[serde(default)]
    pub plans: Vec<String>,
    /// Of instances (`runs/<uid>`, `state/<uid>`).
    #[serde(default)]
    pub instances: Vec<String>,
}

/// What a checkout pod found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutReport {
    /// [`crate::PROTOCOL_VERSION`] of the writer.
    pub protocol_version: u32,
    /// The newest fetched revision; absent without git or when the fetch failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revision: Option<FetchedRevision>,
    /// The state of `tree/`; absent with `remote_only`, without git, or when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tree: Option<TreeState>,
    /// What was found at `tree`'s revision, by path; with `remote_only` at `revision`.
    #[serde(default)]
    pub devcontainers: Vec<FoundConfiguration>,
    /// Whether the search for configurations came to its end. When false, `devcontainers` says nothing about what vanished.
    pub discovered: bool,
    /// Why something wasn't found: bounds that were reached, folders that couldn't be read.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// Folders that were swept, relative to the claim; at most 100 are named.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub swept: Vec<String>,
    /// What went wrong; other fields hold what was reached all the same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<CheckoutError>,
}

/// A fetched revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchedRevision {
    /// As asked for; of the remote's HEAD the branch it stands for, else `HEAD`.
    pub name: String,
    /// Object id of the commit.
    pub commit: String,
}

/// The state of `tree/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeState {
    /// Object id of the commit that `tree/` is at.
    pub commit: String,
    /// It was moved (or made) by this pod.
    pub moved: bool,
    /// Why it isn't at the fetched revision; absent when it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub behind: Option<Behind>,
}

/// Why `tree/` isn't at the fetched revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// The kind of reason.
    pub reason: BehindReason,
    /// For people: who holds it, or the first files that differ.
    pub message: String,
}

/// The kind of reason why `tree/` stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BehindReason {
    /// Files are changed, added or staged, or an operation (merge, rebase) is under way.
    DirtyTree,
    /// Its branch has commits that the fetched revision doesn't have.
    LocalCommits,
    /// [`CheckoutSpec::hold`].
    Held,
}

/// One configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundConfiguration {
    /// From the workspace root, `/`-separated.
    pub config_path: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file, lower-case hex; empty when it wasn't read.
    pub sha256: String,
    /// The file as written; absent: see `omitted`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<String>,
    /// Why `content` is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub omitted: Option<Omitted>,
    /// For people, with `omitted`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// When `config_path` is a symbolic link within the workspace: the file it leads to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_target: Option<String>,
    /// The source digest; absent until builds land.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source_digest: Option<String>,
}

/// Why a configuration's content is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Omitted {
    /// Larger than [`crate::limits::CONFIG_INLINE`]; the digest stands for it.
    Large,
    /// It didn't fit into the document; the digest stands for it.
    DocumentFull,
    /// A problem: larger than [`crate::limits::CONFIG_MAX`]; not read.
    TooLarge,
    /// A problem: not UTF-8; the message has the offset.
    NotUtf8,
    /// A problem: a symbolic link that leaves the workspace; nothing of its target was read.
    PathEscapesWorkspace,
    /// A problem: a link to nothing or in a circle, a folder, a device.
    NotAFile,
    /// A problem: it can't be read; the message has the reason.
    Unreadable,
}

/// What went wrong in a checkout pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutError {
    /// The kind.
    pub reason: CheckoutReason,
    /// For people: the last lines of git, without credentials and control characters, at most 1 KiB.
    pub message: String,
}

/// The kinds of what goes wrong in a checkout pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CheckoutReason {
    /// The URL isn't accepted.
    InvalidUrl,
    /// The revision's syntax isn't accepted.
    InvalidRevision,
    /// The specification given to the pod can't be carried out.
    InvalidSpec,
    /// The credential is missing parts (`known_hosts` for ssh, for instance).
    InvalidCredentials,
    /// The server wants a credential, or refuses the one given.
    AuthenticationFailed,
    /// There is no such repository, or the credential may not see it.
    RepositoryNotFound,
    /// The remote has no such branch, tag or commit.
    RevisionNotFound,
    /// The ssh host key isn't in `known_hosts`, or is another one.
    HostKeyUnknown,
    /// The server's TLS certificate isn't trusted.
    CertificateUntrusted,
    /// No answer: name, connection, or the server failed.
    SourceUnreachable,
    /// The server redirects to another place.
    Redirected,
    /// A submodule couldn't be checked out; the message names it.
    SubmoduleFailed,
    /// The volume is full.
    NoSpace,
    /// The volume can't be written or read by the owner.
    PermissionDenied,
    /// The time ran out.
    Timeout,
    /// More than a bound allows.
    TooLarge,
    /// `tree/` holds something that Drydock didn't put there.
    ForeignTree,
    /// The claim's folder isn't there.
    DirectoryNotFound,
    /// git failed for another reason; the message has its last lines.
    GitFailed,
    /// A failure of the pod itself.
    Internal,
}

impl CheckoutReason {
    /// Whether the same attempt may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::SourceUnreachable | Self::Timeout | Self::GitFailed | Self::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_reads_back_what_was_written_and_refuses_unknown_fields() {
        let spec = CheckoutSpec {
            source: CheckoutSource::Git(GitSource {
                url: "https://git.example/shop.git".into(),
                revision: Some("main".into()),
                submodules: Submodules::Recursive,
                depth: Some(1),
                remote_only: false,
                credentials: Some("/credentials".into()),
            }),
            root: "/claim".into(),
            owner: Owner { uid: 1000, gid: 1000 },
            hold: None,
            discovery: DiscoverySpec::default(),
            living: Some(Living { plans: vec![], instances: vec!["u-1".into()] }),
            timeout_seconds: 300,
        };
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CheckoutSpec>(&json).unwrap(), spec);
        let odd = json.replacen("\"root\"", "\"rooot\"", 1);
        assert!(serde_json::from_str::<CheckoutSpec>(&odd).unwrap_err().to_string().contains("rooot"));
    }

    #[test]
    fn a_report_of_a_later_version_still_reads() {
        let report: CheckoutReport = serde_json::from_str(
            r#"{"protocolVersion":9,"discovered":true,"devcontainers":[],"somethingNew":{"a":1}}"#,
        )
        .unwrap();
        assert!(report.discovered);
        assert_eq!(report.protocol_version, 9);
    }
}
