//! `logs`: what a run wrote, by offset through the agent while its environment lives, else what the status has.

pub(crate) mod kept;
mod read;

use std::sync::Arc;
use std::time::Duration;

use drydock_crds::ToolRun;
use drydock_crds::condition::ConditionType;
use drydock_protocol::agent::StreamName;
use tokio::io::{AsyncWriteExt as _, Stdout};

use crate::agent::{self, Unreachable};
use crate::cli::{Global, LogsArgs};
use crate::connection::Connection;
use crate::exit;
use crate::failure::Failure;
use crate::place;
use crate::progress::Progress;
use crate::run::pump::{Offsets, Pumped, Sinks, pump_on};
use crate::watch::{Seen, follow};
use kept::Kept;
use read::Part;

/// How long output that must be there is waited for, without any of it coming.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is left of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Full,
    Preview,
}

/// Parses `A-B` or `A-`.
///
/// # Errors
/// A sentence that says what is accepted.
pub(crate) fn parse_bytes(text: &str) -> Result<(u64, Option<u64>), String> {
    let refused =
        || format!("{text:?} is no range: write the first and the last byte, from 0, like 0-1023 or 1024-");
    let (from, to) = text.split_once('-').ok_or_else(refused)?;
    let from = from.parse().map_err(|_| refused())?;
    let to = Some(to).filter(|t| !t.is_empty()).map(|t| t.parse().map_err(|_| refused())).transpose()?;
    if to.is_some_and(|to| to < from) {
        return Err(refused());
    }
    Ok((from, to))
}

/// Writes what is asked for; the exit code.
pub(crate) async fn logs(connection: &Connection, global: &Global, args: &LogsArgs) -> Result<u8, Failure> {
    let name = run_name(&args.run)?;
    let mut progress = Progress::new(global);
    let mut run: ToolRun = connection.get(name).await?;
    let stream = if args.stderr { StreamName::Stderr } else { StreamName::Stdout };
    if args.follow && !is_finished(&run) {
        run = wait_for_start(connection, run, &mut progress).await?;
    }
    progress.clear();
    let is_activation = run.spec.activate.is_some();
    if is_activation {
        progress.note("this run only activates, and stores no output");
    }
    if !is_finished(&run) && !is_claimed(&run) {
        let ready = run.status.as_ref().and_then(|s| ConditionType::Ready.find(&s.conditions));
        let message = ready.map_or("it waits for the controller", |c| c.message.as_str());
        progress.note(&format!("trun/{name} hasn't started: {message}"));
        return Ok(exit::DONE);
    }
    let part = Part::of(args);
    let answer = if args.follow && !is_finished(&run) {
        through_to_the_end(connection, &run, stream).await
    } else {
        read::read(connection, &run, stream, &part).await
    };
    let state = match answer {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(exit::DONE),
        Err(why) => from_status(&run, stream, &part, &why, &mut progress).await?,
    };
    say(&run, stream, state, &mut progress);
    Ok(exit::DONE)
}

/// The name in `trun/NAME`.
fn run_name(text: &str) -> Result<&str, Failure> {
    let name = match text.split_once('/') {
        Some(("trun" | "toolrun" | "toolruns", name)) => name,
        Some(("dc" | "ctr" | "ws", _)) => {
            return Err(Failure::usage(
                "the logs of builds and hooks aren't there yet: name a run as trun/NAME",
            ));
        }
        _ => return Err(Failure::usage(format!("{text:?} names no run: write trun/NAME"))),
    };
    place::name(name).map_err(|why| Failure::usage(format!("{text:?} names no run: {why}")))
}

fn is_finished(run: &ToolRun) -> bool {
    run.status.as_ref().is_some_and(|s| s.outcome.is_some())
}

fn is_claimed(run: &ToolRun) -> bool {
    run.status.as_ref().is_some_and(|s| s.claim.is_some())
}

/// Until the run is claimed or over.
async fn wait_for_start(
    connection: &Connection,
    run: ToolRun,
    progress: &mut Progress,
) -> Result<ToolRun, Failure> {
    let name = run.metadata.name.clone().unwrap_or_default();
    let mut run = run;
    let mut seen = follow(connection, &name);
    while !is_finished(&run) && !is_claimed(&run) {
        let ready = run.status.as_ref().and_then(|s| ConditionType::Ready.find(&s.conditions));
        progress.state(&format!(
            "trun/{name}: {}",
            ready.map_or("waits for the controller", |c| c.message.as_str())
        ));
        let due = progress.due();
        tokio::select! {
            next = seen.recv() => match next {
                Some(Seen::Run(next)) => run = *next,
                Some(Seen::Failed(failure)) => return Err(failure),
                Some(Seen::Gone) | None => {
                    return Err(Failure::new("NotFound", format!("trun/{name} was deleted")));
                }
            },
            () = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            } => progress.tick(),
        }
    }
    Ok(run)
}

