//! When the tree follows, and that nobody's work is touched.

use drydock_protocol::checkout::{BehindReason, CheckoutReason, Living};

use crate::claim::Claim;
use crate::git_server::{GitServer, Repository, Rules};

struct Setting {
    _server: GitServer,
    repository: Repository,
    claim: Claim,
}

impl Setting {
    fn new() -> Self {
        let server = GitServer::start(Rules::default());
        let repository = server.repository("shop");
        repository.write("a.txt", "one\n");
        repository.write("b.txt", "one\n");
        repository.push("one");
        let claim = Claim::new(&server.url("shop"));
        claim.checkout();
        Self { _server: server, repository, claim }
    }

    fn advance(&self) -> String {
        self.repository.write("a.txt", "two\n");
        self.repository.push("two")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.claim.path("tree").join(path);
        std::fs::write(&path, text).unwrap();
        std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
    }

    /// Where it stays, and why.
    fn behind(&self, reason: BehindReason, text: &str) {
        let before = self.claim.git(&["rev-parse", "HEAD"]);
        let tree = self.claim.checkout().tree.unwrap();
        let Some(behind) = tree.behind.clone() else { panic!("it moved: {tree:?}") };
        assert_eq!((behind.reason, tree.moved, &tree.commit), (reason, false, &before));
        assert!(behind.message.contains(text), "{}", behind.message);
    }
}

#[test]
fn a_clean_tree_follows_and_keeps_what_git_does_not_know() {
    let setting = Setting::new();
    setting.write("untracked", "mine\n");
    let second = setting.advance();
    let tree = setting.claim.checkout().tree.unwrap();
    assert_eq!((tree.commit, tree.moved), (second, true));
    assert_eq!(setting.claim.read("tree/a.txt"), "two\n");
    assert_eq!(setting.claim.read("tree/untracked"), "mine\n");
    assert_eq!(
        setting.claim.git(&["status", "--porcelain", "--branch"]),
        "## main...origin/main\n?? untracked"
    );
}

#[test]
fn changed_and_staged_files_hold_it() {
    let setting = Setting::new();
    setting.advance();
    setting.write("b.txt", "mine\n");
    setting.behind(BehindReason::DirtyTree, "b.txt");
    setting.claim.git(&["add", "b.txt"]);
    setting.behind(BehindReason::DirtyTree, "b.txt");
    assert_eq!(setting.claim.read("tree/b.txt"), "mine\n");
    // The object store has it all the same.
    let newest = setting.claim.checkout().revision.unwrap().commit;
    assert_eq!(setting.claim.git(&["rev-parse", "origin/main"]), newest);
}

#[test]
fn an_unknown_file_in_the_way_holds_it() {
    let setting = Setting::new();
    setting.repository.write("new.txt", "theirs\n");
    setting.repository.push("new");
    setting.write("new.txt", "mine\n");
    setting.behind(BehindReason::DirtyTree, "new.txt");
    assert_eq!(setting.claim.read("tree/new.txt"), "mine\n");
}

#[test]
fn local_commits_hold_it_on_whatever_branch() {
    let setting = Setting::new();
    setting.write("b.txt", "mine\n");
    setting.claim.git(&["commit", "--quiet", "-am", "mine"]);
    setting.advance();
    setting.behind(BehindReason::LocalCommits, "main");
    // The branch would be moved, wherever HEAD is.
    setting.claim.git(&["checkout", "--quiet", "--detach", "HEAD~1"]);
    setting.behind(BehindReason::LocalCommits, "main");
}

#[test]
fn a_rewritten_remote_is_followed_when_nothing_is_local() {
    let setting = Setting::new();
    setting.repository.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    setting.repository.git(&["branch", "-D", "main"]);
    setting.repository.git(&["branch", "-m", "main"]);
    let rewritten = setting.advance();
    assert_eq!(setting.claim.checkout().tree.unwrap().commit, rewritten);
}

#[test]
fn an_operation_under_way_or_a_mount_holds_it() {
    let mut setting = Setting::new();
    setting.advance();
    let head = setting.claim.git(&["rev-parse", "HEAD"]);
    setting.write(".git/MERGE_HEAD", &head);
    setting.behind(BehindReason::DirtyTree, "MERGE_HEAD");
    std::fs::remove_file(setting.claim.path("tree/.git/MERGE_HEAD")).unwrap();
    setting.claim.spec.hold = Some("environment shop-api mounts it".into());
    setting.behind(BehindReason::Held, "shop-api");
    setting.claim.spec.hold = None;
    assert!(setting.claim.checkout().tree.unwrap().moved);
}

#[test]
fn a_move_that_was_cut_short_is_finished() {
    let setting = Setting::new();
    setting.write(".git/drydock-moving", "");
    setting.write("a.txt", "half\n");
    setting.write(".git/index.lock", "");
    let second = setting.advance();
    assert_eq!(setting.claim.checkout().tree.unwrap().commit, second);
    assert_eq!(setting.claim.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_unreachable_remote_leaves_what_there_is() {
    let mut setting = Setting::new();
    setting.repository.write(".devcontainer.json", "{}");
    setting.repository.push("configured");
    let commit = setting.claim.checkout().tree.unwrap().commit;
    setting.claim.source().url = "http://127.0.0.1:1/shop.git".into();
    let report = setting.claim.try_checkout();
    assert_eq!(report.error.unwrap().reason, CheckoutReason::SourceUnreachable);
    assert_eq!(
        (report.tree.unwrap().commit, report.discovered, report.devcontainers.len()),
        (commit, true, 1)
    );
}

#[test]
fn a_vanished_branch_vanishes_and_a_users_branch_stays() {
    let setting = Setting::new();
    setting.repository.git(&["checkout", "--quiet", "-b", "short"]);
    setting.repository.push("short");
    setting.repository.git(&["checkout", "--quiet", "main"]);
    setting.claim.checkout();
    setting.claim.git(&["branch", "mine"]);
    assert!(setting.claim.git(&["branch", "--all"]).contains("remotes/origin/short"));
    setting.repository.git(&["push", "--quiet", "origin", "--delete", "short"]);
    setting.claim.checkout();
    let branches = setting.claim.git(&["branch", "--all"]);
    assert!(!branches.contains("short") && branches.contains("mine"), "{branches}");
}

#[test]
fn what_belongs_to_nobody_is_swept() {
    let mut setting = Setting::new();
    for folder in ["plans/old", "runs/old", "runs/alive", "state/old"] {
        std::fs::create_dir_all(setting.claim.path(folder)).unwrap();
    }
    assert!(setting.claim.checkout().swept.is_empty());
    setting.claim.spec.living = Some(Living { plans: vec![], instances: vec!["alive".into()] });
    assert_eq!(setting.claim.checkout().swept, ["plans/old", "runs/old", "state/old"]);
    assert!(setting.claim.path("runs/alive").exists());
}
