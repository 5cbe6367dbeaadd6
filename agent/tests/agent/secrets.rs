//! What may be secret reaches the tool, and nothing else: no file, no argument list, no log.

use std::path::Path;
use std::process::Command;

use drydock_protocol::agent::{EnvironmentVariable, StartRequest, StreamName};

use crate::harness::{Agent, cmdline, exited};

fn holds(folder: &Path, needle: &str) -> bool {
    let status = Command::new("grep").args(["-rqs", "-e", needle]).arg(folder).status().unwrap();
    status.code() != Some(1)
}

#[tokio::test]
async fn b121_values_reach_no_disk_and_no_argument_list() {
    let agent = Agent::start().await;
    let (value, input) = ("k-77-value", "t-88-input");
    let request = StartRequest {
        env: vec![EnvironmentVariable { name: "API_KEY".into(), value: value.into() }],
        stdin: input.into(),
        ..agent.script("[ \"$API_KEY\" = k-77-val''ue ] && read -r line; [ \"$line\" = t-88-in''put ] && echo ready; read _ < $GATE")
    };
    let gate = agent.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut request = request;
    request.env.push(EnvironmentVariable { name: "GATE".into(), value: gate.to_str().unwrap().into() });
    agent.begin(&request).await;
    agent.wait_for_output(&request, "ready").await;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = cmdline(nix::unistd::Pid::from_raw(pid));
        assert!(!line.contains(value) && !line.contains(input), "{line}");
    }
    let runs = agent.path().join("runs");
    assert!(!holds(&runs, value) && !holds(&runs, input));
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(agent.result(&request).await.outcome, Some(exited(0)));
    assert!(!holds(&runs, value) && !holds(&runs, input));
    assert_eq!(agent.read_all(&request, StreamName::Stdout).await, b"ready\n");
}

#[tokio::test]
async fn the_agents_folder_is_closed_to_tools_of_other_users() {
    let agent = Agent::start().await;
    let folder = agent.path().to_str().unwrap();
    let request =
        StartRequest { user: "nobody".into(), working_directory: "/".into(), ..agent.argv(&["ls", folder]) };
    assert_eq!(agent.outcome(&request).await, exited(2));
}
