//! What is fetched, from where, and how a failure is told.

use std::os::unix::fs::MetadataExt;

use drydock_protocol::checkout::{CheckoutReason, CheckoutReport, CheckoutSource, Submodules};

use crate::claim::Claim;
use crate::git_server::{GitServer, Repository, Rules};

const CONFIG: &str = "{ \"image\": \"debian\" /* a comment */ }";

fn shop(server: &GitServer) -> (Repository, String) {
    let repository = server.repository("shop");
    repository.write("services/api/.devcontainer/devcontainer.json", CONFIG);
    repository.write("services/web/.devcontainer.json", "{}");
    repository.write("README", "one\n");
    let commit = repository.push("one");
    (repository, commit)
}

fn found(report: &CheckoutReport) -> Vec<&str> {
    report.devcontainers.iter().map(|each| each.config_path.as_str()).collect()
}

fn reason(claim: &Claim) -> CheckoutReason {
    claim.try_checkout().error.unwrap().reason
}

#[test]
fn a_first_checkout_is_whole_owned_and_found() {
    let server = GitServer::start(Rules::default());
    let (_repository, commit) = shop(&server);
    let claim = Claim::new(&server.url("shop"));
    let report = claim.checkout();
    let revision = report.revision.clone().unwrap();
    assert_eq!((revision.name.as_str(), &revision.commit), ("main", &commit));
    let tree = report.tree.clone().unwrap();
    assert_eq!((tree.commit, tree.moved, tree.behind), (commit.clone(), true, None));
    assert!(report.discovered);
    let paths = ["services/api/.devcontainer/devcontainer.json", "services/web/.devcontainer.json"];
    assert_eq!(found(&report), paths);
    assert_eq!(report.devcontainers[0].content.as_deref(), Some(CONFIG));
    assert_eq!(report.devcontainers[0].sha256.len(), 64);
    for (path, mode) in
        [("tree", 0o2775), ("plans", 0o2775), ("tree/.git/objects", 0o2775), ("tree/services", 0o2775)]
    {
        let meta = std::fs::metadata(claim.path(path)).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1000, 1000, mode), "{path}");
    }
    assert_eq!(std::fs::metadata(claim.path("tree/README")).unwrap().mode() & 0o777, 0o664);
    // As a user finds it: a clone.
    assert_eq!(claim.git(&["status", "--porcelain", "--branch"]), "## main...origin/main");
    assert_eq!(claim.git(&["remote", "get-url", "origin"]), server.url("shop"));
    let again = claim.checkout();
    assert!(!again.tree.unwrap().moved);
    assert_eq!(again.devcontainers, report.devcontainers);
}

#[test]
fn every_kind_of_revision_is_found() {
    let server = GitServer::start(Rules::default());
    let (repository, first) = shop(&server);
    repository.git(&["tag", "-a", "v1", "-m", "v1"]);
    repository.git(&["checkout", "--quiet", "-b", "feat/x"]);
    repository.write("README", "feature\n");
    let feature = repository.push("feature");
    repository.git(&["checkout", "--quiet", "main"]);
    repository.write("README", "two\n");
    let second = repository.push("two");
    for (revision, commit, branch) in [
        (None, &second, "main"),
        (Some("main"), &second, "main"),
        (Some("feat/x"), &feature, "feat/x"),
        (Some("v1"), &first, "HEAD"),
        (Some("refs/tags/v1"), &first, "HEAD"),
        (Some("refs/heads/feat/x"), &feature, "feat/x"),
        (Some(first.as_str()), &first, "HEAD"),
        (Some(&first[..9]), &first, "HEAD"),
    ] {
        for depth in [None, Some(1)] {
            if depth.is_some() && revision == Some(&first[..9]) {
                continue;
            }
            let mut claim = Claim::new(&server.url("shop"));
            claim.source().revision = revision.map(str::to_owned);
            claim.source().depth = depth;
            let report = claim.checkout();
            assert_eq!(&report.tree.unwrap().commit, commit, "{revision:?} {depth:?}");
            assert_eq!(claim.git(&["rev-parse", "--abbrev-ref", "HEAD"]), branch, "{revision:?}");
            assert_eq!(claim.git(&["status", "--porcelain"]), "");
            let shallow = claim.git(&["rev-parse", "--is-shallow-repository"]);
            if commit != &first {
                assert_eq!(shallow == "true", depth.is_some(), "{revision:?} {depth:?}");
            }
        }
    }
}

#[test]
fn failures_are_typed() {
    let server = GitServer::start(Rules::default());
    shop(&server);
    let with = |revision: &str| {
        let mut claim = Claim::new(&server.url("shop"));
        claim.source().revision = Some(revision.to_owned());
        claim
    };
    assert_eq!(reason(&with("no-such-branch")), CheckoutReason::RevisionNotFound);
    assert_eq!(reason(&with(&"1234567890".repeat(4))), CheckoutReason::RevisionNotFound);
    assert_eq!(reason(&with("--upload-pack=x")), CheckoutReason::InvalidRevision);
    assert_eq!(reason(&Claim::new(&server.url("nothing"))), CheckoutReason::RepositoryNotFound);
    assert_eq!(reason(&Claim::new("file:///etc")), CheckoutReason::InvalidUrl);
    assert_eq!(reason(&Claim::new("ext::sh -c x")), CheckoutReason::InvalidUrl);
    assert_eq!(reason(&Claim::new("http://no-such-host.invalid/x")), CheckoutReason::SourceUnreachable);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(
        reason(&Claim::new(&format!("http://127.0.0.1:{closed}/x"))),
        CheckoutReason::SourceUnreachable
    );
    assert_eq!(reason(&Claim::new("ssh://git@127.0.0.1/x")), CheckoutReason::InvalidCredentials);
    let server = GitServer::start(Rules { redirect: Some("http://127.0.0.1:1".into()), ..Rules::default() });
    assert_eq!(reason(&Claim::new(&server.url("shop"))), CheckoutReason::Redirected);
}

