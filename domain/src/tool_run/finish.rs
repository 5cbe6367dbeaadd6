//! The end of a run: one outcome of a closed set, the record, and the line of the audit.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::label;
use drydock_crds::tool_run::{ContainerRecord, Outcome, Stream};
use drydock_protocol::agent::{CannotExecute, RunResult, StreamSummary, run_result, timed_out};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{ClaimedPod, Draft};
use crate::condition::Truth;
use crate::decision::{AuditRecord, Effect, Wake};

/// Bytes of previews that the status of a run holds in all.
pub(super) const PREVIEW_TOTAL: usize = 8 << 10;
/// Longest last line that a message quotes, in characters.
const QUOTED: usize = 200;

/// What an agent's result means.
struct Meaning {
    outcome: Outcome,
    reason: Reason,
    message: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

impl Draft<'_> {
    /// Ends the run without a result of its agent.
    pub(super) fn end(&mut self, outcome: Outcome, reason: Reason, message: impl Into<String>) {
        self.close(Meaning { outcome, reason, message: message.into(), exit_code: None, signal: None });
    }

    /// Ends the run with what its agent says.
    pub(super) fn finish(&mut self, result: &RunResult) {
        let meaning = meaning(result, self.status.effective.as_ref().and_then(|e| e.timeout_seconds));
        let meaning = self.unasked(meaning);
        if let Ok(started) = Timestamp::from_millisecond(result.started_at_ms) {
            self.status.started_at = Some(Time(started));
        }
        self.status.duration_ms = i64::try_from(result.duration_ms).ok();
        let (stdout, stderr) = previews(result.stdout.as_ref(), result.stderr.as_ref());
        self.status.stdout = stdout;
        self.status.stderr = stderr;
        self.status.container = self.record(result, &meaning);
        self.close(meaning);
    }

    /// An agent that is told to go cancels its runs. Where nobody asked for that, the outcome says that their pod was taken away.
    fn unasked(&self, meaning: Meaning) -> Meaning {
        if meaning.outcome != Outcome::Cancelled || self.cancellation().is_some() {
            return meaning;
        }
        let evicted = match &self.seen.claimed_pod {
            ClaimedPod::None => return meaning,
            ClaimedPod::Present(pod) if !pod.is_over() => return meaning,
            ClaimedPod::Present(pod) | ClaimedPod::Ended(pod, _) => pod.evicted,
            ClaimedPod::Gone => false,
        };
        if evicted {
            let message = "its pod was evicted under it".into();
            return Meaning { outcome: Outcome::Evicted, reason: Reason::Evicted, message, ..meaning };
        }
        let message = "its pod was deleted under it".into();
        Meaning { outcome: Outcome::Lost, reason: Reason::Lost, message, ..meaning }
    }

    fn record(&self, result: &RunResult, meaning: &Meaning) -> Option<ContainerRecord> {
        let pod = match &self.seen.claimed_pod {
            ClaimedPod::Present(pod) | ClaimedPod::Ended(pod, _) => Some(pod.as_ref()),
            ClaimedPod::None | ClaimedPod::Gone => None,
        };
        let claim = self.status.claim.as_ref()?;
        let target = self.seen.target.as_ref();
        Some(ContainerRecord {
            pod_name: pod.map(|p| p.pod.name.clone()).unwrap_or_default(),
            pod_uid: claim.pod_uid.clone(),
            container_id: pod.and_then(|p| p.container_id.clone()),
            image: pod.and_then(|p| p.image.clone()),
            workspace_folder: target.map(|t| t.context.workspace_folder.clone()),
            exec_time_ms: i64::try_from(result.exec_time_ms).ok(),
            exit_code: meaning.exit_code,
            timed_out: (meaning.outcome == Outcome::TimedOut).then_some(true),
        })
    }

