//! One pod's session: a channel that is opened when something is asked for, opened again when it breaks, and closed when it idles.
//!
//! What was asked for outlives a broken channel: attempts are sent again (the agent knows those it has), cancels too. A seal is not: its
//! decision is made again when the agent is back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::agent::{Hello, PodRef, SealFact, StartCall};
use drydock_crds::InstanceStatus;
use drydock_domain as domain;
use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::agent::{HelloRequest, HelloResponse};
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use super::attempt::{self, Key};
use super::transport::{Address, Connection, DIAL};
use super::{Hub, orphan, seal};
use crate::reconcile::{AgentChange, chain};

/// The usual TLS port of agents.
pub(super) const PORT: u16 = domain::render::AGENT_PORT as u16;
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// A channel that nobody needs is closed after this time.
const IDLE: Duration = Duration::from_secs(300);
/// How long a short call may take.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// Longest text of an agent that is kept, in bytes.
const TEXT: usize = 1024;
/// Names of executables that are kept of a hello.
const EXECUTABLES: usize = 64;

/// A session as its hub sees it. Dropping it ends its task.
pub(super) struct Session {
    wanted: Arc<Wanted>,
    task: AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    pub(super) fn open(hub: &Arc<Hub>, pod: PodRef) -> Self {
        let wanted = Arc::new(Wanted::default());
        let task = tokio::spawn(run(hub.clone(), pod, wanted.clone())).abort_handle();
        Self { wanted, task }
    }

    pub(super) fn connect(&self) {
        let mut asked = self.wanted.asked();
        if !asked.greeted {
            asked.connect = true;
            drop(asked);
            self.wanted.changed.notify_one();
        }
    }

    pub(super) fn start(&self, call: StartCall) {
        let mut asked = self.wanted.asked();
        if asked.attempts.insert(Key::of(&call)) {
            asked.starts.push_back(call);
            drop(asked);
            self.wanted.changed.notify_one();
        }
    }

    pub(super) fn cancel(&self, run_uid: String, attempt: u32) {
        let key = Key { run_uid, attempt };
        if self.wanted.asked().cancels.insert(key) {
            self.wanted.changed.notify_one();
        }
    }

    pub(super) fn seal(&self, boot_id: String) {
        self.wanted.asked().seal = Some(boot_id);
        self.wanted.changed.notify_one();
    }

    pub(super) fn unseal(&self, boot_id: String) {
        self.wanted.asked().unseal = Some(boot_id);
        self.wanted.changed.notify_one();
    }
}

#[derive(Default)]
struct Wanted {
    asked: Mutex<Asked>,
    changed: Notify,
}

