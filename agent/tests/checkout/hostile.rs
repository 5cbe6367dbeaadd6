//! Repositories and trees that mean harm: nothing of theirs runs, nothing outside is read, no credential goes astray.

use std::os::unix::fs::symlink;

use drydock_protocol::checkout::{CheckoutReason, CheckoutSource, Omitted};

use crate::claim::Claim;
use crate::git_server::{GitServer, Rules, run};

#[test]
fn what_tools_wrote_into_the_git_folder_runs_nothing_and_gets_no_credential() {
    let authorization = Some("ZGV2OnMzY3JldC1wYXNzLTc3".to_owned());
    let server = GitServer::start(Rules { authorization, ..Rules::default() });
    let thief = GitServer::start(Rules::default());
    let repository = server.repository("shop");
    repository.write(".gitattributes", "* filter=evil diff=evil\n");
    repository.write("a.txt", "one\n");
    repository.push("one");
    let mut claim = Claim::new(&server.url("shop"));
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("username"), "dev").unwrap();
    std::fs::write(secret.path().join("password"), "s3cret-pass-77").unwrap();
    claim.source().credentials = Some(secret.path().to_str().unwrap().to_owned());
    claim.checkout();

    let marks = tempfile::tempdir().unwrap();
    run(&["chmod", "777", marks.path().to_str().unwrap()], marks.path());
    let mark = |name: &str| format!("touch {}/{name}", marks.path().display());
    for (name, value) in [
        ("core.fsmonitor", mark("fsmonitor")),
        ("core.sshCommand", mark("ssh")),
        ("core.pager", mark("pager")),
        ("core.hooksPath", marks.path().join("hooks").display().to_string()),
        ("filter.evil.smudge", mark("smudge")),
        ("filter.evil.clean", mark("clean")),
        ("filter.evil.process", mark("process")),
        ("filter.evil.required", "true".into()),
        ("credential.helper", format!("!{}", mark("helper"))),
        ("remote.origin.uploadpack", mark("uploadpack")),
        ("http.proxy", format!("http://127.0.0.1:{}", thief.port)),
        (&format!("url.{}.insteadOf", thief.url("x")), server.url("shop")),
    ] {
        claim.git(&["config", name, &value]);
    }
    for hooks in [marks.path().join("hooks"), claim.path("tree/.git/hooks")] {
        std::fs::create_dir_all(&hooks).unwrap();
        for hook in ["post-checkout", "reference-transaction", "post-index-change", "post-merge"] {
            std::fs::write(hooks.join(hook), format!("#!/bin/sh\n{}\n", mark(hook))).unwrap();
            run(&["chmod", "755", hooks.join(hook).to_str().unwrap()], marks.path());
        }
    }
    repository.write("a.txt", "two\n");
    let second = repository.push("two");
    let report = claim.checkout();
    assert_eq!(report.tree.unwrap().commit, second);
    assert_eq!(claim.read("tree/a.txt"), "two\n");
    let ran: Vec<_> =
        std::fs::read_dir(marks.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(ran, ["hooks"]);
    assert!(thief.seen.lock().unwrap().is_empty());
}

#[test]
fn b006_links_in_a_repository_are_followed_inside_only() {
    let server = GitServer::start(Rules::default());
    let repository = server.repository("links");
    repository.write("cfg/dev.json", "{\"image\":\"x\"}");
    symlink("cfg/dev.json", repository.path().join(".devcontainer.json")).unwrap();
    repository.write("out/keep", "");
    symlink("../../etc/passwd", repository.path().join("out/.devcontainer.json")).unwrap();
    repository.push("links");
    let report = Claim::new(&server.url("links")).checkout();
    let [inside, outside] = report.devcontainers.as_slice() else { panic!("{report:?}") };
    assert_eq!(inside.link_target.as_deref(), Some("cfg/dev.json"));
    assert_eq!(inside.content.as_deref(), Some("{\"image\":\"x\"}"));
    assert_eq!((outside.omitted, outside.content.as_ref()), (Some(Omitted::PathEscapesWorkspace), None));
    assert!(!serde_json::to_string(&report).unwrap().contains("root:"));
}

#[test]
fn large_and_odd_configurations_are_told() {
    let server = GitServer::start(Rules::default());
    let repository = server.repository("odd");
    repository.write("a/.devcontainer.json", &format!("{{\"x\":\"{}\"}}", "y".repeat(300_000)));
    repository.write("b/.devcontainer.json", &"y".repeat(1_100_000));
    std::fs::create_dir_all(repository.path().join("c")).unwrap();
    std::fs::write(repository.path().join("c/.devcontainer.json"), b"{\"a\": \xff}").unwrap();
    repository.push("odd");
    let report = Claim::new(&server.url("odd")).checkout();
    let omitted: Vec<_> = report.devcontainers.iter().map(|each| each.omitted.unwrap()).collect();
    assert_eq!(omitted, [Omitted::Large, Omitted::TooLarge, Omitted::NotUtf8]);
    assert_eq!(report.devcontainers[0].sha256.len(), 64);
    assert!(report.devcontainers[2].message.as_ref().unwrap().contains("byte 6"));
}

#[test]
fn b068_a_tree_that_is_not_ours_is_left_alone() {
    let server = GitServer::start(Rules::default());
    let repository = server.repository("shop");
    repository.write("a.txt", "theirs\n");
    repository.push("one");
    let foreign = |prepare: &dyn Fn(&Claim)| {
        let claim = Claim::new(&server.url("shop"));
        std::fs::create_dir_all(claim.path("tree")).unwrap();
        prepare(&claim);
        let error = claim.try_checkout().error.unwrap();
        assert_eq!(error.reason, CheckoutReason::ForeignTree, "{}", error.message);
        claim
    };
    let claim = foreign(&|claim| std::fs::write(claim.path("tree/a.txt"), "mine\n").unwrap());
    assert_eq!(claim.read("tree/a.txt"), "mine\n");
    foreign(&|claim| std::fs::write(claim.path("tree/.git"), "gitdir: /etc\n").unwrap());
    foreign(&|claim| symlink("/etc", claim.path("tree/.git")).unwrap());
    foreign(&|claim| {
        std::fs::create_dir_all(claim.path("tree/.git/refs")).unwrap();
        symlink("/etc", claim.path("tree/.git/objects")).unwrap();
    });
}

#[test]
fn a_specification_that_is_wrong_is_told() {
    let mut claim = Claim::with_source(CheckoutSource::Upload {});
    claim.spec.discovery.exclude = vec!["[".into()];
    assert_eq!(claim.try_checkout().error.unwrap().reason, CheckoutReason::InvalidSpec);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_drydock-agent"))
        .arg("checkout")
        .env_remove(drydock_protocol::checkout::SPEC_ENV)
        .output()
        .unwrap();
    assert!(!output.status.success() && String::from_utf8(output.stdout).unwrap().contains("InvalidSpec"));
}
