//! Runs a program to its end, with a deadline, and says on standard error that it is still running.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::{Error, Result};

/// How often a long command says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The most of a failed command's output that goes into its error, in bytes.
const OUTPUT_SHOWN: usize = 4000;

/// Says what happens, on standard error.
pub(crate) fn report(line: &str) {
    eprintln!("drydock-cluster: {line}");
}

/// A command from its words.
pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().expect("callers name a program"));
    command.args(words);
    command
}

/// Runs a command and returns what it printed. Fails on an exit status other than 0 and at the deadline.
pub(crate) async fn run(command: Command, deadline: Duration) -> Result<String> {
    run_with_input(command, "", deadline).await
}

/// As [`run`], with `input` on the command's standard input.
pub(crate) async fn run_with_input(mut command: Command, input: &str, deadline: Duration) -> Result<String> {
    let shown = shown(&command);
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| Error::Spawn { program: program(&command), source });
    let mut child = spawned?;
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input says by its exit status whether that matters.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let finish = async { tokio::join!(write, child.wait_with_output()).1 };
    match tokio::time::timeout(deadline, finish).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(failed(shown, &output)),
        Ok(Err(source)) => Err(Error::Spawn { program: shown, source }),
        Err(_) => Err(Error::Command {
            command: shown,
            status: format!("no end after {} s", deadline.as_secs()),
            output: String::new(),
        }),
    }
}

/// As [`run`], reporting `what` at the start, every 10 s and at the end.
pub(crate) async fn run_reporting(what: &str, command: Command, deadline: Duration) -> Result<String> {
    report(what);
    let started = Instant::now();
    let work = run(command, deadline);
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                if result.is_ok() {
                    report(&format!("{what}: done in {:.1} s", started.elapsed().as_secs_f32()));
                }
                return result;
            }
            () = tokio::time::sleep(HEARTBEAT) => {
                report(&format!("{what}: {} s so far", started.elapsed().as_secs()));
            }
        }
    }
}

fn failed(command: String, output: &Output) -> Error {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&both);
    let text = text.trim();
    let mut start = text.len().saturating_sub(OUTPUT_SHOWN);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    Error::Command { command, status: output.status.to_string(), output: text[start..].to_owned() }
}

fn program(command: &Command) -> String {
    command.as_std().get_program().to_string_lossy().into_owned()
}

fn shown(command: &Command) -> String {
    let arguments = command.as_std().get_args().map(|word| word.to_string_lossy());
    std::iter::once(program(command).into()).chain(arguments).collect::<Vec<_>>().join(" ")
}