/// Follows one stream to the run's end. `Ok(None)`: nobody reads any more; `Err`: why the agent couldn't be asked.
async fn through_to_the_end(
    connection: &Connection,
    run: &ToolRun,
    stream: StreamName,
) -> Result<Option<State>, Unreachable> {
    let offsets = Arc::new(Offsets::default());
    let mut sinks: Sinks<Stdout, Stdout> = Sinks {
        stdout: (stream == StreamName::Stdout).then(tokio::io::stdout),
        stderr: (stream == StreamName::Stderr).then(tokio::io::stdout),
        on_gap: |text| eprintln!("note: {text}"),
    };
    let (_keep, stop) = tokio::sync::watch::channel(false);
    match pump_on(connection, run, &offsets, &mut sinks, &stop, PATIENCE).await {
        Pumped::All => Ok(Some(State::Full)),
        Pumped::Stopped | Pumped::Closed => Ok(None),
        Pumped::Unknown(why) => Err(Unreachable::NoPod(why)),
        Pumped::Unreachable(why) => Err(why),
    }
}

/// Writes what the status has.
async fn from_status(
    run: &ToolRun,
    stream: StreamName,
    part: &Part,
    why: &agent::Unreachable,
    progress: &mut Progress,
) -> Result<State, Failure> {
    let object = format!("trun/{}", run.metadata.name.as_deref().unwrap_or_default());
    let name = stream.as_str_name().to_lowercase();
    if !is_finished(run) {
        let headline = format!("the output of {object}, which isn't over, can't be reached");
        return Err(Failure::new("Unreachable", headline).object(object).why(why.to_string()));
    }
    let mut stdout = tokio::io::stdout();
    match kept::of(run.status.as_ref(), stream) {
        Kept::Whole(data) => {
            // Nobody reading is no failure of ours.
            let _ = stdout.write_all(part.cut(data)).await;
            let _ = stdout.flush().await;
            Ok(State::Full)
        }
        Kept::Preview { head, tail } if part.is_all() => {
            let _ = stdout.write_all(head.as_bytes()).await;
            let _ = stdout.flush().await;
            if !tail.is_empty() {
                progress.note("what lies between isn't left");
                let _ = stdout.write_all(tail.as_bytes()).await;
                let _ = stdout.flush().await;
            }
            Ok(State::Preview)
        }
        Kept::Preview { .. } => {
            let headline = format!(
                "Preview: only the beginning and the end of {name} of {object} are left, and no part can be counted out"
            );
            Err(Failure::new("Preview", headline)
                .why(why.to_string())
                .object(object.clone())
                .then(format!("kubectl drydock logs {object}")))
        }
        Kept::Nothing => {
            let headline = format!("Gone: nothing is left of {name} of {object}");
            Err(Failure::new("Gone", headline).object(object).why(why.to_string()))
        }
    }
}

/// Says what is left.
fn say(run: &ToolRun, stream: StreamName, state: State, progress: &mut Progress) {
    let name = stream.as_str_name().to_lowercase();
    let total = kept::total(run.status.as_ref(), stream);
    let size = if is_finished(run) { format!(" ({total} bytes)") } else { String::new() };
    match state {
        State::Full => progress.note(&format!("Full: all of {name}{size} is left")),
        State::Preview => {
            progress.note(&format!("Preview: only the beginning and the end of {name}{size} are left"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_names() {
        assert_eq!(parse_bytes("0-1023"), Ok((0, Some(1023))));
        assert_eq!(parse_bytes("5-"), Ok((5, None)));
        for bad in ["", "5", "-5", "5-4", "a-b", "1-2-3"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(run_name("trun/x-1").unwrap(), "x-1");
        for bad in ["x", "trun/", "dc/web", "trun/X", "pod/x"] {
            assert_eq!(run_name(bad).unwrap_err().code, Some(exit::USAGE), "{bad}");
        }
    }
}
