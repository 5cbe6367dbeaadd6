//! Starts the agent in a folder of its own and talks to it over its socket.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::agent::attach_response::Event;
use drydock_protocol::agent::run_result::Outcome;
use drydock_protocol::agent::start_request::What;
use drydock_protocol::agent::{self as wire, Argv, RunResult, StartRequest};
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::transport::{Channel, Endpoint};

/// The binary under test: cargo's, or the one that the image gets.
pub(crate) static BINARY: LazyLock<String> = LazyLock::new(|| {
    let built = env!("CARGO_BIN_EXE_drydock-agent");
    std::env::var("DRYDOCK_AGENT_BINARY").unwrap_or_else(|_| built.to_owned())
});

/// Most time that anything here may take.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

static NEXT_UID: AtomicU32 = AtomicU32::new(1);

/// A running agent; ended, with all its runs, when dropped.
pub(crate) struct Agent {
    dir: tempfile::TempDir,
    supervisor: Child,
    pub(crate) client: AgentClient<Channel>,
    pub(crate) boot_id: String,
}

impl Agent {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[], &[]).await
    }

    pub(crate) async fn start_with(args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), args, env).await
    }

    pub(crate) async fn start_in(dir: tempfile::TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        let supervisor = Command::new(&*BINARY)
            .arg("--dir")
            .arg(dir.path())
            .arg("supervise")
            .args(args)
            .env_remove("DRYDOCK_AGENT_BINARY")
            .env("DRYDOCK_HEALTH_PORT", "0")
            .env_remove("TERM")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let identity = identity(dir.path());
        let client = connect(dir.path().join("agent.sock")).await;
        Self { boot_id: identity.boot_id, dir, supervisor, client }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.supervisor.id()).unwrap())
    }

    /// The pid of the `serve` that runs now, once there is one.
    pub(crate) async fn serve_pid(&self) -> Pid {
        until(|| {
            let children =
                std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
            let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
            pids.map(Pid::from_raw).find(|pid| cmdline(*pid).contains("serve"))
        })
        .await
    }

    /// A request for an argv, with a uid of its own.
    pub(crate) fn argv(&self, args: &[&str]) -> StartRequest {
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        StartRequest { what: Some(What::Argv(Argv { args })), ..self.request() }
    }

    /// A request for a script.
    pub(crate) fn script(&self, script: &str) -> StartRequest {
        StartRequest { what: Some(What::Script(script.into())), ..self.request() }
    }

    fn request(&self) -> StartRequest {
        StartRequest {
            epoch: 1,
            run_uid: format!("run-{}", NEXT_UID.fetch_add(1, Ordering::Relaxed)),
            attempt: 1,
            boot_id: self.boot_id.clone(),
            grace_ms: 2000,
            ..Default::default()
        }
    }

    /// Starts; panics on a refusal. Says whether it was known.
    pub(crate) async fn begin(&self, request: &StartRequest) -> wire::Started {
        match self.try_begin(request).await {
            Ok(started) => started,
            Err(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    pub(crate) async fn try_begin(&self, request: &StartRequest) -> Result<wire::Started, wire::Refusal> {
        let answer = self.client.clone().start(request.clone()).await.unwrap().into_inner().answer.unwrap();
        match answer {
            wire::start_response::Answer::Started(started) => Ok(started),
            wire::start_response::Answer::Refusal(refusal) => Err(refusal),
        }
    }

    /// Waits for the end of an attempt.
    pub(crate) async fn result(&self, request: &StartRequest) -> RunResult {
        let wait = wire::WaitRequest {
            epoch: request.epoch,
            run_uid: request.run_uid.clone(),
            attempt: request.attempt,
            timeout_ms: 30_000,
        };
        let until = Instant::now() + BOUND;
        loop {
            match self.client.clone().wait(wait.clone()).await.unwrap().into_inner().answer.unwrap() {
                wire::wait_response::Answer::Result(result) => return result,
                wire::wait_response::Answer::Running(_) if Instant::now() < until => {}
                other => panic!("no result: {other:?}"),
            }
        }
    }

    /// Starts and waits.
    pub(crate) async fn run(&self, request: &StartRequest) -> RunResult {
        self.begin(request).await;
        self.result(request).await
    }

    pub(crate) async fn outcome(&self, request: &StartRequest) -> Outcome {
        self.run(request).await.outcome.unwrap()
    }

    pub(crate) async fn cancel(&self, request: &StartRequest) -> wire::cancel_response::Answer {
        let cancel =
            wire::CancelRequest { epoch: 1, run_uid: request.run_uid.clone(), attempt: request.attempt };
        self.client.clone().cancel(cancel).await.unwrap().into_inner().answer.unwrap()
    }

    pub(crate) async fn hello(&self) -> wire::HelloResponse {
        self.client.clone().hello(wire::HelloRequest { epoch: 0 }).await.unwrap().into_inner()
    }

    /// A whole stream, gaps left out, by `ReadOutput`.
    pub(crate) async fn read_all(&self, request: &StartRequest, stream: wire::StreamName) -> Vec<u8> {
        let mut all = Vec::new();
        let mut offset = 0;
        loop {
            let read = wire::ReadOutputRequest {
                run_uid: request.run_uid.clone(),
                stream: stream.into(),
                from: Some(wire::read_output_request::From::Offset(offset)),
                ..Default::default()
            };
            let piece = self.client.clone().read_output(read).await.unwrap().into_inner();
            assert_eq!(piece.refusal, None);
            if piece.data.is_empty() {
                return all;
            }
            offset = piece.next_offset;
            all.extend_from_slice(&piece.data);
        }
    }

    /// The events of a run from its beginning.
    pub(crate) async fn attach(&self, request: &StartRequest) -> Attachment {
        let attach =
            wire::AttachRequest { run_uid: request.run_uid.clone(), wait_ms: 30_000, ..Default::default() };
        Attachment(self.client.clone().attach(attach).await.unwrap().into_inner())
    }

    /// Waits until a run has written this text to its standard output.
    pub(crate) async fn wait_for_output(&self, request: &StartRequest, text: &str) {
        let mut events = self.attach(request).await;
        let mut seen = Vec::new();
        while !seen.windows(text.len()).any(|part| part == text.as_bytes()) {
            match events.next().await {
                Event::Chunk(chunk) => seen.extend_from_slice(&chunk.data),
                Event::Attached(_) => {}
                other => panic!("{text:?} never came: {other:?}"),
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.supervisor.wait();
    }
}

/// The events of one `Attach`.
pub(crate) struct Attachment(tonic::Streaming<wire::AttachResponse>);

impl Attachment {
    pub(crate) async fn next(&mut self) -> Event {
        let next = tokio::time::timeout(BOUND, self.0.message()).await.expect("an event in time");
        next.unwrap().expect("an event before the end of the stream").event.unwrap()
    }

    /// Both streams and the result.
    pub(crate) async fn read_to_end(mut self) -> (Vec<u8>, Vec<u8>, RunResult) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next().await {
                Event::Chunk(chunk) if chunk.stream() == wire::StreamName::Stderr => {
                    stderr.extend(chunk.data);
                }
                Event::Chunk(chunk) => stdout.extend(chunk.data),
                Event::Attached(_) | Event::Gap(_) => {}
                Event::End(result) => return (stdout, stderr, result),
                Event::Refusal(refusal) => panic!("{refusal:?}"),
            }
        }
    }
}

/// What `identity` prints.
pub(crate) fn identity(dir: &Path) -> drydock_protocol::identity::Identity {
    let output = Command::new(&*BINARY).arg("--dir").arg(dir).arg("identity").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) async fn connect(socket: PathBuf) -> AgentClient<Channel> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://agent").connect_with_connector(connector).await.unwrap();
    AgentClient::new(channel).max_decoding_message_size(drydock_protocol::limits::MESSAGE)
}

pub(crate) fn cmdline(pid: Pid) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Looks until there is something, at most [`BOUND`].
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never came");
        tokio::task::yield_now().await;
    }
}

pub(crate) fn exited(code: i32) -> Outcome {
    Outcome::Exited(wire::Exited { code })
}

pub(crate) fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with('Z'))
}
