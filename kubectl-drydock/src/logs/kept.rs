//! What a run's status has of its output.

use drydock_crds::tool_run::{Stream, ToolRunStatus};
use drydock_protocol::agent::StreamName;
use sha2::{Digest as _, Sha256};

/// What is left of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<'a> {
    /// Every byte.
    Whole(&'a [u8]),
    /// The beginning and the end, without control sequences.
    Preview {
        /// The beginning.
        head: &'a str,
        /// The end; empty where the beginning is all that is left.
        tail: &'a str,
    },
    /// Something was written, and nothing is left.
    Nothing,
}

/// What the status has of a stream. It is whole only where its hash says so: previews are cleaned and masked.
pub(crate) fn of(status: Option<&ToolRunStatus>, name: StreamName) -> Kept<'_> {
    let Some(stream) = stream(status, name) else {
        return Kept::Whole(&[]);
    };
    let head = stream.head.as_deref().unwrap_or_default();
    let tail = stream.tail.as_deref().unwrap_or_default();
    if stream.bytes == 0 || is_whole(stream, head) {
        Kept::Whole(head.as_bytes())
    } else if head.is_empty() && tail.is_empty() {
        Kept::Nothing
    } else {
        Kept::Preview { head, tail }
    }
}

fn is_whole(stream: &Stream, head: &str) -> bool {
    if stream.truncated || usize::try_from(stream.bytes) != Ok(head.len()) {
        return false;
    }
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(head.as_bytes()) {
        hex.push_str(&format!("{byte:02x}"));
    }
    stream.sha256.as_deref() == Some(&hex)
}

/// Bytes that were written to a stream.
pub(crate) fn total(status: Option<&ToolRunStatus>, name: StreamName) -> u64 {
    stream(status, name).and_then(|s| u64::try_from(s.bytes).ok()).unwrap_or_default()
}

fn stream(status: Option<&ToolRunStatus>, name: StreamName) -> Option<&Stream> {
    let status = status?;
    match name {
        StreamName::Stderr => status.stderr.as_ref(),
        _ => status.stdout.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'hi\n' | sha256sum`.
    const HI: &str = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";

    fn status(bytes: i64, truncated: bool, head: &str, tail: Option<&str>, sha256: &str) -> ToolRunStatus {
        ToolRunStatus {
            stdout: Some(Stream {
                bytes,
                truncated,
                sha256: Some(sha256.into()),
                head: Some(head.into()).filter(|h: &String| !h.is_empty()),
                tail: tail.map(str::to_owned),
                ..Stream::default()
            }),
            ..ToolRunStatus::default()
        }
    }

    #[test]
    fn only_what_has_the_hash_is_whole() {
        let of_stdout = |status: &ToolRunStatus| match of(Some(status), StreamName::Stdout) {
            Kept::Whole(data) => format!("whole {}", data.len()),
            Kept::Preview { head, tail } => format!("preview {head:?} {tail:?}"),
            Kept::Nothing => "nothing".to_owned(),
        };
        assert_eq!(of_stdout(&status(3, false, "hi\n", None, HI)), "whole 3");
        assert_eq!(of_stdout(&status(3, false, "***", None, HI)), "preview \"***\" \"\"");
        assert_eq!(of_stdout(&status(4, false, "hi\n", None, HI)), "preview \"hi\\n\" \"\"");
        assert_eq!(of_stdout(&status(3, true, "hi\n", Some("x"), HI)), "preview \"hi\\n\" \"x\"");
        assert_eq!(of_stdout(&status(3, false, "", None, HI)), "nothing");
        assert_eq!(of_stdout(&status(0, false, "", None, "")), "whole 0");
        assert_eq!(of(Some(&status(3, false, "hi\n", None, HI)), StreamName::Stderr), Kept::Whole(&[]));
        assert_eq!(of(None, StreamName::Stdout), Kept::Whole(&[]));
        assert_eq!(total(Some(&status(9, false, "", None, "")), StreamName::Stdout), 9);
    }
}
