//! The contract's calls, each translated to what [`crate::runs`] offers. Every refusal is an answer; a transport error is
//! only what is not implemented, or a failure of the agent itself.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use drydock_protocol::agent::agent_server::Agent;
use drydock_protocol::agent::attempt_state::State;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{self as wire, Refusal};
use drydock_protocol::{PROTOCOL_VERSION, capability, limits};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::executables;
use super::read::read_output;
use crate::process::unix_ms;
use crate::runs::follow::follow;
use crate::runs::journal::refusal;
use crate::runs::record::RunRecord;
use crate::runs::registry::{Known, Registry};
use crate::runs::retention::Key;

/// Chunks on their way to one client.
const IN_FLIGHT: usize = 4;

type Answer<T> = Result<Response<T>, Status>;
type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
pub struct Service {
    registry: Arc<Registry>,
    executables: Vec<String>,
    container_id: String,
}

impl Service {
    /// Serves these runs.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            registry,
            executables: executables::find(std::env::var("PATH").ok().as_deref()),
            container_id: container_id(&own).unwrap_or_default(),
        }
    }

    fn attempts(&self) -> (Vec<wire::AttemptState>, bool) {
        let state = |key: Key, state: State| wire::AttemptState {
            run_uid: key.run_uid,
            attempt: key.attempt,
            state: state.into(),
        };
        let mut attempts: Vec<_> =
            self.registry.active().into_iter().map(|(key, _)| state(key, State::Running)).collect();
        let (finished, more) = self.registry.newest_finished(limits::HELLO_ATTEMPTS);
        for key in finished {
            match self.registry.find(&key) {
                Some(Known::Refused(_)) => attempts.push(state(key, State::Refused)),
                Some(_) => attempts.push(state(key, State::Finished)),
                None => {}
            }
        }
        (attempts, more)
    }

    async fn wait_for(
        &self,
        request: wire::WaitRequest,
    ) -> Result<Result<RunRecord, wire::Running>, Refusal> {
        self.registry.admit(request.epoch, true)?;
        let key = Key { run_uid: request.run_uid, attempt: request.attempt };
        match self.registry.find(&key) {
            None => Err(unknown()),
            Some(Known::Refused(refused)) => Err(refused.to_wire()),
            Some(Known::Finished(record)) => Ok(Ok(*record)),
            Some(Known::Active(run)) => {
                let timeout = match request.timeout_ms {
                    0 => limits::WAIT_MS,
                    asked => asked.min(limits::WAIT_MS),
                };
                let mut done = run.subscribe();
                let ended =
                    tokio::time::timeout(Duration::from_millis(timeout), done.wait_for(Option::is_some))
                        .await;
                let record = ended.ok().and_then(Result::ok).and_then(|record| record.as_deref().cloned());
                Ok(record.ok_or_else(|| run.to_wire()))
            }
        }
    }

    fn seal(&self, request: &wire::SealRequest) -> Result<(), (Refusal, usize)> {
        let alone = |refusal| (refusal, self.registry.active().len());
        self.registry.admit(request.epoch, true).map_err(alone)?;
        self.registry.check_boot(&request.boot_id).map_err(alone)?;
        self.registry.seal()
    }
}

#[tonic::async_trait]
impl Agent for Service {
    async fn hello(&self, request: Request<wire::HelloRequest>) -> Answer<wire::HelloResponse> {
        let refusal = self.registry.admit(request.into_inner().epoch, false).err();
        let (attempts, attempts_truncated) = self.attempts();
        let mut capabilities = vec![capability::RUNS.to_owned(), capability::SEAL.to_owned()];
        if nix::unistd::geteuid().is_root() {
            capabilities.push(capability::USER_SWITCH.to_owned());
        }
        Ok(Response::new(wire::HelloResponse {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: PROTOCOL_VERSION,
            boot_id: self.registry.boot_id().to_owned(),
            container_id: self.container_id.clone(),
            sealed: self.registry.is_sealed(),
            capabilities,
            attempts,
            attempts_truncated,
            executables: self.executables.clone(),
            now_ms: unix_ms(),
            refusal,
        }))
    }

    async fn start(&self, request: Request<wire::StartRequest>) -> Answer<wire::StartResponse> {
        let request = request.into_inner();
        let started = self.registry.admit(request.epoch, true).and_then(|()| self.registry.start(request));
        let answer = match started {
            Ok(known) => wire::start_response::Answer::Started(wire::Started {
                known: known.is_some(),
                result: known.and_then(|known| match known {
                    Known::Finished(record) => Some(record.to_wire()),
                    Known::Active(_) | Known::Refused(_) => None,
                }),
            }),
            Err(refusal) => wire::start_response::Answer::Refusal(refusal),
        };
        Ok(Response::new(wire::StartResponse { answer: Some(answer) }))
    }

    async fn wait(&self, request: Request<wire::WaitRequest>) -> Answer<wire::WaitResponse> {
        let answer = match self.wait_for(request.into_inner()).await {
            Ok(Ok(record)) => wire::wait_response::Answer::Result(record.to_wire()),
            Ok(Err(running)) => wire::wait_response::Answer::Running(running),
            Err(refusal) => wire::wait_response::Answer::Refusal(refusal),
        };
        Ok(Response::new(wire::WaitResponse { answer: Some(answer) }))
    }

