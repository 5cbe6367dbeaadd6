//! What is executed: arguments byte for byte, users, shells, environment, folders, and how a failure to execute is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use drydock_protocol::agent::cannot_execute::Stage;
use drydock_protocol::agent::run_result::Outcome;
use drydock_protocol::agent::start_request::What;
use drydock_protocol::agent::{
    Argv, CannotExecute, EnvironmentVariable, Signalled, StartRequest, StreamName,
};

use crate::harness::{Agent, exited};

fn cannot(outcome: Outcome) -> CannotExecute {
    match outcome {
        Outcome::CannotExecute(cannot) => cannot,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b052_arguments_arrive_byte_for_byte() {
    let agent = Agent::start().await;
    let args: Vec<Vec<u8>> = vec![
        b"a b".to_vec(),
        b"".to_vec(),
        b"$HOME".to_vec(),
        b"'\"`\\".to_vec(),
        b"x\ny\tz".to_vec(),
        b"*".to_vec(),
        b"-n".to_vec(),
        "\u{2615}".as_bytes().to_vec(),
        vec![0xff, 0xfe, 0x01],
        vec![b'x'; 100_000],
    ];
    let mut all = vec![b"printf".to_vec(), b"[%s]".to_vec()];
    all.extend(args.clone());
    let request = StartRequest { what: Some(What::Argv(Argv { args: all })), ..agent.argv(&["x"]) };
    assert_eq!(agent.outcome(&request).await, exited(0));
    let expected: Vec<u8> = args.iter().flat_map(|arg| [b"[".as_slice(), arg, b"]"].concat()).collect();
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, expected);
}

#[tokio::test]
async fn b079_what_cannot_be_executed_says_which_step_and_why() {
    let agent = Agent::start().await;
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "echo hi").unwrap();
    let broken = dir.path().join("broken");
    fs::write(&broken, "no program").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        (agent.argv(&["no-such-program"]), Stage::Exec, 127, "ENOENT"),
        (agent.argv(&["/no/such/program"]), Stage::Exec, 127, "ENOENT"),
        (agent.argv(&[plain.to_str().unwrap()]), Stage::Exec, 126, "EACCES"),
        (agent.argv(&["/tmp"]), Stage::Exec, 126, "EACCES"),
        (agent.argv(&[broken.to_str().unwrap()]), Stage::Exec, 126, "ENOEXEC"),
        (
            StartRequest { working_directory: "/no/dir".into(), ..agent.argv(&["true"]) },
            Stage::Chdir,
            125,
            "/no/dir",
        ),
        (
            StartRequest { user: "nobody-here".into(), ..agent.argv(&["true"]) },
            Stage::User,
            125,
            "nobody-here",
        ),
        (StartRequest { user: "0:no-group".into(), ..agent.argv(&["true"]) }, Stage::User, 125, "no-group"),
    ];
    for (request, stage, code, text) in cases {
        let told = cannot(agent.outcome(&request).await);
        assert_eq!((told.stage(), told.conventional_code), (stage, code), "{told:?}");
        assert!(told.message.contains(text), "{told:?}");
    }
    assert_eq!(agent.outcome(&agent.argv(&["true"])).await, exited(0));
}

#[tokio::test]
async fn every_exit_code_is_told() {
    let agent = Agent::start().await;
    for code in 0..=255 {
        assert_eq!(agent.outcome(&agent.script(&format!("exit {code}"))).await, exited(code));
    }
    assert_eq!(agent.outcome(&agent.script("exit 300")).await, exited(44));
}

#[tokio::test]
async fn every_signal_that_ends_a_process_is_told() {
    let agent = Agent::start().await;
    for signal in (1..=64).filter(|signal| ![17, 18, 19, 20, 21, 22, 23, 28, 32, 33].contains(signal)) {
        // Not the login shell: bash ignores QUIT.
        let request = agent.argv(&["sh", "-c", &format!("kill -{signal} $$")]);
        let outcome = agent.outcome(&request).await;
        assert_eq!(outcome, Outcome::Signalled(Signalled { signal }));
    }
}

