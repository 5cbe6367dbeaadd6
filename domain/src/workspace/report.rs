//! What a checkout pod's report changes in the status. The report comes out of a pod: everything in it is checked and bounded.

use std::collections::BTreeMap;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::workspace::{Devcontainer, DiscoveryMode, Problem, Revision};
use drydock_protocol::checkout::{BehindReason, CheckoutReason, CheckoutReport, FoundConfiguration, Omitted};
use drydock_protocol::git::is_object_id;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{CheckoutPod, Draft, source};
use crate::condition::Truth;
use crate::decision::{Effect, Object, owner_reference};
use crate::devcontainer_instance::problem_of;
use crate::name;
use crate::render::configurations;

/// Configurations that a status lists.
const MAX_CONFIGURATIONS: usize = 500;
/// Bytes of files that are kept.
const MAX_KEPT: usize = 900 << 10;

impl Draft<'_> {
    pub(super) fn take_in(&mut self, found: &CheckoutPod, ask: &str, report: &CheckoutReport) {
        self.status.last_scan_time = Some(Time(self.seen.now));
        if let Some(revision) = report.revision.as_ref().filter(|r| is_object_id(&r.commit)) {
            let name = revision.name.chars().take(255).collect();
            self.status.revision = Some(Revision { name, commit: revision.commit.clone() });
        }
        if let Some(tree) = report.tree.as_ref().filter(|t| is_object_id(&t.commit)) {
            self.status.tree_revision = Some(tree.commit.clone());
        }
        if report.discovered {
            self.configurations(&report.devcontainers);
        }
        self.up_to_date(report);
        let failure = report.error.as_ref().map(|e| (reason_of(e.reason), advised(e.reason, &e.message)));
        let reached = failure.is_none() || report.tree.is_some();
        if reached {
            self.conditions.set(
                ConditionType::CheckedOut,
                Truth::True,
                Reason::CheckedOut,
                self.where_it_is(),
            );
        }
        if report.discovered {
            self.discovered(report);
        }
        self.record(found, ask, failure);
        self.report_readiness();
    }

    fn where_it_is(&self) -> String {
        if source::is_remote_only(&self.seen.workspace.spec) {
            return "the repository can be reached; it has no checkout".into();
        }
        match &self.status.tree_revision {
            Some(commit) => format!("the tree is at {commit}"),
            None => "the folder is there".into(),
        }
    }

    fn discovered(&mut self, report: &CheckoutReport) {
        let disabled =
            self.seen.workspace.spec.discovery.as_ref().and_then(|d| d.mode) == Some(DiscoveryMode::Disabled);
        let bad = self.status.devcontainers.iter().filter(|d| d.problem.is_some()).count();
        let (reason, mut message) = if disabled {
            (Reason::DiscoveryDisabled, "spec.discovery.mode is Disabled".to_owned())
        } else {
            let number = self.status.devcontainers.len();
            let message = match bad {
                0 => format!("{number} configurations were found"),
                bad => format!("{number} configurations were found, {bad} of them can't be used"),
            };
            (Reason::Scanned, message)
        };
        for note in report.notes.iter().take(5) {
            message.push_str("; ");
            message.extend(note.chars().take(200));
        }
        self.conditions.set(ConditionType::Discovered, Truth::True, reason, message);
    }

    fn up_to_date(&mut self, report: &CheckoutReport) {
        let behind = report.tree.as_ref().and_then(|t| t.behind.as_ref());
        let (truth, reason, message) = match behind {
            None => (Truth::True, Reason::UpToDate, "the tree is at the newest revision".to_owned()),
            Some(b) => match b.reason {
                BehindReason::DirtyTree => (Truth::False, Reason::DirtyTree, b.message.clone()),
                BehindReason::LocalCommits => {
                    (Truth::False, Reason::DirtyTree, format!("local commits: {}", b.message))
                }
                BehindReason::Held => (Truth::False, Reason::TreeInUse, b.message.clone()),
            },
        };
        if report.error.is_none() || behind.is_some() {
            self.conditions.set(ConditionType::UpToDate, truth, reason, message);
        }
    }

    /// Lists what was found, and keeps the files.
    fn configurations(&mut self, found: &[FoundConfiguration]) {
        let mut sorted: Vec<&FoundConfiguration> =
            found.iter().filter(|f| devcontainer::discover::Place::of(&f.config_path).is_some()).collect();
        sorted.sort_by(|a, b| a.config_path.cmp(&b.config_path));
        sorted.dedup_by(|a, b| a.config_path == b.config_path);
        sorted.truncate(MAX_CONFIGURATIONS);
        let mut files = BTreeMap::new();
        let mut kept = 0;
        let mut list: Vec<Devcontainer> = Vec::with_capacity(sorted.len());
        for configuration in sorted {
            let mut entry = entry(configuration);
            if let (None, Some(text)) = (&entry.problem, &configuration.content) {
                kept += text.len();
                if kept <= MAX_KEPT {
                    files.insert(configuration.config_path.clone(), text.clone());
                } else {
                    let message = "the configurations of this workspace are too large together: exclude some";
                    entry.problem = Some(problem(Reason::TooLarge, message, &configuration.config_path));
                }
            }
            list.push(entry);
        }
        let names = name::instances(self.name(), &list);
        for (entry, name) in list.iter_mut().zip(names) {
            entry.name = name;
        }
        self.status.devcontainers = list;
        self.keep_files(&files);
    }

    fn keep_files(&mut self, files: &BTreeMap<String, String>) {
        let wanted: BTreeMap<String, String> =
            files.iter().map(|(path, text)| (configurations::key_of(path), text.clone())).collect();
        if self.seen.kept_files.as_ref() == Some(&wanted) {
            return;
        }
        let Some(owner) = owner_reference(self.seen.workspace.as_ref()) else {
            return;
        };
        let map = configurations::config_map(self.namespace(), (self.name(), self.uid()), owner, files);
        self.effects.push(Effect::Apply(Object::of(&map, &())));
    }

    /// `Ready` and its companions, from what is known.
    pub(super) fn report_readiness(&mut self) {
        let last = self.status.last_attempt.clone().unwrap_or_default();
        let scanned = ConditionType::Discovered.is_true(&self.present_conditions());
        let failure = last
            .reason
            .as_deref()
            .map(|r| (r.parse().unwrap_or(Reason::CheckoutFailed), last.message.clone()));
        match failure {
            None if scanned => {
                let message = format!("{} configurations", self.status.devcontainers.len());
                self.conditions.ready(Reason::Ready, message);
            }
            None => self.progress(Reason::CheckingOut, "the tree is to be checked out"),
            Some((reason, message)) => {
                let message = message.unwrap_or_default();
                let transient = matches!(reason, Reason::SourceUnreachable | Reason::CheckoutFailed);
                if transient && scanned {
                    let message = format!("the last look at the remote failed: {message}");
                    self.conditions.set(ConditionType::UpToDate, Truth::Unknown, reason, message);
                    self.conditions.ready(Reason::Ready, "as of the last scan");
                } else if transient && last.failures < 5 {
                    self.progress(reason, message);
                } else {
                    self.stall(reason, message);
                }
            }
        }
    }

    fn present_conditions(&self) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
        self.conditions.clone().finish()
    }
}

