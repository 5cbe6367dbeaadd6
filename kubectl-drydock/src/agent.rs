//! The agent of a run's environment, reached as the caller through one `pods/exec`.

use drydock_crds::reference::InstanceKind;
use drydock_crds::{ContainerInstance, DevcontainerInstance, InstanceStatus, ToolRun};
use drydock_domain::pod::MAIN_CONTAINER;
use drydock_domain::render::AGENT_PATH;
use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::exec::{Deadlines, ExecError, exec_channel};
use drydock_protocol::limits;
use tonic::transport::Channel;

use crate::connection::Connection;
use crate::failure::{Failure, chain};

/// The command that joins stdio to the agent's socket.
const SESSION: [&str; 2] = [AGENT_PATH, "session"];

/// Why the agent can't be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// There is no pod, or it isn't the one that the run was executed in.
    NoPod(String),
    /// The caller may not.
    Forbidden(String),
    /// It didn't work this time.
    Broken(String),
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NoPod(why) | Self::Forbidden(why) | Self::Broken(why)) = self;
        f.write_str(why)
    }
}

/// Dials the agent in the pod that the run's claim names.
pub(crate) async fn dial(
    connection: &Connection,
    run: &ToolRun,
) -> Result<AgentClient<Channel>, Unreachable> {
    let pod = pod_of(connection, run).await?;
    let channel = exec_channel(
        connection.client.clone(),
        &connection.namespace,
        &pod,
        MAIN_CONTAINER,
        &SESSION,
        Deadlines::default(),
    )
    .await
    .map_err(|error| unreachable(&error, &pod, &connection.namespace))?;
    Ok(AgentClient::new(channel).max_decoding_message_size(limits::MESSAGE))
}

fn unreachable(error: &ExecError, pod: &str, namespace: &str) -> Unreachable {
    if let ExecError::Kube(kube) = error
        && let kube::Error::Api(status) = &**kube
    {
        return match status.code {
            403 => Unreachable::Forbidden(format!("no right to create pods/exec in namespace {namespace}")),
            404 => Unreachable::NoPod(format!("pod {pod} is gone")),
            _ => Unreachable::Broken(status.message.clone()),
        };
    }
    Unreachable::Broken(chain(error))
}

/// The name of the pod that the run's claim names.
async fn pod_of(connection: &Connection, run: &ToolRun) -> Result<String, Unreachable> {
    let none = |why: &str| Unreachable::NoPod(why.to_owned());
    let status = run.status.as_ref();
    let claim = status.and_then(|s| s.claim.as_ref()).ok_or_else(|| none("it hasn't started"))?;
    let target = status.and_then(|s| s.route.as_ref()).and_then(|r| r.target.as_ref());
    let target = target.ok_or_else(|| none("it has no environment"))?;
    let read = |failure: Failure| match failure.reason.as_str() {
        "Forbidden" => Unreachable::Forbidden(failure.headline.clone()),
        "NotFound" => Unreachable::NoPod(failure.headline.clone()),
        _ => Unreachable::Broken(failure.headline.clone()),
    };
    let instance: Option<InstanceStatus> = match target.kind {
        InstanceKind::DevcontainerInstance => {
            connection.get::<DevcontainerInstance>(&target.name).await.map_err(read)?.status
        }
        InstanceKind::ContainerInstance => {
            connection.get::<ContainerInstance>(&target.name).await.map_err(read)?.status
        }
    };
    let instance = instance.unwrap_or_default();
    match (instance.pod_name, instance.pod_uid) {
        (Some(name), Some(uid)) if uid == claim.pod_uid => Ok(name),
        _ => Err(none("the environment that it ran in was stopped")),
    }
}