#[tokio::test]
async fn a_run_is_executed_as_the_user_asked_for() {
    let agent =
        Agent::start_with(&["--user", "nobody"], &[("DRYDOCK_PORT", "0"), ("FROM_IMAGE", "yes")]).await;
    let script =
        "id -u; id -g; id -G; echo $HOME $USER $SHELL; pwd; env | grep -c DRYDOCK_; echo $FROM_IMAGE $TERM";
    let seen = async |user: &str| {
        let request =
            StartRequest { user: user.into(), working_directory: "/".into(), ..agent.script(script) };
        assert_eq!(agent.outcome(&request).await, exited(0));
        String::from_utf8(agent.read_all(&request, StreamName::Stdout).await).unwrap()
    };
    let nobody = "65534\n65534\n65534\n/nonexistent nobody /bin/sh\n/\n0\nyes dumb\n";
    assert_eq!(seen("").await, nobody);
    assert_eq!(seen("65534").await, nobody);
    assert_eq!(seen("12345").await, "12345\n0\n0\n/ 12345 /bin/sh\n/\n0\nyes dumb\n");
    assert_eq!(seen("12345:777").await, "12345\n777\n777\n/ 12345 /bin/sh\n/\n0\nyes dumb\n");
    assert_eq!(seen("root").await.lines().next(), Some("0"));
}

#[tokio::test]
async fn b078_a_script_is_run_by_a_shell_with_its_arguments() {
    let agent = Agent::start().await;
    let request = StartRequest {
        script_args: vec![b"a b".to_vec(), b"$x".to_vec()],
        ..agent.script("printf '%s|' \"$@\"; [ -x \"$SHELL\" ]")
    };
    assert_eq!(agent.outcome(&request).await, exited(0));
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, b"a b|$x|");
}

#[tokio::test]
async fn the_requests_environment_is_laid_over_the_containers() {
    let agent = Agent::start_with(&[], &[("LEFT", "image"), ("OVER", "image")]).await;
    let variable =
        |name: &str, value: &[u8]| EnvironmentVariable { name: name.into(), value: value.to_vec() };
    let request = StartRequest {
        env: vec![
            variable("OVER", b"run"),
            variable("BYTES", b"\xff\n'$(x)"),
            variable("PATH", b"/usr/bin:/bin"),
        ],
        ..agent.argv(&["printenv", "LEFT", "OVER", "BYTES", "PATH"])
    };
    assert_eq!(agent.outcome(&request).await, exited(0));
    let expected = b"image\nrun\n\xff\n'$(x)\n/usr/bin:/bin\n";
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, expected);
}

#[tokio::test]
async fn standard_input_is_whole_and_ends() {
    let agent = Agent::start().await;
    let stdin: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 7 % 256) as u8).collect();
    let request = StartRequest { stdin: stdin.clone(), ..agent.argv(&["cat"]) };
    assert_eq!(agent.outcome(&request).await, exited(0));
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, stdin);
    let nobody_reads = StartRequest { stdin, ..agent.argv(&["true"]) };
    assert_eq!(agent.outcome(&nobody_reads).await, exited(0));
    assert_eq!(agent.outcome(&agent.argv(&["cat"])).await, exited(0));
}

#[tokio::test]
async fn a_tool_begins_with_default_signals_and_no_foreign_descriptors() {
    let agent = Agent::start().await;
    let script = "import os, signal\n\
        print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))\n\
        status = open('/proc/self/status').read()\n\
        print([line for line in status.splitlines() if line.startswith(('SigBlk', 'SigIgn'))][0].split()[1].strip('0'))\n\
        print(os.getpgrp() == os.getpid() == os.getsid(0))";
    let request = agent.argv(&["/usr/bin/python3", "-S", "-c", script]);
    assert_eq!(agent.outcome(&request).await, exited(0));
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, b"[0, 1, 2, 3]\n\nTrue\n");
    let ignored = agent.argv(&["sh", "-c", "grep SigIgn /proc/self/status | tr -d '0\\t'"]);
    agent.run(&ignored).await;
    assert_eq!(agent.read_all(&ignored, StreamName::Stdout).await, b"SigIgn:\n");
}
