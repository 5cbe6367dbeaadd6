//! The definitions and the examples against a real API server: `kubectl apply -f crds/` is taken (only the server knows the cost budget of
//! rules), every good example is taken, and every bad one is refused with the message that it promises.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

use std::fs;
use std::path::{Path, PathBuf};

use drydock_cluster::{Cluster, Options};

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The YAML files of a folder, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a bad example must be refused with: the line `# expect: …`.
fn expected(path: &Path) -> String {
    let content = fs::read_to_string(path).unwrap();
    let line = content.lines().find_map(|line| line.strip_prefix("# expect: "));
    line.unwrap_or_else(|| panic!("{} has no line `# expect: …`", path.display())).to_owned()
}

async fn install(cluster: &Cluster) {
    cluster.kubectl(&["apply", "-f", text(&root().join("crds"))]).await.unwrap();
    let wait = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
    cluster.kubectl(&wait).await.unwrap();
}

#[tokio::test]
async fn good_examples_are_taken_and_bad_ones_refused_with_advice() {
    let cluster = Cluster::start(Options::api(format!("examples-{}", std::process::id()))).await.unwrap();
    install(&cluster).await;
    let try_out = ["create", "--dry-run=server", "--validate=strict", "-f"];
    for path in files("examples/quickstart").iter().chain(&files("examples/kinds")) {
        let taken = cluster.kubectl(&[&try_out[..], &[text(path)]].concat()).await;
        assert!(taken.is_ok(), "{}: {:?}", path.display(), taken.err());
    }
    let mut wrong = Vec::new();
    for path in files("examples/invalid") {
        let expected = expected(&path);
        match cluster.kubectl(&[&try_out[..], &[text(&path)]].concat()).await {
            Ok(_) => wrong.push(format!("{} was taken", path.display())),
            Err(error) if error.to_string().contains(&expected) => {}
            Err(error) => wrong.push(format!("{} lacks {expected:?}: {error}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    explains_every_kind(&cluster).await;
    applies_again_without_a_change(&cluster).await;
    cluster.stop().await.unwrap();
}

/// `kubectl explain` has a text for each kind, not the API server's placeholder.
async fn explains_every_kind(cluster: &Cluster) {
    for kind in ["ws", "dc", "ctr", "xenv", "proj", "plan", "tool", "trun", "snapshot"] {
        let explained = cluster.kubectl(&["explain", &format!("{kind}.spec")]).await.unwrap();
        assert!(explained.contains("DESCRIPTION:") && !explained.contains("<empty>"), "{kind}: {explained}");
    }
}

/// What a GitOps tool does all day: another apply of everything moves no resourceVersion. The second one does, where no controller runs: the
/// status that the schema defaults is stored by the first write after the create.
async fn applies_again_without_a_change(cluster: &Cluster) {
    let versions = [
        "get",
        "drydock",
        "-o",
        "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}",
    ];
    let folder = root().join("examples/kinds");
    let apply = ["apply", "--server-side", "-f", text(&folder)];
    cluster.kubectl(&apply).await.unwrap();
    cluster.kubectl(&apply).await.unwrap();
    let before = cluster.kubectl(&versions).await.unwrap();
    cluster.kubectl(&apply).await.unwrap();
    assert_eq!(cluster.kubectl(&versions).await.unwrap(), before);
    assert!(before.lines().count() >= 12, "{before}");
}