    type AttachStream = Events<wire::AttachResponse>;

    async fn attach(&self, request: Request<wire::AttachRequest>) -> Answer<Self::AttachStream> {
        let request = request.into_inner();
        let (to, events) = mpsc::channel(IN_FLIGHT);
        match self.registry.admit(request.epoch, false) {
            Ok(()) => {
                tokio::spawn(follow(self.registry.clone(), request, to));
            }
            Err(refusal) => {
                let event = Some(wire::attach_response::Event::Refusal(refusal));
                // The channel is empty.
                let _ = to.try_send(Ok(wire::AttachResponse { event }));
            }
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(events))))
    }

    async fn read_output(
        &self,
        request: Request<wire::ReadOutputRequest>,
    ) -> Answer<wire::ReadOutputResponse> {
        let answer = read_output(&self.registry, &request.into_inner());
        let refused = |refusal| wire::ReadOutputResponse { refusal: Some(refusal), ..Default::default() };
        Ok(Response::new(answer.unwrap_or_else(refused)))
    }

    async fn signal(&self, request: Request<wire::SignalRequest>) -> Answer<wire::SignalResponse> {
        let request = request.into_inner();
        let key = Key { run_uid: request.run_uid, attempt: request.attempt };
        let sent = match self.registry.admit(request.epoch, true) {
            Ok(()) => self.registry.signal(&key, request.signal).await,
            Err(refusal) => Err(refusal),
        };
        Ok(Response::new(wire::SignalResponse { refusal: sent.err() }))
    }

    async fn cancel(&self, request: Request<wire::CancelRequest>) -> Answer<wire::CancelResponse> {
        let request = request.into_inner();
        let key = Key { run_uid: request.run_uid, attempt: request.attempt };
        let cancelled = self.registry.admit(request.epoch, true).and_then(|()| self.registry.cancel(&key));
        let answer = match cancelled {
            Ok(Known::Active(run)) => wire::cancel_response::Answer::Cancelling(run.to_wire()),
            Ok(Known::Finished(record)) => wire::cancel_response::Answer::Result(record.to_wire()),
            Ok(Known::Refused(refused)) => wire::cancel_response::Answer::Refusal(refused.to_wire()),
            Err(refusal) => wire::cancel_response::Answer::Refusal(refusal),
        };
        Ok(Response::new(wire::CancelResponse { answer: Some(answer) }))
    }

    async fn seal(&self, request: Request<wire::SealRequest>) -> Answer<wire::SealResponse> {
        let (refusal, active) = match Self::seal(self, &request.into_inner()) {
            Ok(()) => (None, 0),
            Err((refusal, active)) => (Some(refusal), active),
        };
        let active = u32::try_from(active).unwrap_or(u32::MAX);
        Ok(Response::new(wire::SealResponse { sealed: self.registry.is_sealed(), refusal, active }))
    }

    async fn unseal(&self, request: Request<wire::UnsealRequest>) -> Answer<wire::UnsealResponse> {
        let request = request.into_inner();
        let admitted = self.registry.admit(request.epoch, true);
        let unsealed = admitted
            .and_then(|()| self.registry.check_boot(&request.boot_id))
            .and_then(|()| self.registry.unseal());
        Ok(Response::new(wire::UnsealResponse { refusal: unsealed.err() }))
    }

    async fn input(&self, _: Request<Streaming<wire::InputRequest>>) -> Answer<wire::InputResponse> {
        Err(later())
    }

    async fn resize(&self, _: Request<wire::ResizeRequest>) -> Answer<wire::ResizeResponse> {
        Err(later())
    }

    async fn run_hooks(&self, _: Request<wire::RunHooksRequest>) -> Answer<wire::RunHooksResponse> {
        Err(later())
    }

    async fn save(&self, _: Request<wire::SaveRequest>) -> Answer<wire::SaveResponse> {
        Err(later())
    }

    async fn restore(&self, _: Request<wire::RestoreRequest>) -> Answer<wire::RestoreResponse> {
        Err(later())
    }

    type FilesStream = Events<wire::FilesResponse>;

    async fn files(&self, _: Request<Streaming<wire::FilesRequest>>) -> Answer<Self::FilesStream> {
        Err(later())
    }
}

fn later() -> Status {
    Status::unimplemented("this agent does not have this call: see HelloResponse.capabilities")
}

fn unknown() -> Refusal {
    refusal(Reason::UnknownRun, "this agent does not know the attempt")
}

/// The container's id, where the path of its cgroup shows it: the last 64 hex digits.
fn container_id(own_cgroups: &str) -> Option<String> {
    let id = |line: &str| {
        let last = line.rsplit('/').next()?;
        let last = last.strip_suffix(".scope").unwrap_or(last);
        let id = last.rsplit(['-', ':']).next()?;
        (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
    };
    own_cgroups.lines().find_map(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_of_the_usual_drivers() {
        let id = "0123456789abcdef".repeat(4);
        for line in [
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            format!("9:memory:/kubepods/burstable/pod1/{id}\n0::/"),
            format!("0::/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{id}"),
        ] {
            assert_eq!(container_id(&line).as_deref(), Some(id.as_str()), "{line}");
        }
        assert_eq!(container_id("0::/\n"), None);
    }
}