    fn close(&mut self, meaning: Meaning) {
        let Meaning { outcome, reason, message, exit_code, signal } = meaning;
        self.status.outcome = Some(outcome);
        self.status.exit_code = exit_code;
        self.status.signal = signal;
        self.status.finished_at = Some(Time(self.seen.now));
        let routed = ConditionType::Routed;
        if routed.find(&self.seen.run.status.clone().unwrap_or_default().conditions).is_none()
            && self.status.route.is_none()
        {
            self.conditions.set(routed, Truth::False, reason, message.clone());
        }
        let truth = Truth::of(outcome == Outcome::Succeeded);
        self.conditions.set(ConditionType::Succeeded, truth, reason, message.clone());
        self.conditions.ready(reason, message);
        self.effects.push(Effect::Audit(Box::new(self.audit(outcome))));
        // The next pass arms the end of its time to live.
        self.wake = Wake::OnChange;
    }

    fn audit(&self, outcome: Outcome) -> AuditRecord {
        let meta = &self.seen.run.metadata;
        let requested_by = meta.annotations.as_ref().and_then(|a| a.get(label::REQUESTED_BY));
        let route = self.status.route.as_ref();
        AuditRecord {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            requested_by: requested_by.cloned().unwrap_or_else(|| "unknown".into()),
            rule: route.and_then(|r| r.rule).map(|r| r.to_string()),
            target: route.and_then(|r| r.target.as_ref()).map(|t| format!("{}/{}", t.kind, t.name)),
            outcome: outcome.to_string(),
            exit_code: self.status.exit_code,
            duration_ms: self.status.duration_ms,
            container: self.status.container.clone(),
        }
    }
}

fn meaning(result: &RunResult, timeout_seconds: Option<i32>) -> Meaning {
    use run_result::Outcome as Said;
    let plain = |outcome, reason, message: String| Meaning {
        outcome,
        reason,
        message,
        exit_code: None,
        signal: None,
    };
    match &result.outcome {
        Some(Said::Exited(e)) if e.code == 0 => Meaning {
            exit_code: Some(0),
            ..plain(Outcome::Succeeded, Reason::Succeeded, "exit code 0".into())
        },
        Some(Said::Exited(e)) => {
            let message = format!("exit code {}{}", e.code, last_line(result));
            Meaning { exit_code: Some(e.code), ..plain(Outcome::NonZeroExit, Reason::NonZeroExit, message) }
        }
        Some(Said::Signalled(s)) => {
            let message = format!("ended by signal {}", s.signal);
            Meaning { signal: Some(s.signal), ..plain(Outcome::Signalled, Reason::Signalled, message) }
        }
        Some(Said::TimedOut(t)) => {
            let seconds =
                timeout_seconds.map_or_else(|| t.timeout_ms / 1000, |s| u64::try_from(s).unwrap_or_default());
            let (exit_code, signal) = match t.end {
                Some(timed_out::End::Code(code)) => (Some(code), None),
                Some(timed_out::End::Signal(signal)) => (None, Some(signal)),
                None => (None, None),
            };
            let message = format!("timed out after {seconds}s");
            Meaning { exit_code, signal, ..plain(Outcome::TimedOut, Reason::TimedOut, message) }
        }
        Some(Said::Cancelled(_)) => plain(Outcome::Cancelled, Reason::Cancelled, "cancelled".into()),
        Some(Said::CannotExecute(c)) => cannot_execute(c),
        Some(Said::OutOfMemory(_)) => {
            plain(Outcome::OutOfMemory, Reason::OutOfMemory, "the tool ran out of memory".into())
        }
        Some(Said::Lost(l)) => plain(Outcome::Lost, Reason::Lost, l.message.clone()),
        None => plain(Outcome::Lost, Reason::Lost, "its agent gave a result without an outcome".into()),
    }
}

fn cannot_execute(said: &CannotExecute) -> Meaning {
    Meaning {
        outcome: Outcome::CannotExecute,
        reason: Reason::CannotExecute,
        message: said.message.clone(),
        exit_code: Some(said.conventional_code),
        signal: None,
    }
}