#[test]
fn a_server_that_never_answers_ends_in_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut claim = Claim::new(&format!("http://127.0.0.1:{}/x", silent.local_addr().unwrap().port()));
    claim.spec.timeout_seconds = 1;
    assert_eq!(reason(&claim), CheckoutReason::Timeout);
}

fn secret(parts: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in parts {
        std::fs::write(folder.path().join(name), value).unwrap();
    }
    folder
}

#[test]
fn b121_a_password_reaches_its_server_and_nothing_else() {
    // dev:s3cret-pass-77
    let authorization = Some("ZGV2OnMzY3JldC1wYXNzLTc3".to_owned());
    let server = GitServer::start(Rules { authorization, ..Rules::default() });
    shop(&server);
    let mut claim = Claim::new(&server.url("shop"));
    assert_eq!(reason(&claim), CheckoutReason::AuthenticationFailed);
    let wrong = secret(&[("username", "dev"), ("password", "wrong-pass-66")]);
    claim.source().credentials = Some(wrong.path().to_str().unwrap().to_owned());
    let told = claim.try_checkout().error.unwrap();
    assert_eq!(told.reason, CheckoutReason::AuthenticationFailed);
    assert!(!told.message.contains("wrong-pass-66"));
    let right = secret(&[("username", "dev\n"), ("password", "s3cret-pass-77\n")]);
    claim.source().credentials = Some(right.path().to_str().unwrap().to_owned());
    let output = claim.output();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for text in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(text).contains("s3cret"));
    }
    let kept =
        std::process::Command::new("grep").args(["-rl", "s3cret"]).arg(claim.path("")).output().unwrap();
    assert!(kept.stdout.is_empty(), "{}", String::from_utf8_lossy(&kept.stdout));
}

#[test]
fn a_remote_alone_is_scanned_without_a_claim() {
    let server = GitServer::start(Rules::default());
    let (_repository, commit) = shop(&server);
    let mut claim = Claim::new(&server.url("shop"));
    claim.source().remote_only = true;
    let report = claim.checkout();
    assert_eq!(report.revision.as_ref().unwrap().commit, commit);
    assert_eq!((report.tree.as_ref(), found(&report).len()), (None, 2));
    assert_eq!(std::fs::read_dir(claim.path("")).unwrap().count(), 0);
}

#[test]
fn a_folder_is_scanned_as_it_stands_and_not_written_to() {
    let claim = Claim::with_source(CheckoutSource::Directory {});
    std::fs::create_dir_all(claim.path("a/.devcontainer")).unwrap();
    std::fs::write(claim.path("a/.devcontainer/devcontainer.json"), CONFIG).unwrap();
    let report = claim.checkout();
    assert_eq!(found(&report), ["a/.devcontainer/devcontainer.json"]);
    assert_eq!(std::fs::read_dir(claim.path("")).unwrap().count(), 1);
    let mut gone = claim;
    gone.spec.root.push_str("/no-such-folder");
    assert_eq!(reason(&gone), CheckoutReason::DirectoryNotFound);
}

#[test]
fn b071_submodules_are_checked_out_with_relative_urls_and_later_moved() {
    let authorization = Some("ZGV2OnMzY3JldC1wYXNzLTc3".to_owned());
    let server = GitServer::start(Rules { authorization, ..Rules::default() });
    let foreign = GitServer::start(Rules::default());
    let library = server.repository("lib");
    library.write("lib.txt", "one\n");
    let first = library.push("one");
    let other = foreign.repository("other");
    other.write("other.txt", "one\n");
    let other_commit = other.push("one");
    let (shop, _) = shop(&server);
    let url = foreign.url("other");
    shop.write(
        ".gitmodules",
        &format!(
            "[submodule \"lib\"]\n\tpath = libs/lib\n\turl = ../lib.git\n[submodule \"o\"]\n\tpath = o\n\turl = {url}\n"
        ),
    );
    let link = |path: &str, commit: &str| {
        shop.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")])
    };
    let commit = |message: &str| {
        shop.git(&["add", ".gitmodules"]);
        shop.git(&["commit", "--quiet", "-m", message]);
        shop.git(&["push", "--quiet", "origin", "main"]);
    };
    link("libs/lib", &first);
    link("o", &other_commit);
    commit("with submodules");
    let mut claim = Claim::new(&server.url("shop"));
    let right = secret(&[("username", "dev"), ("password", "s3cret-pass-77")]);
    claim.source().credentials = Some(right.path().to_str().unwrap().to_owned());
    assert_eq!(claim.checkout().notes, Vec::<String>::new());
    assert!(!claim.path("tree/libs/lib/lib.txt").exists());
    claim.source().submodules = Submodules::Recursive;
    claim.checkout();
    assert_eq!(claim.read("tree/libs/lib/lib.txt"), "one\n");
    assert_eq!(claim.read("tree/o/other.txt"), "one\n");
    assert_eq!(claim.git(&["status", "--porcelain"]), "");
    assert_eq!(claim.git(&["-C", "libs/lib", "rev-parse", "HEAD"]), first);
    assert!(foreign.seen.lock().unwrap().is_empty());

    library.write("lib.txt", "two\n");
    let second = library.push("two");
    link("libs/lib", &second);
    commit("moved");
    claim.checkout();
    assert_eq!(claim.read("tree/libs/lib/lib.txt"), "two\n");
    assert_eq!(claim.git(&["status", "--porcelain"]), "");
}
