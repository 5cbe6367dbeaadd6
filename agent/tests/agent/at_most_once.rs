//! One attempt, one execution: whatever is sent again, refused, sealed or fenced.

use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{self as wire, StartRequest, StreamName};

use crate::harness::{Agent, exited};

fn seal(agent: &Agent, epoch: u64) -> wire::SealRequest {
    wire::SealRequest { epoch, boot_id: agent.boot_id.clone() }
}

#[tokio::test]
async fn b097_a_repeated_start_runs_nothing_twice() {
    let agent = Agent::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("n");
    let request = agent.script(&format!("echo x >> {}", file.display()));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (mut client, request) = (agent.client.clone(), request.clone());
        all.spawn(async move { client.start(request).await.unwrap().into_inner().answer.unwrap() });
    }
    let mut new = 0;
    while let Some(answer) = all.join_next().await {
        match answer.unwrap() {
            wire::start_response::Answer::Started(started) => new += u32::from(!started.known),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(new, 1);
    let result = agent.result(&request).await;
    let again = agent.begin(&request).await;
    assert_eq!((again.known, again.result), (true, Some(result)));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
}

#[tokio::test]
async fn another_boot_or_an_older_leader_starts_nothing() {
    let agent = Agent::start().await;
    let request = agent.argv(&["true"]);
    let other_boot = StartRequest { boot_id: "another".into(), ..request.clone() };
    assert_eq!(agent.try_begin(&other_boot).await.unwrap_err().reason(), Reason::WrongBoot);
    let no_epoch = StartRequest { epoch: 0, ..request.clone() };
    assert_eq!(agent.try_begin(&no_epoch).await.unwrap_err().reason(), Reason::StaleEpoch);
    assert_eq!(
        agent.client.clone().hello(wire::HelloRequest { epoch: 5 }).await.unwrap().into_inner().refusal,
        None
    );
    assert_eq!(agent.try_begin(&request).await.unwrap_err().reason(), Reason::StaleEpoch);
    let request = StartRequest { epoch: 5, ..request };
    assert_eq!(agent.outcome(&request).await, exited(0));
    let old = agent.client.clone().hello(wire::HelloRequest { epoch: 4 }).await.unwrap().into_inner();
    assert_eq!(old.refusal.unwrap().reason(), Reason::StaleEpoch);
}

#[tokio::test]
async fn without_an_epoch_one_may_look_and_not_touch() {
    let agent = Agent::start().await;
    let request = agent.script("echo seen");
    agent.run(&request).await;
    let mut client = agent.client.clone();
    let stale = |refusal: Option<wire::Refusal>| assert_eq!(refusal.unwrap().reason(), Reason::StaleEpoch);
    stale(client.seal(seal(&agent, 0)).await.unwrap().into_inner().refusal);
    let unseal = wire::UnsealRequest { epoch: 0, boot_id: agent.boot_id.clone() };
    stale(client.unseal(unseal).await.unwrap().into_inner().refusal);
    let signal = wire::SignalRequest { run_uid: request.run_uid.clone(), attempt: 1, signal: 9, epoch: 0 };
    stale(client.signal(signal).await.unwrap().into_inner().refusal);
    let cancel = wire::CancelRequest { run_uid: request.run_uid.clone(), attempt: 1, epoch: 0 };
    let answer = client.cancel(cancel).await.unwrap().into_inner().answer.unwrap();
    assert!(
        matches!(answer, wire::cancel_response::Answer::Refusal(refusal) if refusal.reason() == Reason::StaleEpoch)
    );
    let wait = wire::WaitRequest { run_uid: request.run_uid.clone(), attempt: 1, ..Default::default() };
    let answer = client.wait(wait).await.unwrap().into_inner().answer.unwrap();
    assert!(
        matches!(answer, wire::wait_response::Answer::Refusal(refusal) if refusal.reason() == Reason::StaleEpoch)
    );
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, b"seen\n");
    assert_eq!(agent.attach(&request).await.read_to_end().await.0, b"seen\n");
    let later = client.run_hooks(wire::RunHooksRequest::default()).await.unwrap_err();
    assert_eq!(later.code(), tonic::Code::Unimplemented);
}

