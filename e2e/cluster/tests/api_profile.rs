//! The `api` profile, from nothing to nothing.

use std::fs;
use std::time::{Duration, Instant};

use drydock_cluster::{Cluster, Error, Options};

/// The processes that have `text` in their environment.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let environment = fs::read(path.join("environ")).ok()?;
            let found = environment.windows(text.len()).any(|window| window == text.as_bytes());
            found.then(|| fs::read_to_string(path.join("cmdline")).unwrap_or_default())
        })
        .collect()
}

fn name(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

#[tokio::test]
async fn serves_objects_and_leaves_no_process() {
    let name = name("api");
    let cluster = Cluster::start(Options::api(&name)).await.unwrap();
    let folder = cluster.kubeconfig().parent().unwrap().to_owned();
    let mark = format!("DRYDOCK_CLUSTER_FOLDER={}\0", folder.display());
    assert_eq!(processes_with(&mark).len(), 2, "etcd and the API server run");

    cluster.kubectl(&["create", "namespace", "shop"]).await.unwrap();
    let found = cluster.kubectl(&["get", "namespace", "shop", "-o", "name"]).await.unwrap();
    assert_eq!(found.trim(), "namespace/shop");
    let twice = Cluster::start(Options::api(&name)).await;
    assert!(matches!(twice, Err(Error::Invalid { .. })), "a running cluster is not replaced");

    cluster.stop().await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    assert!(!folder.exists());
    assert!(matches!(Cluster::attach(&name), Err(Error::NotRunning { .. })));
}

#[tokio::test]
async fn two_live_side_by_side_and_a_start_after_the_first_is_quick() {
    let first = Cluster::start(Options::api(name("left"))).await.unwrap();
    let started = Instant::now();
    let second = Cluster::start(Options::api(name("right"))).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    first.kubectl(&["create", "namespace", "only-left"]).await.unwrap();
    let seen = second.kubectl(&["get", "namespaces", "-o", "name"]).await.unwrap();
    assert!(!seen.contains("only-left"), "{seen}");
}

#[tokio::test]
async fn a_failed_start_shows_the_log_and_leaves_no_process() {
    let mut options = Options::api(name("bad"));
    options.api_server_arguments.push("--no-such-flag".to_owned());
    let name = options.name.clone();
    let error = Cluster::start(options).await.unwrap_err();
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    assert!(matches!(Cluster::attach(&name), Err(Error::NotRunning { .. })));
    drydock_cluster::down(&name).await.unwrap();
    assert!(!drydock_cluster::names().unwrap().contains(&name));
}
