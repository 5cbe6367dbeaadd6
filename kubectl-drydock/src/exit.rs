//! Exit codes.

use drydock_crds::Outcome;
use drydock_crds::tool_run::ToolRunStatus;

/// Done, or nothing to do.
pub(crate) const DONE: u8 = 0;
/// Refused, failed, not there.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// `--timeout` is over.
pub(crate) const TIMEOUT: u8 = 124;
/// Of `run`: the command never ran, and not for its own sake.
pub(crate) const OURS: u8 = 125;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code of `run` for a finished run.
pub(crate) fn of_run(status: &ToolRunStatus) -> u8 {
    let Some(outcome) = status.outcome else {
        return OURS;
    };
    let number = |given: Option<i32>| given.and_then(|n| u8::try_from(n).ok());
    match outcome {
        Outcome::Succeeded => DONE,
        Outcome::NonZeroExit => number(status.exit_code).filter(|code| *code != 0).unwrap_or(FAILED),
        Outcome::Signalled => number(status.signal).map_or(OURS, |signal| 128_u8.saturating_add(signal)),
        Outcome::TimedOut => TIMEOUT,
        Outcome::Cancelled => INTERRUPTED,
        Outcome::OutOfMemory => 137,
        // The agent gives the conventional code: 127 where the executable isn't there.
        Outcome::CannotExecute => {
            if number(status.exit_code) == Some(127) {
                127
            } else {
                126
            }
        }
        Outcome::BuildFailed
        | Outcome::StartFailed
        | Outcome::NoEnvironment
        | Outcome::Rejected
        | Outcome::Evicted
        | Outcome::Lost => OURS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_code() {
        for (outcome, exit_code, signal, code) in [
            (Outcome::Succeeded, Some(0), None, 0),
            (Outcome::NonZeroExit, Some(3), None, 3),
            (Outcome::NonZeroExit, Some(255), None, 255),
            (Outcome::NonZeroExit, None, None, 1),
            (Outcome::TimedOut, Some(0), None, 124),
            (Outcome::Cancelled, None, Some(15), 130),
            (Outcome::Signalled, None, Some(11), 139),
            (Outcome::Signalled, None, Some(64), 192),
            (Outcome::Signalled, None, None, 125),
            (Outcome::OutOfMemory, None, Some(9), 137),
            (Outcome::CannotExecute, Some(126), None, 126),
            (Outcome::CannotExecute, Some(127), None, 127),
            (Outcome::CannotExecute, None, None, 126),
            (Outcome::BuildFailed, None, None, 125),
            (Outcome::StartFailed, None, None, 125),
            (Outcome::NoEnvironment, None, None, 125),
            (Outcome::Rejected, None, None, 125),
            (Outcome::Evicted, None, None, 125),
            (Outcome::Lost, None, None, 125),
        ] {
            let status =
                ToolRunStatus { outcome: Some(outcome), exit_code, signal, ..ToolRunStatus::default() };
            assert_eq!(of_run(&status), code, "{outcome}");
        }
        assert_eq!(of_run(&ToolRunStatus::default()), OURS);
    }
}
