//! `serve` is killed while runs are under way: they go on, and each has its one result. Another boot is another matter.

use drydock_protocol::agent::run_result::Outcome;
use drydock_protocol::agent::{StartRequest, StreamName};
use nix::sys::signal::{Signal, kill};

use crate::at_most_once::reconnect;
use crate::harness::{Agent, exited};

#[tokio::test]
async fn serve_killed_in_the_middle_of_20_runs_loses_none_and_runs_none_twice() {
    let agent = Agent::start().await;
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let requests: Vec<StartRequest> = (0..20)
        .map(|number| {
            let (count, gate) = (dir.path().join(format!("n{number}")), gate.display());
            agent.script(&format!(
                "echo x >> {}; echo before; read _ < {gate}; echo after; exit {number}",
                count.display()
            ))
        })
        .collect();
    for request in &requests {
        agent.begin(request).await;
    }
    // The first half is known to be at the gate, the others are anywhere between fork and gate.
    for request in &requests[..10] {
        agent.wait_for_output(request, "before").await;
    }
    let mut agent = agent;
    for _ in 0..3 {
        let serve = agent.serve_pid().await;
        kill(serve, Signal::SIGKILL).unwrap();
        agent = reconnect(agent, serve).await;
    }
    let known = agent.hello().await.attempts;
    assert_eq!(known.len(), 20);
    for request in &requests {
        assert!(agent.begin(request).await.known);
    }
    // Opened for reading too: it doesn't wait for readers, and nothing written is lost.
    let mut open = std::fs::File::options().read(true).write(true).open(&gate).unwrap();
    std::io::Write::write_all(&mut open, "go\n".repeat(20).as_bytes()).unwrap();
    for (number, request) in requests.iter().enumerate() {
        let result = agent.result(request).await;
        assert_eq!(result.outcome, Some(exited(i32::try_from(number).unwrap())));
        assert_eq!(result.stdout.unwrap().head, b"before\nafter\n");
        assert_eq!(std::fs::read_to_string(dir.path().join(format!("n{number}"))).unwrap(), "x\n");
    }
}

#[tokio::test]
async fn a_run_found_again_can_be_cancelled_and_followed() {
    let agent = Agent::start().await;
    let request = agent.script("echo one; trap 'echo two; exit 7' TERM; while :; do sleep 0.01; done");
    agent.begin(&request).await;
    agent.wait_for_output(&request, "one").await;
    let serve = agent.serve_pid().await;
    kill(serve, Signal::SIGKILL).unwrap();
    let agent = reconnect(agent, serve).await;
    agent.wait_for_output(&request, "one").await;
    let following = agent.attach(&request).await;
    agent.cancel(&request).await;
    let (stdout, _, result) = following.read_to_end().await;
    assert_eq!(stdout, b"one\ntwo\n");
    assert!(matches!(result.outcome, Some(Outcome::Cancelled(_))));
}

#[tokio::test]
async fn a_run_of_another_boot_is_lost_and_its_output_is_still_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let agent = Agent::start_in(dir, &[], &[]).await;
    let request = agent.script("echo $$; exec sleep 1000");
    agent.begin(&request).await;
    agent.wait_for_output(&request, "\n").await;
    // A machine that is switched off: everybody at once.
    let mut all = vec![agent.pid()];
    let text = agent.read_all(&request, StreamName::Stdout).await;
    all.push(nix::unistd::Pid::from_raw(String::from_utf8(text).unwrap().trim().parse().unwrap()));
    let shim: serde_json::Value = serde_json::from_slice(
        &std::fs::read(path.join(format!("runs/{}/1/shim.json", request.run_uid))).unwrap(),
    )
    .unwrap();
    all.push(nix::unistd::Pid::from_raw(i32::try_from(shim["shim"]["pid"].as_i64().unwrap()).unwrap()));
    all.insert(1, agent.serve_pid().await);
    for pid in all {
        let _ = kill(pid, Signal::SIGKILL);
    }
    let copy = tempfile::tempdir().unwrap();
    std::fs::rename(path.join("runs"), copy.path().join("runs")).unwrap();
    drop(agent);

    let agent = Agent::start_in(copy, &[], &[]).await;
    let again = StartRequest { boot_id: agent.boot_id.clone(), ..request.clone() };
    let started = agent.begin(&again).await;
    assert!(started.known);
    let Some(Outcome::Lost(lost)) = agent.result(&request).await.outcome else { panic!("not lost") };
    assert_eq!(lost.reason, "OtherBoot");
    assert!(!agent.read_all(&request, StreamName::Stdout).await.is_empty());
}

#[tokio::test]
async fn an_attempt_without_a_journal_was_never_begun() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("runs/half-made/1")).unwrap();
    let agent = Agent::start_in(dir, &[], &[]).await;
    let request = StartRequest { run_uid: "half-made".into(), ..agent.argv(&["true"]) };
    assert!(!agent.begin(&request).await.known);
    assert_eq!(agent.result(&request).await.outcome, Some(exited(0)));
}
