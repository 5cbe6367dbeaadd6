//! Output: every byte counted and hashed, what is kept and how it is read, and what it costs.

use drydock_protocol::agent::attach_response::Event;
use drydock_protocol::agent::read_output_response::Availability;
use drydock_protocol::agent::{self as wire, StartRequest, StreamName, read_output_request};
use sha2::{Digest, Sha256};

use crate::harness::{Agent, exited, until};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn resident_kib(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn b076_nothing_is_lost_between_exit_and_drain() {
    let agent = Agent::start().await;
    for _ in 0..100 {
        let request = agent.script("echo a; echo b >&2; exit 7");
        let result = agent.run(&request).await;
        assert_eq!(result.outcome, Some(exited(7)));
        assert_eq!(
            (result.stdout.unwrap().head, result.stderr.unwrap().head),
            (b"a\n".to_vec(), b"b\n".to_vec())
        );
    }
    let expected: String = (1..=20_000).map(|i| format!("{i}\n")).collect();
    for _ in 0..20 {
        let request = agent.argv(&["seq", "1", "20000"]);
        let summary = agent.run(&request).await.stdout.unwrap();
        assert_eq!(
            (summary.bytes, summary.lines, summary.sha256),
            (108_894, 20_000, sha256(expected.as_bytes()))
        );
        assert_eq!(agent.read_all(&request, StreamName::Stdout).await, expected.as_bytes());
    }
    for _ in 0..20 {
        let summary = agent.run(&agent.argv(&["printf", "x"])).await.stdout.unwrap();
        assert_eq!((summary.bytes, summary.lines, summary.head), (1, 1, b"x".to_vec()));
    }
}

#[tokio::test]
async fn b081_bytes_come_back_as_they_went() {
    let agent = Agent::start().await;
    let script = "import os,sys\n\
        d = bytes(range(256)) * 4000\n\
        sys.stdout.buffer.write(d); sys.stdout.flush()\n\
        os.write(2, '\u{2615}'.encode()[:1]); os.write(2, '\u{2615}'.encode()[1:]); os.write(2, b'\\xff\\x00')";
    let request = agent.argv(&["/usr/bin/python3", "-c", script]);
    let result = agent.run(&request).await;
    let expected: Vec<u8> = (0..4000).flat_map(|_| 0..=255_u8).collect();
    assert!(agent.read_all(&request, StreamName::Stdout).await == expected);
    assert_eq!(result.stdout.unwrap().sha256, sha256(&expected));
    assert_eq!(
        agent.read_all(&request, StreamName::Stderr).await,
        "\u{2615}".bytes().chain([0xff, 0]).collect::<Vec<_>>()
    );
    let (stdout, _, _) = agent.attach(&request).await.read_to_end().await;
    assert!(stdout == expected);
}

#[tokio::test]
async fn b086_a_gibibyte_is_counted_and_hashed_and_its_ends_are_kept() {
    let agent = Agent::start().await;
    let limit = 1 << 20;
    let request = StartRequest {
        output_limit: limit,
        ..agent.script("printf BEGIN; head -c 1073741824 /dev/zero; echo; echo END; exit 3")
    };
    let result = agent.run(&request).await;
    assert_eq!(result.outcome, Some(exited(3)));
    let summary = result.stdout.unwrap();
    let mut hash = Sha256::new();
    hash.update(b"BEGIN");
    (0..1024).for_each(|_| hash.update(vec![0; 1 << 20]));
    hash.update(b"\nEND\n");
    let expected: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((summary.bytes, summary.lines, summary.sha256), ((1 << 30) + 10, 2, expected));
    assert!(summary.truncated && summary.head.starts_with(b"BEGIN") && summary.tail.ends_with(b"\nEND\n"));
    assert!(summary.head.len() + summary.tail.len() <= 4096);
    let kept = agent.read_all(&request, StreamName::Stdout).await;
    assert_eq!(kept.len() as u64, limit);
    assert!(kept.starts_with(b"BEGIN") && kept.ends_with(b"\nEND\n"));
    let mut events = agent.attach(&request).await;
    let gap = loop {
        match events.next().await {
            Event::Gap(gap) => break gap,
            Event::Chunk(_) | Event::Attached(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(gap.to - gap.from, summary.bytes - limit);
    let on_disk =
        std::fs::metadata(agent.path().join(format!("runs/{}/1/stdout", request.run_uid))).unwrap().len();
    assert!(on_disk <= limit);
    let serve = agent.serve_pid().await;
    assert!(resident_kib(serve) < 32 * 1024, "{} KiB", resident_kib(serve));
}

#[tokio::test]
async fn output_is_read_by_line() {
    let agent = Agent::start().await;
    let request = agent.argv(&["seq", "1", "1000"]);
    agent.run(&request).await;
    let read = async |line, max_lines| {
        let read = wire::ReadOutputRequest {
            run_uid: request.run_uid.clone(),
            stream: StreamName::Stdout.into(),
            from: Some(read_output_request::From::Line(line)),
            max_lines,
            ..Default::default()
        };
        agent.client.clone().read_output(read).await.unwrap().into_inner()
    };
    let piece = read(500, 2).await;
    assert_eq!((piece.data.as_slice(), piece.availability()), (b"500\n501\n".as_slice(), Availability::Full));
    assert_eq!(read(1001, 1).await.data, b"");
    assert!(read(1, 0).await.data.ends_with(b"\n1000\n"));
}

#[tokio::test]
async fn b098_output_is_followed_live_and_found_again_by_offset() {
    let agent = Agent::start().await;
    let request =
        agent.script("i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); sleep 0.005; done; exit 6");
    // Asked for before it is there.
    let (stdout, _, result) = {
        let attached = agent.attach(&request);
        let (following, _) = tokio::join!(attached, agent.begin(&request));
        following.read_to_end().await
    };
    let expected: String = (0..50).map(|i| format!("line {i}\n")).collect();
    assert_eq!(stdout, expected.as_bytes());
    assert_eq!(result.outcome, Some(exited(6)));
    let from =
        wire::AttachRequest { run_uid: request.run_uid.clone(), stdout_offset: 100, ..Default::default() };
    let mut events = agent.client.clone().attach(from).await.unwrap().into_inner();
    events.message().await.unwrap();
    let Some(Event::Chunk(chunk)) = events.message().await.unwrap().unwrap().event else {
        panic!("no chunk")
    };
    assert_eq!((chunk.offset, chunk.data.as_slice()), (100, &expected.as_bytes()[100..]));
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_up_nobody() {
    let agent = Agent::start().await;
    let request = agent.script("head -c 50000000 /dev/zero");
    let unread = agent.attach(&request);
    let (unread, _) = tokio::join!(unread, agent.begin(&request));
    assert_eq!(agent.result(&request).await.outcome, Some(exited(0)));
    drop(unread);
}

#[tokio::test]
async fn what_is_kept_of_finished_runs_is_bounded() {
    let agent = Agent::start_with(&["--keep-outputs", "3"], &[]).await;
    let mut requests = Vec::new();
    for number in 0..6 {
        let request = agent.script(&format!("echo {number}"));
        agent.run(&request).await;
        requests.push(request);
    }
    let read = |request: &StartRequest| wire::ReadOutputRequest {
        run_uid: request.run_uid.clone(),
        stream: StreamName::Stdout.into(),
        ..Default::default()
    };
    let oldest = agent.client.clone().read_output(read(&requests[0])).await.unwrap().into_inner();
    assert_eq!((oldest.availability(), oldest.data.len(), oldest.total), (Availability::Preview, 0, 2));
    assert_eq!(agent.result(&requests[0]).await.stdout.unwrap().head, b"0\n");
    assert!(agent.begin(&requests[0]).await.known);
    let newest = agent.client.clone().read_output(read(&requests[5])).await.unwrap().into_inner();
    assert_eq!((newest.availability(), newest.data.as_slice()), (Availability::Full, b"5\n".as_slice()));
    let unknown = StartRequest { run_uid: "never".into(), ..requests[0].clone() };
    let gone = agent.client.clone().read_output(read(&unknown)).await.unwrap().into_inner();
    assert_eq!(gone.availability(), Availability::Gone);
}

#[tokio::test]
async fn a_full_disk_costs_output_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().to_str().unwrap().to_owned();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "drydock-test", &small]);
    assert!(mount.status().unwrap().success());
    let agent = Agent::start_in(dir, &[], &[]).await;
    let request = agent.script("head -c 3000000 /dev/zero; exit 8");
    let result = agent.run(&request).await;
    let unmount = || std::process::Command::new("umount").args(["-l", &small]).status().unwrap();
    unmount();
    let summary = result.stdout.unwrap();
    assert!(summary.truncated);
    assert_eq!((result.outcome, summary.bytes), (Some(exited(8)), 3_000_000));
}

#[tokio::test]
async fn ten_thousand_quick_runs_do_not_grow_the_agent() {
    let agent = Agent::start_with(&["--keep-outputs", "200"], &[]).await;
    let serve = agent.serve_pid().await;
    let batch = async |runs: usize| {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let mut client = agent.client.clone();
            let requests: Vec<_> = (0..runs / 16).map(|_| agent.argv(&["true"])).collect();
            all.spawn(async move {
                for request in requests {
                    let wait = wire::WaitRequest {
                        epoch: 1,
                        run_uid: request.run_uid.clone(),
                        attempt: 1,
                        timeout_ms: 0,
                    };
                    client.start(request).await.unwrap();
                    client.wait(wait).await.unwrap();
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    };
    let idle = resident_kib(serve);
    assert!(idle < 16 * 1024, "{idle} KiB");
    batch(2000).await;
    let before = resident_kib(serve);
    batch(8000).await;
    let after = until(|| Some(resident_kib(serve))).await;
    assert!(after < before + 2048, "from {before} to {after} KiB");
}
