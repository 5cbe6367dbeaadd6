//! Through the API server: `pods/exec`, which says by itself that it is this pod.

use domain::agent::PodRef;
use domain::pod::MAIN_CONTAINER;
use domain::render::AGENT_PATH;
use drydock_domain as domain;
use drydock_protocol::exec::{Deadlines, ExecError, exec_channel, exec_output};
use drydock_protocol::identity::Identity;
use kube::Client;
use tonic::transport::Channel;

/// Longest line that `identity` may print, in bytes.
const LINE: usize = 4096;

/// Why an exec came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecFailure {
    #[error("the agent wasn't reached through the API server")]
    Exec(#[from] ExecError),
    #[error("the agent's identity isn't understood")]
    Identity(#[source] serde_json::Error),
    #[error("the agent's identity isn't well formed")]
    Fingerprint,
}

/// Asks who the agent is. The answer is worth believing because of the way it came.
pub(super) async fn identity(client: &Client, pod: &PodRef) -> Result<Identity, ExecFailure> {
    let command = [AGENT_PATH, "identity", "--timeout", "8"];
    let deadlines = Deadlines::default();
    let line =
        exec_output(client, &pod.namespace, &pod.name, MAIN_CONTAINER, &command, LINE, deadlines).await?;
    let identity: Identity = serde_json::from_slice(&line).map_err(ExecFailure::Identity)?;
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if identity.fingerprint.len() == 64 && identity.fingerprint.chars().all(hex) {
        Ok(identity)
    } else {
        Err(ExecFailure::Fingerprint)
    }
}

/// A channel over one exec.
pub(super) async fn channel(client: &Client, pod: &PodRef) -> Result<Channel, ExecFailure> {
    let command = [AGENT_PATH, "session"];
    let deadlines = Deadlines::default();
    let (namespace, name) = (&pod.namespace, &pod.name);
    Ok(exec_channel(client.clone(), namespace, name, MAIN_CONTAINER, &command, deadlines).await?)
}
