//! How runs end: timeouts, cancels, signals, and what becomes of the processes they started.

use std::time::Instant;

use drydock_protocol::agent::cancel_response::Answer;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::run_result::Outcome;
use drydock_protocol::agent::{self as wire, StartRequest, StreamName, Streams};

use crate::harness::{Agent, exited, is_alive, until};

/// Children of every kind: in the group, in a session of their own, twice forked, deaf to TERM.
const FAMILY: &str = r#"
sleep 1000 & echo $!
setsid sleep 1001 & echo $!
(setsid sh -c 'sleep 1002 & echo $!; exec sleep 1003' &) 
setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' &
"#;

async fn pids(agent: &Agent, request: &StartRequest, count: usize) -> Vec<i32> {
    let lines = async || {
        let text = agent.read_all(request, StreamName::Stdout).await;
        let text = String::from_utf8(text).unwrap();
        text.lines().filter_map(|line| line.parse::<i32>().ok()).collect::<Vec<_>>()
    };
    let end = Instant::now() + crate::harness::BOUND;
    loop {
        let found = lines().await;
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < end, "only {found:?}");
    }
}

#[tokio::test]
async fn b091_a_timeout_ends_the_whole_tree() {
    let agent = Agent::start().await;
    let request = StartRequest {
        timeout_ms: 700,
        grace_ms: 300,
        ..agent.script(&format!("{FAMILY} echo before; echo err >&2; wait; sleep 1004"))
    };
    agent.begin(&request).await;
    let pids = pids(&agent, &request, 4).await;
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    let result = agent.result(&request).await;
    let Some(Outcome::TimedOut(timed_out)) = &result.outcome else { panic!("{result:?}") };
    assert_eq!(timed_out.timeout_ms, 700);
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
    assert!((700..2500).contains(&result.duration_ms), "{}", result.duration_ms);
    assert_eq!(result.survivors, 0);
    // B093: what came before is there.
    assert!(String::from_utf8_lossy(&result.stdout.unwrap().head).contains("before"));
    assert_eq!(result.stderr.unwrap().head, b"err\n");
    assert_eq!(agent.outcome(&agent.argv(&["true"])).await, exited(0));
}

#[tokio::test]
async fn b094_term_answered_with_success_is_a_timeout() {
    let agent = Agent::start().await;
    let request =
        StartRequest { timeout_ms: 200, ..agent.script("trap 'exit 0' TERM; while :; do sleep 0.01; done") };
    let Outcome::TimedOut(timed_out) = agent.outcome(&request).await else { panic!("no timeout") };
    assert_eq!(timed_out.end, Some(wire::timed_out::End::Code(0)));
}

#[tokio::test]
async fn a_process_deaf_to_term_is_killed_after_the_grace() {
    let agent = Agent::start().await;
    let request = StartRequest {
        timeout_ms: 100,
        grace_ms: 200,
        ..agent.script("trap '' TERM; while :; do sleep 0.05; done")
    };
    let result = agent.run(&request).await;
    let Some(Outcome::TimedOut(timed_out)) = result.outcome else { panic!("{result:?}") };
    assert_eq!(timed_out.end, Some(wire::timed_out::End::Signal(9)));
    assert!((300..2000).contains(&result.exec_time_ms), "{}", result.exec_time_ms);
}

#[tokio::test]
async fn b080_a_cancel_ends_the_whole_tree() {
    let agent = Agent::start().await;
    let request = StartRequest { grace_ms: 100, ..agent.script(&format!("{FAMILY} sleep 1004")) };
    agent.begin(&request).await;
    let pids = pids(&agent, &request, 4).await;
    assert!(matches!(agent.cancel(&request).await, Answer::Cancelling(_)));
    assert!(matches!(agent.result(&request).await.outcome, Some(Outcome::Cancelled(_))));
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
    assert!(matches!(agent.cancel(&request).await, Answer::Result(_)));
}

#[tokio::test]
async fn a_cancel_right_after_the_start_is_never_lost() {
    let agent = Agent::start().await;
    for _ in 0..50 {
        let request = agent.argv(&["sleep", "1000"]);
        agent.begin(&request).await;
        agent.cancel(&request).await;
        assert!(matches!(agent.result(&request).await.outcome, Some(Outcome::Cancelled(_))));
    }
}

