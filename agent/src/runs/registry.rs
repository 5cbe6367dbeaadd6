//! Which attempts are known, and what may be done with them: start at most once, wait, cancel, signal, seal.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{Refusal, StartRequest};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::sync::watch;

use super::active::ActiveRun;
use super::journal::{Meta, Refused, refusal};
use super::launch::{create_run_dir, launch};
use super::output::OutputReader;
use super::record::RunRecord;
use super::request;
use super::retention::{Bounds, Expired, Key, Retention};
use super::watch::{Shim, ended};
use crate::paths::{AgentDir, RunDir, Stream, read_json, write_whole};
use crate::process::queue_signal;
use crate::serve::fence::Fence;

/// How this registry behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Id of this start of the container.
    pub boot_id: String,
    /// Whom runs are executed as where they don't say; empty: the agent's own user.
    pub default_user: String,
    /// Where they begin; empty: the user's home.
    pub default_directory: String,
    /// Runs at the same time.
    pub max_active: usize,
    /// What is kept of finished ones.
    pub kept: Bounds,
}

/// The runs of this container.
pub struct Registry {
    dir: AgentDir,
    settings: Settings,
    state: Mutex<State>,
    /// Counts the attempts that have come, for those who wait for one.
    arrivals: watch::Sender<u64>,
}

struct State {
    fence: Fence,
    active: HashMap<Key, Arc<ActiveRun>>,
    finished: Retention,
}

/// What is known of an attempt.
pub enum Known {
    /// It hasn't ended.
    Active(Arc<ActiveRun>),
    /// It has ended.
    Finished(Box<RunRecord>),
    /// It never runs here.
    Refused(Refused),
}

impl Registry {
    /// Opens the folder: takes up what an earlier `serve`, or an earlier boot, left there.
    ///
    /// # Errors
    /// The folder can't be made.
    pub async fn open(dir: AgentDir, settings: Settings) -> io::Result<Arc<Self>> {
        fs::create_dir_all(dir.runs())?;
        let registry = Arc::new(Self {
            state: Mutex::new(State {
                fence: Fence::open(dir.fence(), &settings.boot_id),
                active: HashMap::new(),
                finished: Retention::new(settings.kept),
            }),
            dir,
            settings,
            arrivals: watch::Sender::new(0),
        });
        super::recover::recover(&registry).await;
        Ok(registry)
    }

    /// The agent's folder.
    #[must_use]
    pub fn dir(&self) -> &AgentDir {
        &self.dir
    }

    /// Id of this start of the container.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.settings.boot_id
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a caller's epoch and records a higher one. A caller without one is let through where `needed` is false.
    ///
    /// # Errors
    /// `STALE_EPOCH`.
    pub fn admit(&self, epoch: u64, needed: bool) -> Result<(), Refusal> {
        self.state().fence.admit(epoch, needed)
    }

