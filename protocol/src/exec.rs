//! The way to an agent through the API server: one `pods/exec`, over whose stdio the same HTTP/2 goes as over TLS.
//!
//! `drydock-agent session` joins its stdio to the agent's socket. Every wait has a deadline: dialling has one of its own, and
//! an open channel is kept alive by HTTP/2 pings, so a peer that went silent is noticed and an idle one isn't cut by a proxy.
//! Nothing is ever dialled again by itself: a channel that ended stays so, and its owner dials a new one. What a stream's
//! end means is said by the agent's answers alone, never by the exec's exit code.

mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::AttachParams;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

pub use stream::{ExecStream, Failure};

/// Bytes that a peer may send on one call before they are read.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all calls of a channel.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the dial to the open stream; for [`exec_output`] to its end.
    pub dial: Duration,
    /// Between two pings of an open channel.
    pub ping: Duration,
    /// From a ping to its answer.
    pub pong: Duration,
}

impl Default for Deadlines {
    /// 10 s each: below the shortest idle limits of proxies on the way.
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self { dial: ten, ping: ten, pong: ten }
    }
}

/// Why there is no channel, or no output.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The API server refused, or couldn't reach the pod's node. `kube::Error::Api` tells which.
    #[error("pods/exec failed")]
    Kube(#[source] Box<kube::Error>),
    /// Not done within the deadline.
    #[error("pods/exec not done within {}s", .0.as_secs_f32())]
    Deadline(Duration),
    /// HTTP/2 could not be begun on the open stream.
    #[error("no HTTP/2 over pods/exec")]
    Http2(#[source] tonic::transport::Error),
    /// The command failed, or the stream ended without saying how the command did.
    #[error("the command did not succeed")]
    Command(#[source] Failure),
    /// The command wrote more than allowed.
    #[error("the command wrote more than {0} bytes")]
    TooLong(usize),
}

impl From<kube::Error> for ExecError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Opens `command` in a container and joins to its stdin and stdout.
///
/// # Errors
/// [`ExecError::Kube`], [`ExecError::Deadline`]. A command that can't be started is told by the stream.
pub async fn exec_stream(
    client: &kube::Client,
    namespace: &str,
    pod: &str,
    container: &str,
    command: &[&str],
    deadlines: Deadlines,
) -> Result<ExecStream, ExecError> {
    let params = AttachParams {
        container: Some(container.to_owned()),
        stdin: true,
        stdout: true,
        stderr: true,
        ..AttachParams::default()
    };
    let request = kube::core::Request::new(Pod::url_path(&(), Some(namespace)))
        .exec(pod, command.iter().copied(), &params)
        .map_err(|e| ExecError::from(kube::Error::BuildRequest(e)))?;
    let connection = timeout(deadlines.dial, client.connect(request))
        .await
        .map_err(|_| ExecError::Deadline(deadlines.dial))??;
    let can_close = connection.supports_stream_close();
    Ok(ExecStream::new(connection.into_stream(), can_close))
}

/// A gRPC channel over `command` (`drydock-agent session`) in a container.
///
/// The channel never reconnects: once its stream ends, every call is answered `Unavailable`.
///
/// # Errors
/// [`ExecError::Kube`], [`ExecError::Deadline`], [`ExecError::Http2`]. A command that can't be started is the source of the
/// first call's error ([`Failure`]).
pub async fn exec_channel(
    client: kube::Client,
    namespace: &str,
    pod: &str,
    container: &str,
    command: &[&str],
    deadlines: Deadlines,
) -> Result<Channel, ExecError> {
    let stream = exec_stream(&client, namespace, pod, container, command, deadlines).await?;
    channel_over(stream, deadlines).await
}

/// HTTP/2 over an open stream.
async fn channel_over(stream: ExecStream, deadlines: Deadlines) -> Result<Channel, ExecError> {
    let failure = stream.failure();
    let mut stream = Some(stream);
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let once = stream.take().map(TokioIo::new);
        std::future::ready(once.ok_or_else(|| match failure.get() {
            Some(failure) => std::io::Error::other(failure.clone()),
            None => std::io::Error::other("the pods/exec stream has ended"),
        }))
    });
    // The address is never looked up: it only stands in the `:authority` of requests.
    Endpoint::from_static("http://agent")
        .http2_keep_alive_interval(deadlines.ping)
        .keep_alive_timeout(deadlines.pong)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_timeout(deadlines.dial)
        .connect_with_connector(connector)
        .await
        .map_err(ExecError::Http2)
}

/// Runs `command` in a container to its end and gives what it wrote to stdout.
///
/// # Errors
/// Every [`ExecError`] but `Http2`: nothing is given unless the command is known to have ended with 0.
pub async fn exec_output(
    client: &kube::Client,
    namespace: &str,
    pod: &str,
    container: &str,
    command: &[&str],
    limit: usize,
    deadlines: Deadlines,
) -> Result<Vec<u8>, ExecError> {
    let stream = exec_stream(client, namespace, pod, container, command, deadlines).await?;
    timeout(deadlines.dial, collect(stream, limit)).await.map_err(|_| ExecError::Deadline(deadlines.dial))?
}

async fn collect(mut stream: ExecStream, limit: usize) -> Result<Vec<u8>, ExecError> {
    let mut output = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = (&mut stream).take(most).read_to_end(&mut output).await;
    if output.len() > limit {
        return Err(ExecError::TooLong(limit));
    }
    read.map_err(|error| ExecError::Command(Failure::from_io(error)))?;
    Ok(output)
}