/// The last line that the tool wrote, to stderr rather than stdout, for the message.
fn last_line(result: &RunResult) -> String {
    let of = |stream: Option<&StreamSummary>| {
        let stream = stream?;
        let bytes = if stream.tail.is_empty() { &stream.head } else { &stream.tail };
        let text = readable(bytes);
        let line = text.lines().rev().find(|l| !l.trim().is_empty())?.trim();
        Some(line.chars().take(QUOTED).collect::<String>())
    };
    of(result.stderr.as_ref())
        .or_else(|| of(result.stdout.as_ref()))
        .map(|l| format!(": {l}"))
        .unwrap_or_default()
}

/// Both streams with their previews, which share [`PREVIEW_TOTAL`] bytes evenly, but leave what one doesn't need to the other.
fn previews(
    stdout: Option<&StreamSummary>,
    stderr: Option<&StreamSummary>,
) -> (Option<Stream>, Option<Stream>) {
    let size = |s: Option<&StreamSummary>| s.map_or(0, |s| s.head.len() + s.tail.len());
    let (out, err) = (size(stdout), size(stderr));
    let half = PREVIEW_TOTAL / 2;
    let for_err = err.min(half.max(PREVIEW_TOTAL.saturating_sub(out)));
    let for_out = PREVIEW_TOTAL - for_err;
    (stdout.map(|s| stream(s, for_out)), stderr.map(|s| stream(s, for_err)))
}

fn stream(summary: &StreamSummary, budget: usize) -> Stream {
    let has_tail = !summary.tail.is_empty();
    let head = cut_end(&readable(&summary.head), if has_tail { budget / 2 } else { budget });
    let tail = has_tail.then(|| cut_start(&readable(&summary.tail), budget / 2));
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Stream {
        bytes: number(summary.bytes),
        lines: number(summary.lines),
        sha256: Some(summary.sha256.clone()).filter(|s| s.len() == 64),
        truncated: summary.truncated,
        head: Some(head).filter(|h| !h.is_empty()),
        tail: tail.filter(|t| !t.is_empty()),
    }
}

/// Bytes as text for people: invalid UTF-8 replaced, control characters but line ends and tabs taken out.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    strip_escapes(&text).chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Takes terminal sequences out whole, so that nothing of them stays as text.
fn strip_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match chars.next() {
            // Control sequence: up to its final byte.
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            // Operating system command and its like: up to BEL or ST.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    out
}

fn cut_end(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

fn cut_start(text: &str, most: usize) -> String {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_share_their_budget_and_are_readable() {
        let summary =
            |head: Vec<u8>, tail: Vec<u8>| StreamSummary { bytes: 1, head, tail, ..StreamSummary::default() };
        let long = vec![b'x'; 6000];
        let (out, err) = previews(
            Some(&summary(long.clone(), long.clone())),
            Some(&summary(b"e\x1b[31mr\x07r".to_vec(), vec![])),
        );
        let (out, err) = (out.unwrap(), err.unwrap());
        assert_eq!(err.head.as_deref(), Some("err"));
        assert!(out.head.unwrap().len() + out.tail.unwrap().len() <= PREVIEW_TOTAL);
        let (out, err) =
            previews(Some(&summary(long.clone(), long.clone())), Some(&summary(long.clone(), long)));
        let total = |s: Stream| s.head.unwrap().len() + s.tail.unwrap().len();
        assert!(total(out.unwrap()) + total(err.unwrap()) <= PREVIEW_TOTAL);
    }

    #[test]
    fn terminal_sequences_leave_nothing_behind() {
        for (written, read) in [
            ("a\u{1b}[1;31mb\u{1b}[0mc", "abc"),
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;aGk=\u{1b}\\ok", "ok"),
            ("a\rb\u{0}c\u{1b}", "abc"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(readable(written.as_bytes()), read, "{written:?}");
        }
        assert_eq!(readable(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn cuts_keep_whole_characters() {
        assert_eq!(cut_end("aé", 2), "a");
        assert_eq!(cut_start("éa", 2), "a");
    }
}
