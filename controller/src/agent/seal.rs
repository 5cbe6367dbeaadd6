//! Seals at an agent. `Done::Sealed(false)`: the channel, or the boot at its end, isn't what was thought.

use std::sync::Arc;

use drydock_domain::agent::{PodRef, SealFact};
use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{SealRequest, UnsealRequest};
use jiff::Timestamp;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::Hub;
use super::session::{CALL, Done, learn};

/// Asks an agent to refuse every further start of this boot.
pub(super) async fn seal(
    hub: Arc<Hub>,
    mut client: AgentClient<Channel>,
    pod: PodRef,
    boot_id: String,
) -> Done {
    let request = SealRequest { epoch: hub.epoch(), boot_id };
    let Ok(Ok(answer)) = timeout(CALL, client.seal(request)).await else {
        return Done::Sealed(false);
    };
    let answer = answer.into_inner();
    let refused = answer.refusal.as_ref().map(drydock_protocol::agent::Refusal::reason);
    let fact = match refused {
        None if answer.sealed => SealFact::Sealed,
        Some(Reason::RunsActive) => SealFact::RunsActive { at: Timestamp::now() },
        _ => return Done::Sealed(false),
    };
    learn(&hub, &pod, |facts| facts.seal = fact);
    Done::Sealed(true)
}

/// Takes a seal back.
pub(super) async fn unseal(
    hub: Arc<Hub>,
    mut client: AgentClient<Channel>,
    pod: PodRef,
    boot_id: String,
) -> Done {
    let request = UnsealRequest { epoch: hub.epoch(), boot_id };
    match timeout(CALL, client.unseal(request)).await {
        Ok(Ok(answer)) if answer.get_ref().refusal.is_none() => {
            learn(&hub, &pod, |facts| facts.seal = SealFact::Open);
            Done::Sealed(true)
        }
        _ => Done::Sealed(false),
    }
}