impl Wanted {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked for and not done yet. Bounded by the open runs.
#[derive(Default)]
struct Asked {
    connect: bool,
    /// There was a hello on the channel that is open.
    greeted: bool,
    starts: VecDeque<StartCall>,
    /// Attempts that are waiting to be sent, or sent.
    attempts: HashSet<Key>,
    cancels: HashSet<Key>,
    seal: Option<String>,
    unseal: Option<String>,
}

impl Asked {
    fn is_empty(&self) -> bool {
        !self.connect
            && self.starts.is_empty()
            && self.cancels.is_empty()
            && self.seal.is_none()
            && self.unseal.is_none()
    }
}

/// What a session has under way.
pub(super) enum Done {
    Attempt(Key, attempt::End),
    Cancel(Key, attempt::Cancelled),
    Sealed(bool),
}

struct Run {
    hub: Arc<Hub>,
    pod: PodRef,
    wanted: Arc<Wanted>,
    /// Attempts whose end isn't known yet, with what they were started by, where that is known.
    active: HashMap<Key, Option<StartCall>>,
    /// How the agent was reached last.
    fingerprint: Option<String>,
    port: Option<u16>,
}

async fn run(hub: Arc<Hub>, pod: PodRef, wanted: Arc<Wanted>) {
    let mut run = Run { hub, pod, wanted, active: HashMap::new(), fingerprint: None, port: None };
    let mut backoff = FIRST_BACKOFF;
    loop {
        while run.active.is_empty() && run.wanted.asked().is_empty() {
            run.wanted.changed.notified().await;
        }
        let error = match run.open().await {
            Ok(connection) => {
                backoff = FIRST_BACKOFF;
                let transport = connection.transport;
                run.hub.metrics.session(transport, 1);
                let ended = run.serve(connection.client).await;
                run.hub.metrics.session(transport, -1);
                run.wanted.asked().greeted = false;
                match ended {
                    None => continue,
                    Some(error) => error,
                }
            }
            Err(error) => error,
        };
        run.unreachable(error);
        sleep(backoff.mul_f64(0.8 + 0.4 * crate::reconcile::jitter())).await;
        backoff = (backoff * 2).min(LAST_BACKOFF);
    }
}

impl Run {
    /// Opens a channel and greets the agent.
    async fn open(&mut self) -> Result<Connection, String> {
        let address = self.address();
        let dialled = timeout(4 * DIAL, self.hub.dialer.dial(&address)).await;
        let dialled = dialled.map_err(|_| "not reached in time".to_owned())?;
        let mut connection = dialled.map_err(|error| chain(&error))?;
        if connection.fingerprint.is_some() {
            self.fingerprint.clone_from(&connection.fingerprint);
            self.port = connection.port;
        }
        let request = HelloRequest { epoch: self.hub.epoch() };
        let hello = timeout(CALL, connection.client.hello(request)).await;
        let hello = hello.map_err(|_| "no hello in time".to_owned())?;
        let hello = hello.map_err(|status| said(&status))?.into_inner();
        if hello.refusal.is_some() {
            return Err("another controller leads: the agent has seen a higher epoch".to_owned());
        }
        tracing::debug!(pod = self.pod.name, transport = connection.transport, "an agent is reached");
        self.greeted(hello, connection.fingerprint.clone());
        Ok(connection)
    }

    fn greeted(&mut self, hello: HelloResponse, fingerprint: Option<String>) {
        {
            let mut asked = self.wanted.asked();
            asked.connect = false;
            asked.greeted = true;
        }
        orphan::check(&self.hub, &self.pod, &hello.attempts);
        let fact = Hello {
            version: bounded(&hello.agent_version),
            boot_id: hello.boot_id,
            fingerprint: fingerprint.or_else(|| self.fingerprint.clone()),
            executables: hello.executables.iter().take(EXECUTABLES).map(|e| bounded(e)).collect(),
        };
        self.learn(|facts| {
            let same_boot = facts.hello.as_ref().is_some_and(|h| h.boot_id == fact.boot_id);
            if hello.sealed {
                facts.seal = SealFact::Sealed;
            } else if !same_boot || facts.seal == SealFact::Sealed {
                facts.seal = SealFact::Open;
            }
            facts.hello = Some(fact);
            facts.unreachable_since = None;
            facts.last_error = None;
        });
    }

    fn unreachable(&self, error: String) {
        tracing::debug!(pod = self.pod.name, error, "an agent isn't reached");
        {
            // Their decisions are made again.
            let mut asked = self.wanted.asked();
            asked.seal = None;
            asked.unseal = None;
        }
        self.learn(|facts| {
            facts.unreachable_since.get_or_insert_with(Timestamp::now);
            facts.last_error = Some(bounded(&error));
        });
    }