#[tokio::test]
async fn a_seal_waits_for_runs_and_refuses_starts_for_good() {
    let agent = Agent::start().await;
    let active = agent.script("echo ready; exec sleep 1000");
    agent.begin(&active).await;
    agent.wait_for_output(&active, "ready").await;
    let mut client = agent.client.clone();
    let refused = client.seal(seal(&agent, 1)).await.unwrap().into_inner();
    assert_eq!((refused.sealed, refused.active), (false, 1));
    assert_eq!(refused.refusal.unwrap().reason(), Reason::RunsActive);
    agent.cancel(&active).await;
    agent.result(&active).await;
    assert!(client.seal(seal(&agent, 1)).await.unwrap().into_inner().sealed);

    let late = agent.argv(&["true"]);
    assert_eq!(agent.try_begin(&late).await.unwrap_err().reason(), Reason::Sealed);
    assert!(agent.begin(&active).await.known);
    assert!(agent.hello().await.sealed);
    // The seal and the refusal outlive a `serve`.
    let serve = agent.serve_pid().await;
    nix::sys::signal::kill(serve, nix::sys::signal::Signal::SIGKILL).unwrap();
    let agent = reconnect(agent, serve).await;
    assert!(agent.hello().await.sealed);
    let unseal = wire::UnsealRequest { epoch: 1, boot_id: agent.boot_id.clone() };
    assert_eq!(agent.client.clone().unseal(unseal).await.unwrap().into_inner().refusal, None);
    assert_eq!(agent.try_begin(&late).await.unwrap_err().reason(), Reason::Sealed);
    let wait = wire::WaitRequest { epoch: 1, run_uid: late.run_uid.clone(), attempt: 1, timeout_ms: 1 };
    let answer = agent.client.clone().wait(wait).await.unwrap().into_inner().answer.unwrap();
    assert!(
        matches!(answer, wire::wait_response::Answer::Refusal(refusal) if refusal.reason() == Reason::Sealed)
    );
    let second = StartRequest { attempt: 2, ..late };
    assert_eq!(agent.outcome(&second).await, exited(0));
}

pub(crate) async fn reconnect(mut agent: Agent, old: nix::unistd::Pid) -> Agent {
    loop {
        let serve = agent.serve_pid().await;
        if serve != old {
            break;
        }
    }
    let identity = crate::harness::identity(agent.path());
    assert_eq!(identity.boot_id, agent.boot_id);
    agent.client = crate::harness::connect(agent.path().join("agent.sock")).await;
    agent
}

#[tokio::test]
async fn more_runs_than_the_agent_takes_are_told_so() {
    let agent = Agent::start_with(&["--max-runs", "2"], &[]).await;
    let runs = [agent.argv(&["sleep", "1000"]), agent.argv(&["sleep", "1000"])];
    for run in &runs {
        agent.begin(run).await;
    }
    let third = agent.argv(&["true"]);
    assert_eq!(agent.try_begin(&third).await.unwrap_err().reason(), Reason::TooMany);
    agent.cancel(&runs[0]).await;
    agent.result(&runs[0]).await;
    assert_eq!(agent.outcome(&third).await, exited(0));
}

#[tokio::test]
async fn an_invalid_request_is_told_and_leaves_nothing() {
    let agent = Agent::start().await;
    let request = StartRequest { run_uid: "../../x".into(), ..agent.argv(&["true"]) };
    assert_eq!(agent.try_begin(&request).await.unwrap_err().reason(), Reason::Invalid);
    assert_eq!(std::fs::read_dir(agent.path().join("runs")).unwrap().count(), 0);
}