    /// Whether starts are refused.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.state().fence.is_sealed()
    }

    /// Refuses every later start, if no run is active.
    ///
    /// # Errors
    /// `RUNS_ACTIVE`, `JOURNAL_FAILED`.
    pub fn seal(&self) -> Result<(), (Refusal, usize)> {
        let mut state = self.state();
        match state.active.len() {
            0 => state.fence.set_sealed(true).map_err(|error| (journal_failed(&error), 0)),
            active => Err((refusal(Reason::RunsActive, format!("{active} runs are active")), active)),
        }
    }

    /// Takes the seal back.
    ///
    /// # Errors
    /// `JOURNAL_FAILED`.
    pub fn unseal(&self) -> Result<(), Refusal> {
        self.state().fence.set_sealed(false).map_err(|error| journal_failed(&error))
    }

    /// Checks that the caller means this boot.
    ///
    /// # Errors
    /// `WRONG_BOOT`.
    pub fn check_boot(&self, boot_id: &str) -> Result<(), Refusal> {
        if boot_id == self.settings.boot_id {
            return Ok(());
        }
        Err(refusal(Reason::WrongBoot, format!("this is boot {}, not {boot_id:?}", self.settings.boot_id)))
    }

    /// What is known of an attempt; of a bad key nothing.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<Known> {
        if request::check_key(&key.run_uid, key.attempt).is_err() {
            return None;
        }
        if let Some(run) = self.state().active.get(key) {
            return Some(Known::Active(run.clone()));
        }
        let dir = self.run_dir(key);
        read_json(&dir.status())
            .map(|record| Known::Finished(Box::new(record)))
            .or_else(|| read_json(&dir.refused()).map(Known::Refused))
    }

    /// The newest attempt of a run.
    #[must_use]
    pub fn newest_attempt(&self, run_uid: &str) -> Option<u32> {
        request::check_key(run_uid, 1).ok()?;
        let entries = fs::read_dir(self.dir.runs().join(run_uid)).ok()?;
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max()
    }

    /// Follows the coming of attempts.
    #[must_use]
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Starts an attempt, or gives the one that is known.
    ///
    /// # Errors
    /// Each of the contract's refusals of `Start`.
    pub fn start(self: &Arc<Self>, request: StartRequest) -> Result<Option<Known>, Refusal> {
        request::check(&request).map_err(|message| refusal(Reason::Invalid, message))?;
        self.check_boot(&request.boot_id)?;
        let key = Key { run_uid: request.run_uid.clone(), attempt: request.attempt };
        match self.find(&key) {
            Some(Known::Refused(refused)) => return Err(refused.to_wire()),
            Some(known) => return Ok(Some(known)),
            None => {}
        }
        let mut state = self.state();
        if state.fence.is_sealed() {
            self.journal_refusal(&mut state, &key, Refused::Sealed)
                .map_err(|error| journal_failed(&error))?;
            return Err(Refused::Sealed.to_wire());
        }
        if state.active.len() >= self.settings.max_active {
            let message = format!("{} runs are active, as many as this agent takes", state.active.len());
            return Err(refusal(Reason::TooMany, message));
        }
        let dir = self.run_dir(&key);
        create_run_dir(&dir).map_err(|error| journal_failed(&error))?;
        let started = launch(&self.settings, &dir, request).inspect_err(|_| {
            // Nothing was executed: the same attempt may come again.
            let _ = fs::remove_dir_all(dir.path());
        });
        let (meta, shim) = started.map_err(|error| journal_failed(&error))?;
        self.adopt(&mut state, key, meta, shim);
        Ok(None)
    }

    /// Takes a run up whose shim lives, found again by an earlier journal or just made.
    pub(super) fn take_up(self: &Arc<Self>, key: Key, meta: Meta, shim: Shim) {
        self.adopt(&mut self.state(), key, meta, shim);
    }

    fn adopt(self: &Arc<Self>, state: &mut State, key: Key, meta: Meta, shim: Shim) {
        let run = Arc::new(ActiveRun { dir: self.run_dir(&key), meta, done: watch::Sender::new(None) });
        state.active.insert(key.clone(), run.clone());
        self.arrivals.send_modify(|count| *count += 1);
        let registry = self.clone();
        tokio::spawn(async move {
            ended(&run.dir, shim).await;
            registry.finish(&key, &run);
        });
    }

    fn finish(&self, key: &Key, run: &ActiveRun) {
        let record =
            read_json(&run.dir.status()).unwrap_or_else(|| super::recover::write_lost(&run.dir, &run.meta));
        let bytes = on_disk(&record);
        let expired = {
            let mut state = self.state();
            state.active.remove(key);
            state.finished.push(key.clone(), bytes)
        };
        run.done.send_replace(Some(Arc::new(record)));
        self.expire(expired);
    }

    /// Takes a finished run up at start.
    pub(super) fn take_up_finished(&self, key: Key, bytes: u64) {
        let expired = self.state().finished.push(key, bytes);
        self.expire(expired);
    }

    fn expire(&self, expired: Vec<Expired>) {
        for each in expired {
            match each {
                Expired::Output(key) => {
                    let dir = self.run_dir(&key);
                    for file in [dir.stream(Stream::Stdout), dir.stream(Stream::Stderr), dir.progress()] {
                        // What isn't there needs no removal.
                        let _ = fs::remove_file(file);
                    }
                }
                Expired::All(key) => {
                    let dir = self.run_dir(&key);
                    let _ = fs::remove_dir_all(dir.path());
                    // The run's folder, unless it has another attempt.
                    let _ = dir.path().parent().map(fs::remove_dir);
                }
            }
        }
    }

    /// Ends an active attempt, or sees to it that an unknown one never starts.
    ///
    /// # Errors
    /// The attempt's own refusal, `CANCELLED_BEFORE_START`, `INVALID` or `JOURNAL_FAILED`.
    pub fn cancel(&self, key: &Key) -> Result<Known, Refusal> {
        request::check_key(&key.run_uid, key.attempt).map_err(|message| refusal(Reason::Invalid, message))?;
        match self.find(key) {
            Some(Known::Active(run)) => {
                // The file first: a shim that isn't ready for signals yet looks for it.
                write_whole(&run.dir.cancel(), b"").map_err(|error| journal_failed(&error))?;
                if let Some(shim) = run.shim() {
                    // Gone meanwhile: then it has ended.
                    let _ = nix::sys::signal::kill(shim, Signal::SIGTERM);
                }
                Ok(Known::Active(run))
            }
            Some(Known::Refused(refused)) => Err(refused.to_wire()),
            Some(finished) => Ok(finished),
            None => {
                let mut state = self.state();
                self.journal_refusal(&mut state, key, Refused::Cancelled)
                    .map_err(|error| journal_failed(&error))?;
                Err(Refused::Cancelled.to_wire())
            }
        }
    }

    /// Sends a signal to the process group of an active run.
    ///
    /// # Errors
    /// `UNKNOWN_RUN`, `ALREADY_ENDED`, `INVALID`.
    pub async fn signal(&self, key: &Key, number: i32) -> Result<(), Refusal> {
        if !(1..=64).contains(&number) {
            return Err(refusal(Reason::Invalid, "signal must be 1 to 64"));
        }
        let ended = || refusal(Reason::AlreadyEnded, "the run has ended");
        match self.find(key) {
            Some(Known::Active(run)) => {
                let shim =
                    run.processes().await.filter(|found| found.shim.is_alive()).ok_or_else(ended)?.shim;
                queue_signal(Pid::from_raw(shim.pid), Signal::SIGUSR1, number).map_err(|_| ended())
            }
            Some(Known::Finished(_)) => Err(ended()),
            Some(Known::Refused(refused)) => Err(refused.to_wire()),
            None => Err(refusal(Reason::UnknownRun, "this agent does not know the attempt")),
        }
    }

    /// Unfinished runs.
    #[must_use]
    pub fn active(&self) -> Vec<(Key, Arc<ActiveRun>)> {
        self.state().active.iter().map(|(key, run)| (key.clone(), run.clone())).collect()
    }

    /// Finished and refused attempts, newest first, and whether there are more.
    #[must_use]
    pub fn newest_finished(&self, most: usize) -> (Vec<Key>, bool) {
        let state = self.state();
        (state.finished.newest().take(most).cloned().collect(), state.finished.len() > most)
    }

    /// A reader of an attempt's output; `None` when the attempt has none.
    #[must_use]
    pub fn reader(&self, key: &Key, known: &Known, stream: Stream) -> Option<OutputReader> {
        let dir = self.run_dir(key);
        match known {
            Known::Active(run) => Some(OutputReader::live(dir, stream, run.meta.kept)),
            Known::Finished(record) => Some(OutputReader::finished(
                dir,
                stream,
                match stream {
                    Stream::Stdout => &record.stdout,
                    Stream::Stderr => &record.stderr,
                },
            )),
            Known::Refused(_) => None,
        }
    }

    fn journal_refusal(&self, state: &mut State, key: &Key, refused: Refused) -> io::Result<()> {
        let dir = self.run_dir(key);
        create_run_dir(&dir)?;
        write_whole(&dir.refused(), &serde_json::to_vec(&refused)?)?;
        let expired = state.finished.push(key.clone(), 0);
        self.expire(expired);
        self.arrivals.send_modify(|count| *count += 1);
        Ok(())
    }

    fn run_dir(&self, key: &Key) -> RunDir {
        self.dir.run(&key.run_uid, key.attempt)
    }
}

/// Bytes that a finished run takes on the disk.
pub(super) fn on_disk(record: &RunRecord) -> u64 {
    [&record.stdout, &record.stderr].map(|stream| stream.bytes.min(stream.kept.limit())).iter().sum()
}

fn journal_failed(error: &io::Error) -> Refusal {
    refusal(Reason::JournalFailed, format!("the agent could not write its journal: {error}"))
}