    /// Works on what is asked for until the channel breaks (the reason is answered) or nobody needs it.
    async fn serve(&mut self, client: AgentClient<Channel>) -> Option<String> {
        let mut work = JoinSet::new();
        for (key, call) in &self.active {
            work.spawn(attempt::follow(self.hub.clone(), client.clone(), key.clone(), call.clone()));
        }
        loop {
            self.begin(&client, &mut work);
            let is_idle = work.is_empty();
            let idle = async {
                if is_idle {
                    sleep(IDLE).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.wanted.changed.notified() => {}
                () = idle => return None,
                Some(done) = work.join_next() => {
                    // A task of ours never panics by itself; if one does, everything is asked again on a new channel.
                    let broken = match done {
                        Ok(done) => self.finish(done, &client, &mut work),
                        Err(error) => Some(error.to_string()),
                    };
                    if broken.is_some() {
                        return broken;
                    }
                }
            }
        }
    }

    fn begin(&mut self, client: &AgentClient<Channel>, work: &mut JoinSet<Done>) {
        let mut asked = self.wanted.asked();
        asked.connect = false;
        while let Some(call) = asked.starts.pop_front() {
            let key = Key::of(&call);
            self.active.insert(key.clone(), Some(call.clone()));
            work.spawn(attempt::follow(self.hub.clone(), client.clone(), key, Some(call)));
        }
        for key in asked.cancels.drain() {
            work.spawn(attempt::cancel(self.hub.clone(), client.clone(), key));
        }
        if let Some(boot_id) = asked.seal.take() {
            work.spawn(seal::seal(self.hub.clone(), client.clone(), self.pod.clone(), boot_id));
        }
        if let Some(boot_id) = asked.unseal.take() {
            work.spawn(seal::unseal(self.hub.clone(), client.clone(), self.pod.clone(), boot_id));
        }
    }

    /// Takes note of what is done; answers why the channel is of no use any more, if it isn't.
    fn finish(
        &mut self,
        done: Done,
        client: &AgentClient<Channel>,
        work: &mut JoinSet<Done>,
    ) -> Option<String> {
        match done {
            Done::Attempt(key, attempt::End::Known) => {
                self.active.remove(&key);
                self.wanted.asked().attempts.remove(&key);
                None
            }
            Done::Attempt(_, attempt::End::Broken(why)) => Some(why),
            Done::Cancel(_, attempt::Cancelled::Answered) => None,
            Done::Cancel(key, attempt::Cancelled::UnderWay) => {
                if !self.active.contains_key(&key) {
                    self.active.insert(key.clone(), None);
                    work.spawn(attempt::follow(self.hub.clone(), client.clone(), key, None));
                }
                None
            }
            Done::Cancel(key, attempt::Cancelled::Broken(why)) => {
                self.wanted.asked().cancels.insert(key);
                Some(why)
            }
            Done::Sealed(true) => None,
            Done::Sealed(false) => Some("the agent isn't the one that was meant".to_owned()),
        }
    }

    fn address(&self) -> Address {
        let pod = self.hub.stores.pods.get(&self.pod.namespace, &self.pod.name);
        let ip = pod.as_ref().and_then(|p| p.status.as_ref()?.pod_ip.as_deref()?.parse::<IpAddr>().ok());
        let pinned = || {
            let owner =
                pod.as_ref()?.owner_references().iter().find(|o| o.controller == Some(true))?.uid.clone();
            let status = instance_status(&self.hub, &owner)?;
            let same = status.pod_uid.as_deref() == Some(self.pod.uid.as_str());
            status.agent.filter(|_| same)?.fingerprint
        };
        Address {
            pod: self.pod.clone(),
            ip,
            fingerprint: self.fingerprint.clone().or_else(pinned),
            port: self.port.unwrap_or_else(|| self.hub.port.load(std::sync::atomic::Ordering::SeqCst)),
        }
    }

    fn learn(&self, change: impl FnOnce(&mut domain::agent::AgentFacts)) {
        learn(&self.hub, &self.pod, change);
    }
}

fn instance_status(hub: &Hub, uid: &str) -> Option<InstanceStatus> {
    let stores = &hub.stores;
    let devcontainer = stores.devcontainer_instances.with_uid(uid).and_then(|i| i.status.clone());
    devcontainer.or_else(|| stores.container_instances.with_uid(uid).and_then(|i| i.status.clone()))
}

pub(super) fn learn(hub: &Hub, pod: &PodRef, change: impl FnOnce(&mut domain::agent::AgentFacts)) {
    let is_new = hub.facts().set_agent(&pod.uid, change);
    if is_new {
        hub.publish(&AgentChange::Agent(pod.clone()));
    }
}

/// What a call failed with, for people.
pub(super) fn said(status: &tonic::Status) -> String {
    let source = std::error::Error::source(status).map(chain);
    let text = match source {
        Some(source) => format!("{}: {source}", status.message()),
        None => status.message().to_owned(),
    };
    bounded(&text)
}

/// A text of an agent: short, and without control characters.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT);
    text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