#[tokio::test]
async fn an_attempt_cancelled_before_it_came_never_runs() {
    let agent = Agent::start().await;
    let request = agent.argv(&["true"]);
    let Answer::Refusal(refusal) = agent.cancel(&request).await else { panic!("not refused") };
    assert_eq!(refusal.reason(), Reason::CancelledBeforeStart);
    let refusal = agent.try_begin(&request).await.unwrap_err();
    assert_eq!(refusal.reason(), Reason::CancelledBeforeStart);
}

#[tokio::test]
async fn children_that_outlive_the_main_process_are_killed() {
    let agent = Agent::start().await;
    let request = agent.script(&format!("{FAMILY} while [ $(jobs -p | wc -l) -lt 1 ]; do :; done; exit 5"));
    let result = agent.run(&request).await;
    assert_eq!(result.outcome, Some(exited(5)));
    let text = String::from_utf8(result.stdout.unwrap().head).unwrap();
    let pids: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(pids.len() >= 2 && pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
}

#[tokio::test]
async fn b075_a_daemon_that_holds_the_pipe_does_not_hold_the_run() {
    let agent = Agent::start().await;
    let daemon = "setsid sh -c 'while echo tick; do sleep 0.05; done' & echo $!; exit 3";
    let request = StartRequest { keep_background: true, ..agent.script(daemon) };
    let result = agent.run(&request).await;
    assert_eq!(result.outcome, Some(exited(3)));
    let text = String::from_utf8(result.stdout.unwrap().head).unwrap();
    let pid: i32 = text.lines().find_map(|line| line.parse().ok()).unwrap();
    // It goes on writing, and isn't ended by a broken pipe.
    let writes = || {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        io.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap().parse::<u64>().unwrap()
    };
    let now = writes();
    until(|| (writes() > now + 3).then_some(())).await;
    nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_signal_reaches_the_processes_group() {
    let agent = Agent::start().await;
    let request = agent.script("trap 'echo hup; exit 9' HUP; echo ready; while :; do sleep 0.01; done");
    agent.begin(&request).await;
    agent.wait_for_output(&request, "ready").await;
    let mut client = agent.client.clone();
    let signal = wire::SignalRequest { epoch: 1, run_uid: request.run_uid.clone(), attempt: 1, signal: 1 };
    assert_eq!(client.signal(signal.clone()).await.unwrap().into_inner().refusal, None);
    assert_eq!(agent.result(&request).await.outcome, Some(exited(9)));
    let refusal = client.signal(signal).await.unwrap().into_inner().refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::AlreadyEnded);
}

#[tokio::test]
async fn a_stray_term_to_the_runner_ends_nothing() {
    let agent = Agent::start().await;
    let request = agent.script("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; exit 4");
    assert_eq!(agent.outcome(&request).await, exited(4));
}

#[tokio::test]
async fn a_killed_runner_is_a_lost_run_and_leaves_nothing() {
    let agent = Agent::start().await;
    let request = agent.script("echo $$; echo $PPID; exec sleep 1000");
    agent.begin(&request).await;
    let pids = pids(&agent, &request, 2).await;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pids[1]), nix::sys::signal::Signal::SIGKILL).unwrap();
    let Some(Outcome::Lost(lost)) = agent.result(&request).await.outcome else { panic!("not lost") };
    assert_eq!(lost.reason, "RunnerGone");
    until(|| (!is_alive(pids[0])).then_some(())).await;
}

#[tokio::test]
async fn combined_streams_keep_their_order() {
    let agent = Agent::start().await;
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done";
    let request = StartRequest { streams: Streams::Combined.into(), ..agent.script(script) };
    let result = agent.run(&request).await;
    let expected: String = (1..10).map(|i| format!("o{i}\ne{i}\n")).collect();
    assert_eq!(result.stdout.unwrap().head, expected.as_bytes());
    assert_eq!(result.stderr.unwrap().bytes, 0);
}

#[tokio::test]
async fn the_agent_ends_everything_when_told_to() {
    let agent = Agent::start().await;
    let request = StartRequest { grace_ms: 100, ..agent.script(&format!("{FAMILY} sleep 1004")) };
    agent.begin(&request).await;
    let pids = pids(&agent, &request, 4).await;
    let status = agent.path().join(format!("runs/{}/1/status.json", request.run_uid));
    let supervisor = agent.pid();
    nix::sys::signal::kill(supervisor, nix::sys::signal::Signal::SIGTERM).unwrap();
    until(|| (!is_alive(supervisor.as_raw())).then_some(())).await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
    assert!(std::fs::read_to_string(status).unwrap().contains("cancelled"));
}
