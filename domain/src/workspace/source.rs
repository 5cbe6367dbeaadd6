//! Whether a source may be used, and how it is known.

use drydock_crds::condition::Reason;
use drydock_crds::workspace::{Checkout, WorkspaceSpec};
use drydock_protocol::git::GitUrl;

use crate::settings::Settings;

/// Where the tree lies on a claim that Drydock makes.
pub const TREE: &str = "tree";

/// Why a source can't be used, if so.
#[must_use]
pub fn objection(spec: &WorkspaceSpec, settings: &Settings) -> Option<(Reason, String)> {
    if spec.source.upload.is_some() {
        return Some((Reason::NotImplemented, "not implemented in this version: spec.source.upload".into()));
    }
    let git = spec.source.git.as_ref()?;
    let url = match GitUrl::parse(&git.url) {
        Ok(url) => url,
        Err(error) => return Some((Reason::InvalidUrl, format!("spec.source.git.url: {error}"))),
    };
    if let Some(revision) = &git.revision
        && let Err(error) = drydock_protocol::git::check_revision(revision)
    {
        return Some((Reason::InvalidSpec, format!("spec.source.git.revision: {error}")));
    }
    let ssh = url.scheme == drydock_protocol::git::Scheme::Ssh;
    if ssh && git.secret_ref.is_none() {
        let message =
            "an ssh URL needs secretRef: a kubernetes.io/ssh-auth Secret with ssh-privatekey and known_hosts";
        return Some((Reason::SecretInvalid, message.into()));
    }
    not_allowed(&url, &settings.sources.allowed_sources)
}

/// A prefix covers a URL as a whole, or up to a part of its path.
fn not_allowed(url: &GitUrl, allowed: &[String]) -> Option<(Reason, String)> {
    let text = url.to_string();
    let covers = |prefix: &String| {
        text.strip_prefix(prefix.as_str()).is_some_and(|rest| {
            rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/') || rest == ".git"
        })
    };
    if allowed.is_empty() || allowed.iter().any(covers) {
        return None;
    }
    let message =
        format!("{text} isn't among the operator's sources.allowedSources: an entry like {text} is needed");
    Some((Reason::PolicyDenied, message))
}

/// How the repository of a claim is known: its URL without credential, or what else it is.
#[must_use]
pub fn origin(spec: &WorkspaceSpec) -> String {
    let git = spec.source.git.as_ref();
    git.and_then(|g| GitUrl::parse(&g.url).ok()).map_or_else(|| "upload".to_owned(), |url| url.to_string())
}

/// Whether the workspace has no checkout.
#[must_use]
pub fn is_remote_only(spec: &WorkspaceSpec) -> bool {
    spec.source.git.as_ref().is_some_and(|g| g.checkout == Some(Checkout::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_prefix_ends_at_a_part_of_the_path() {
        let allowed = |entries: &[&str], url: &str| {
            let entries: Vec<String> = entries.iter().map(|e| (*e).to_owned()).collect();
            not_allowed(&GitUrl::parse(url).unwrap(), &entries).is_none()
        };
        assert!(allowed(&[], "https://git.example/a/b"));
        assert!(allowed(&["https://git.example/a"], "https://git.example/a/b"));
        assert!(allowed(&["https://git.example/a/"], "https://git.example/a/b"));
        assert!(allowed(&["https://git.example/a/b"], "https://git.example/a/b.git"));
        assert!(!allowed(&["https://git.example/a"], "https://git.example/ab"));
        assert!(!allowed(&["https://git.example/a"], "https://git.example.evil/a"));
        assert!(!allowed(&["https://git.example"], "https://git.example:8443/a"));
    }
}
