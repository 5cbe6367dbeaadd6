//! Following a run to its end: its state on stderr, its output as it comes, and what Ctrl-C means.

use std::sync::Arc;
use std::time::Duration;

use drydock_crds::ToolRun;
use drydock_crds::condition::ConditionType;
use drydock_protocol::agent::StreamName;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, Stderr, Stdout};
use tokio::sync::watch::{Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::pump::{Offsets, Pumped, Sinks, pump_on};
use crate::agent::Unreachable;
use crate::cli::Global;
use crate::connection::Connection;
use crate::exit;
use crate::failure::Failure;
use crate::logs::kept::{self, Kept};
use crate::output::Format;
use crate::progress::Progress;
use crate::watch::{self, Seen};

/// How long output that is known to exist is waited for, without any of it coming.
const PATIENCE: Duration = Duration::from_secs(10);
const STREAMS: [StreamName; 2] = [StreamName::Stdout, StreamName::Stderr];

/// How following ended.
pub(super) enum End {
    /// The run has its outcome, and its output is written.
    Finished(Box<ToolRun>),
    /// The run goes on, or is being cancelled, without us.
    Left(u8),
}

/// What happened next.
enum Next {
    Seen(Option<Seen>),
    Pumped(Pumped),
    Interrupted,
    Due,
    TimedOut,
}

/// A run that is followed.
pub(super) struct Follow<'a> {
    connection: &'a Connection,
    run: Box<ToolRun>,
    progress: Progress,
    /// Output goes to stdout and stderr as it comes.
    live: bool,
    offsets: Arc<Offsets>,
    stop: Sender<bool>,
    pump: Option<JoinHandle<Pumped>>,
    /// The attempt whose output is or was pumped.
    attempt: i32,
    interrupted: bool,
    /// Nobody reads what is written: nothing more is said.
    closed: bool,
    deadline: Option<Instant>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(connection: &'a Connection, global: &Global, run: ToolRun) -> Self {
        Self {
            connection,
            run: Box::new(run),
            progress: Progress::new(global),
            live: matches!(global.output, Format::Table | Format::Wide),
            offsets: Arc::default(),
            stop: channel(false).0,
            pump: None,
            attempt: 0,
            interrupted: false,
            closed: false,
            deadline: global.timeout.map(|limit| Instant::now() + limit),
        }
    }

    fn name(&self) -> &str {
        self.run.metadata.name.as_deref().unwrap_or_default()
    }

    /// Follows.
    ///
    /// # Errors
    /// When the run can't be followed: deleted, no rights, no cluster.
    pub(super) async fn follow(mut self) -> Result<End, Failure> {
        let mut seen = watch::follow(self.connection, self.name());
        self.look();
        while !self.is_finished() {
            match self.next(&mut seen).await {
                Next::Seen(Some(Seen::Run(run))) => {
                    self.run = run;
                    self.look();
                }
                Next::Seen(Some(Seen::Failed(failure))) => return Err(self.lost_sight(failure)),
                Next::Seen(Some(Seen::Gone) | None) => {
                    let object = format!("trun/{}", self.name());
                    let headline = format!("{object} was deleted before it ended, which cancels it");
                    return Err(Failure::new("NotFound", headline).object(object));
                }
                Next::Pumped(end) => self.pumped(end).await,
                Next::Due => self.progress.tick(),
                Next::Interrupted if self.interrupted => return Ok(End::Left(exit::INTERRUPTED)),
                Next::Interrupted => {
                    self.interrupted = true;
                    self.progress.note("cancelling; Ctrl-C again leaves at once");
                    self.cancel().await;
                }
                Next::TimedOut => {
                    let text = format!(
                        "--timeout is over, and the run goes on: kubectl drydock logs trun/{} -f",
                        self.name()
                    );
                    self.progress.note(&text);
                    return Ok(End::Left(exit::TIMEOUT));
                }
            }
        }
        self.progress.clear();
        if self.closed {
            return Ok(End::Left(self.run.status.as_ref().map_or(exit::OURS, exit::of_run)));
        }
        if self.live {
            tokio::select! {
                () = self.rest() => {}
                _ = tokio::signal::ctrl_c() => return Ok(End::Left(exit::INTERRUPTED)),
            }
        }
        let outcome =
            self.run.status.as_ref().and_then(|s| s.outcome).map(|o| o.to_string()).unwrap_or_default();
        let text = format!("trun/{} {outcome}", self.name());
        self.progress.done(&text);
        Ok(End::Finished(self.run))
    }

    async fn next(&mut self, seen: &mut tokio::sync::mpsc::Receiver<Seen>) -> Next {
        let due = self.progress.due().map(Instant::from_std);
        let at = |instant: Option<Instant>| async move {
            match instant {
                Some(instant) => tokio::time::sleep_until(instant).await,
                None => std::future::pending().await,
            }
        };
        let pump = self.pump.as_mut();
        let pumped = async move {
            match pump {
                Some(pump) => pump.await.unwrap_or(Pumped::Stopped),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Next::Interrupted,
            seen = seen.recv() => Next::Seen(seen),
            end = pumped => Next::Pumped(end),
            () = at(due) => Next::Due,
            () = at(self.deadline) => Next::TimedOut,
        }
    }

    fn is_finished(&self) -> bool {
        self.run.status.as_ref().is_some_and(|s| s.outcome.is_some())
    }

    /// Takes in what the run has become.
    fn look(&mut self) {
        let status = self.run.status.as_ref();
        let claimed = status.and_then(|s| s.claim.as_ref()).map(|c| c.attempt);
        match claimed {
            // From here on the line belongs to the command.
            Some(attempt) if self.live => {
                self.progress.clear();
                if attempt != self.attempt && self.pump.is_none() && !self.is_finished() {
                    self.attempt = attempt;
                    self.pump = Some(self.start_pump());
                }
            }
            _ => {
                let ready = status.and_then(|s| ConditionType::Ready.find(&s.conditions));
                let name = self.run.metadata.name.as_deref().unwrap_or_default();
                let text = match ready {
                    Some(ready) if ready.message.is_empty() => format!("trun/{name}: {}", ready.reason),
                    Some(ready) => format!("trun/{name}: {}", ready.message),
                    None => format!("trun/{name}: waits for the controller"),
                };
                self.progress.state(&text);
            }
        }
    }

    fn start_pump(&self) -> JoinHandle<Pumped> {
        let (connection, run) = (self.connection.clone(), self.run.clone());
        let (offsets, stop) = (Arc::clone(&self.offsets), self.stop.subscribe());
        tokio::spawn(async move { pump_on(&connection, &run, &offsets, &mut sinks(), &stop, PATIENCE).await })
    }

    async fn pumped(&mut self, end: Pumped) {
        self.pump = None;
        match end {
            Pumped::Closed => {
                self.closed = true;
                self.cancel().await;
            }
            Pumped::Unreachable(Unreachable::Forbidden(why)) => {
                self.progress
                    .note(&format!("no live output: {why}; its beginning and end come with the outcome"));
            }
            // The outcome says what is missing; it is fetched then.
            Pumped::All | Pumped::Stopped | Pumped::Unknown(_) | Pumped::Unreachable(_) => {}
        }
    }

    async fn cancel(&mut self) {
        let api = self.connection.api::<ToolRun>();
        let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
        let params = PatchParams::default();
        let name = self.name();
        let sent =
            self.connection.call::<ToolRun, _>("patch", Some(name), api.patch(name, &params, &patch)).await;
        if let Err(failure) = sent {
            self.progress.note(&format!("it can't be cancelled: {}", failure.headline));
        }
    }

    fn lost_sight(&self, failure: Failure) -> Failure {
        let object = format!("trun/{}", self.name());
        failure.then(format!("the run goes on: kubectl drydock logs {object} -f")).object(object)
    }

    /// Writes what a finished run wrote and hasn't been written yet.
    async fn rest(&mut self) {
        if let Some(pump) = self.pump.take() {
            let missing_is_at_hand = STREAMS.into_iter().all(|s| matches!(self.kept(s), Kept::Whole(_)));
            if self.drain(pump, missing_is_at_hand).await == Pumped::Closed {
                return;
            }
        }
        let missing = |this: &Self| {
            STREAMS.into_iter().any(|s| this.missing(s) && !matches!(this.kept(s), Kept::Whole(_)))
        };
        let mut why = None;
        if missing(self) {
            let stop = self.stop.subscribe();
            self.stop.send_replace(false);
            match pump_on(self.connection, &self.run, &self.offsets, &mut sinks(), &stop, PATIENCE).await {
                Pumped::Closed => return,
                Pumped::Unreachable(unreachable) => why = Some(unreachable.to_string()),
                Pumped::Unknown(message) => why = Some(message),
                Pumped::All | Pumped::Stopped => {}
            }
        }
        for stream in STREAMS {
            if self.missing(stream) && !self.write_kept(stream, why.as_deref()).await {
                return;
            }
        }
    }

    /// Lets a pump come to its end, for as long as something comes; at once where it isn't needed.
    async fn drain(&self, mut pump: JoinHandle<Pumped>, unneeded: bool) -> Pumped {
        let mut before = STREAMS.map(|s| self.offsets.get(s));
        let mut waits = !unneeded;
        while waits {
            if let Ok(end) = tokio::time::timeout(PATIENCE, &mut pump).await {
                return end.unwrap_or(Pumped::Stopped);
            }
            let now = STREAMS.map(|s| self.offsets.get(s));
            waits = now != before;
            before = now;
        }
        self.stop.send_replace(true);
        pump.await.unwrap_or(Pumped::Stopped)
    }

    fn kept(&self, stream: StreamName) -> Kept<'_> {
        kept::of(self.run.status.as_ref(), stream)
    }

    /// Whether bytes of a stream haven't been written.
    fn missing(&self, stream: StreamName) -> bool {
        kept::total(self.run.status.as_ref(), stream) > self.offsets.get(stream)
    }

    /// Writes what the status has of a stream; whether somebody reads it.
    async fn write_kept(&mut self, stream: StreamName, why: Option<&str>) -> bool {
        let written = usize::try_from(self.offsets.get(stream)).unwrap_or(usize::MAX);
        let name = stream.as_str_name().to_lowercase();
        let total = kept::total(self.run.status.as_ref(), stream);
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let mut note = None;
        match self.kept(stream) {
            Kept::Whole(data) => pieces.push(data.get(written..).unwrap_or_default().to_vec()),
            Kept::Preview { head, tail } => {
                if written == 0 {
                    pieces.push(head.as_bytes().to_vec());
                }
                pieces.push(tail.as_bytes().to_vec());
                let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
                note =
                    Some(format!("only the beginning and the end of {total} bytes of {name} are left{why}"));
            }
            Kept::Nothing => note = Some(format!("nothing is left of {total} bytes of {name}")),
        }
        if let Some(note) = note {
            self.progress.note(&note);
        }
        let result = match stream {
            StreamName::Stderr => write_all(tokio::io::stderr(), &pieces).await,
            _ => write_all(tokio::io::stdout(), &pieces).await,
        };
        self.offsets.set(stream, total);
        result.is_ok()
    }
}

async fn write_all(mut to: impl tokio::io::AsyncWrite + Unpin, pieces: &[Vec<u8>]) -> std::io::Result<()> {
    for piece in pieces {
        to.write_all(piece).await?;
    }
    to.flush().await
}

fn sinks() -> Sinks<Stdout, Stderr> {
    Sinks {
        stdout: Some(tokio::io::stdout()),
        stderr: Some(tokio::io::stderr()),
        on_gap: |text| eprintln!("note: {text}"),
    }
}
