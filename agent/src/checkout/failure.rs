//! What went wrong, typed: git's own last lines, without control characters, and the reason they stand for. Git runs with
//! the C locale, so its words are known.

use drydock_protocol::checkout::{CheckoutError, CheckoutReason};

/// Longest message, in bytes.
const MESSAGE_MAX: usize = 1024;

/// A failure on the way to a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind.
    pub reason: CheckoutReason,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure with a message of ours.
    #[must_use]
    pub fn new(reason: CheckoutReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// A failed call of the operating system.
    #[must_use]
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        let reason = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => CheckoutReason::NoSpace,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                CheckoutReason::PermissionDenied
            }
            _ => CheckoutReason::Internal,
        };
        Self::new(reason, format!("{what}: {error}"))
    }

    /// A git call that ended with an error.
    #[must_use]
    pub fn of_git(stderr: &str) -> Self {
        Self::new(classify(stderr), last_lines(stderr))
    }

    /// As it stands in the report; `secrets` never do.
    #[must_use]
    pub fn to_report(&self, secrets: &[String]) -> CheckoutError {
        let mut message = self.message.clone();
        for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
            message = message.replace(secret.as_str(), "***");
        }
        CheckoutError { reason: self.reason, message: cut(&message) }
    }
}

/// What git's words stand for. The order matters: the more telling ones come first.
const WORDS: [(&str, CheckoutReason); 34] = [
    ("No space left on device", CheckoutReason::NoSpace),
    ("Disk quota exceeded", CheckoutReason::NoSpace),
    ("Host key verification failed", CheckoutReason::HostKeyUnknown),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", CheckoutReason::HostKeyUnknown),
    ("SSL certificate problem", CheckoutReason::CertificateUntrusted),
    ("server certificate verification failed", CheckoutReason::CertificateUntrusted),
    ("does not match target host name", CheckoutReason::CertificateUntrusted),
    ("error setting certificate", CheckoutReason::InvalidCredentials),
    ("invalid format", CheckoutReason::InvalidCredentials),
    ("error in libcrypto", CheckoutReason::InvalidCredentials),
    ("Authentication failed", CheckoutReason::AuthenticationFailed),
    ("could not read Username", CheckoutReason::AuthenticationFailed),
    ("could not read Password", CheckoutReason::AuthenticationFailed),
    ("Permission denied (publickey", CheckoutReason::AuthenticationFailed),
    ("Permission denied, please try again", CheckoutReason::AuthenticationFailed),
    ("returned error: 401", CheckoutReason::AuthenticationFailed),
    ("returned error: 403", CheckoutReason::AuthenticationFailed),
    ("returned error: 3", CheckoutReason::Redirected),
    ("returned error: 404", CheckoutReason::RepositoryNotFound),
    ("returned error: 410", CheckoutReason::RepositoryNotFound),
    ("does not appear to be a git repository", CheckoutReason::RepositoryNotFound),
    ("Repository not found", CheckoutReason::RepositoryNotFound),
    ("not found", CheckoutReason::RepositoryNotFound),
    ("couldn't find remote ref", CheckoutReason::RevisionNotFound),
    ("not our ref", CheckoutReason::RevisionNotFound),
    ("returned error: 5", CheckoutReason::SourceUnreachable),
    ("Could not resolve host", CheckoutReason::SourceUnreachable),
    ("Failed to connect", CheckoutReason::SourceUnreachable),
    ("Could not connect", CheckoutReason::SourceUnreachable),
    ("Connection ", CheckoutReason::SourceUnreachable),
    ("Operation too slow", CheckoutReason::SourceUnreachable),
    ("unexpected disconnect", CheckoutReason::SourceUnreachable),
    ("early EOF", CheckoutReason::SourceUnreachable),
    ("ermission denied", CheckoutReason::PermissionDenied),
];

fn classify(stderr: &str) -> CheckoutReason {
    WORDS
        .iter()
        .find(|(words, _)| stderr.contains(words))
        .map_or(CheckoutReason::GitFailed, |(_, reason)| *reason)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(4)..];
    cut(&last.join("; "))
}

fn cut(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut end = clean.len().min(MESSAGE_MAX);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_words_are_typed() {
        for (words, reason) in [
            ("fatal: Authentication failed for 'http://x/y/'", CheckoutReason::AuthenticationFailed),
            (
                "fatal: could not read Username for 'http://x': terminal prompts disabled",
                CheckoutReason::AuthenticationFailed,
            ),
            ("fatal: repository 'http://x/y/' not found", CheckoutReason::RepositoryNotFound),
            (
                "fatal: unable to access 'http://x/': Could not resolve host: x",
                CheckoutReason::SourceUnreachable,
            ),
            (
                "fatal: unable to access 'http://x/': The requested URL returned error: 502",
                CheckoutReason::SourceUnreachable,
            ),
            (
                "fatal: unable to access 'http://x/': The requested URL returned error: 302",
                CheckoutReason::Redirected,
            ),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.",
                CheckoutReason::HostKeyUnknown,
            ),
            ("fatal: something else", CheckoutReason::GitFailed),
        ] {
            assert_eq!(Failure::of_git(words).reason, reason, "{words}");
        }
    }

    #[test]
    fn a_message_has_no_secret_no_control_and_an_end() {
        let failure = Failure::of_git(&format!("a\u{1b}[31m s3cret-value {}", "x".repeat(5000)));
        let told = failure.to_report(&["s3cret-value".to_owned()]);
        assert!(
            told.message.len() <= MESSAGE_MAX && told.message.starts_with("a [31m *** x"),
            "{}",
            told.message
        );
    }
}