fn entry(found: &FoundConfiguration) -> Devcontainer {
    let place = devcontainer::discover::Place::of(&found.config_path);
    let directory = place.as_ref().map(|p| p.directory.clone()).filter(|d| !d.is_empty());
    Devcontainer {
        name: String::new(),
        config_path: found.config_path.clone(),
        directory: directory.unwrap_or_else(|| ".".into()),
        config_name: place.and_then(|p| p.config_name),
        digest: found
            .source_digest
            .clone()
            .or_else(|| Some(format!("sha256:{}", found.sha256)))
            .filter(|d| d.len() > 20),
        problem: unusable(found),
    }
}

fn unusable(found: &FoundConfiguration) -> Option<Problem> {
    let file = &found.config_path;
    if let Some(omitted) = found.omitted {
        let said = found.message.as_deref().unwrap_or_default();
        return Some(match omitted {
            Omitted::Large | Omitted::DocumentFull | Omitted::TooLarge => problem(
                Reason::TooLarge,
                &format!("{} bytes are too large to be read {said}", found.bytes),
                file,
            ),
            Omitted::NotUtf8 => problem(Reason::InvalidConfig, &format!("it isn't UTF-8: {said}"), file),
            Omitted::PathEscapesWorkspace => {
                problem(Reason::InvalidConfig, &format!("it is a link out of the workspace: {said}"), file)
            }
            Omitted::NotAFile => problem(Reason::InvalidConfig, &format!("it isn't a file: {said}"), file),
            Omitted::Unreadable => problem(Reason::InvalidConfig, &format!("it can't be read: {said}"), file),
        });
    }
    let text = found.content.as_deref()?;
    let named = found.link_target.as_deref().unwrap_or(file);
    problem_of(&devcontainer::config::parse(named, text.as_bytes()).diagnostics)
}

fn problem(reason: Reason, message: &str, file: &str) -> Problem {
    Problem {
        reason: reason.to_string(),
        message: message.trim().chars().take(1024).collect(),
        file: Some(file.to_owned()),
        ..Problem::default()
    }
}

/// What git said, and what to do about it where that is known.
fn advised(reason: CheckoutReason, said: &str) -> String {
    let advice = match reason {
        CheckoutReason::AuthenticationFailed => {
            "name a Secret with valid credentials in spec.source.git.secretRef"
        }
        CheckoutReason::HostKeyUnknown => "put the host's key into known_hosts of the Secret",
        CheckoutReason::RepositoryNotFound => {
            "correct spec.source.git.url, or name a Secret of somebody who may read it"
        }
        CheckoutReason::RevisionNotFound => "correct spec.source.git.revision",
        CheckoutReason::NoSpace => "use a larger claim: spec.storage.size of a new Workspace",
        _ => return said.to_owned(),
    };
    format!("{said}: {advice}")
}

fn reason_of(reason: CheckoutReason) -> Reason {
    match reason {
        CheckoutReason::InvalidUrl => Reason::InvalidUrl,
        CheckoutReason::InvalidRevision | CheckoutReason::InvalidSpec => Reason::InvalidSpec,
        CheckoutReason::InvalidCredentials => Reason::SecretInvalid,
        CheckoutReason::AuthenticationFailed => Reason::AuthenticationFailed,
        CheckoutReason::RepositoryNotFound => Reason::RepositoryNotFound,
        CheckoutReason::RevisionNotFound => Reason::RevisionNotFound,
        CheckoutReason::HostKeyUnknown => Reason::HostKeyUnknown,
        CheckoutReason::SourceUnreachable | CheckoutReason::Timeout => Reason::SourceUnreachable,
        CheckoutReason::NoSpace => Reason::NoSpace,
        CheckoutReason::TooLarge => Reason::TooLarge,
        CheckoutReason::DirectoryNotFound => Reason::ClaimNotFound,
        _ => Reason::CheckoutFailed,
    }
}
