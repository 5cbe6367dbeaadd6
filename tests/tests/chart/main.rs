//! The Helm chart: linted, rendered over a matrix of values, and what it renders tried on a real API server with Pod Security `restricted`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

mod base;
mod helm;
mod matrix;
mod rights;

use drydock_cluster::{Cluster, Options};
use drydock_domain::settings::{Configuration, Settings, Span};
use serde_json::{Value, json};

use helm::Helm;

const NAMESPACE: &str = "drydock-system";

/// Kinds that only the Prometheus operator's definitions know.
const FOREIGN: &str = "monitoring.coreos.com/";

#[tokio::test]
async fn every_rendering_is_taken_by_the_api_server() {
    let helm = Helm::build().await;
    let cluster = Cluster::start(Options::api(format!("chart-{}", std::process::id()))).await.unwrap();
    for namespace in [NAMESPACE, "team-a", "team-b"] {
        cluster.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    let enforce =
        format!("--overwrite=true namespace {NAMESPACE} pod-security.kubernetes.io/enforce=restricted");
    let label: Vec<&str> = std::iter::once("label").chain(enforce.split(' ')).collect();
    cluster.kubectl(&label).await.unwrap();
    for case in matrix::CASES {
        helm.lint(case.values).await;
        let objects = helm.template(case.values).await;
        check(case.name, &objects);
        try_out(&cluster, case.name, &objects).await;
    }
    let base = helm.chart().replace("charts/drydock", "deploy/base");
    let kustomize = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", &base];
    cluster.kubectl(&kustomize).await.unwrap();
    installs_upgrades_and_leaves_data(&helm, &cluster).await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn values_that_mean_nothing_are_refused_by_name() {
    let helm = Helm::build().await;
    for (values, expected) in matrix::REFUSED {
        let refusal = helm.refusal(values).await;
        assert!(refusal.contains(expected), "{values}: {refusal}");
    }
}

#[tokio::test]
async fn the_values_say_what_the_controller_takes_for_granted() {
    let helm = Helm::build().await;
    let read = |objects: &[Value]| {
        let map = objects.iter().find(|o| o["kind"] == "ConfigMap").unwrap();
        let file: Value = serde_saphyr::from_str(map["data"]["config.yaml"].as_str().unwrap()).unwrap();
        Configuration::read(&file)
    };
    let defaults = read(&helm.template("{}").await).unwrap();
    assert_eq!(defaults.general, Settings::default());
    let all = read(&helm.template(matrix::WHOLE_CONFIGURATION).await).unwrap();
    assert_eq!(all.of("team-a").runs.max_concurrent_runs, 2);
    assert_eq!(all.of("team-b").runs.max_concurrent_runs, 8);
}

/// The reference has a row for every setting that the controller reads, with its default.
#[test]
fn every_setting_is_documented_with_its_default() {
    let page = include_str!("../../../docs/reference/configuration.md");
    let mut settings = Vec::new();
    leaves(&serde_json::to_value(Settings::default()).unwrap(), "", &mut settings);
    assert!(settings.len() > 15, "{settings:?}");
    for (path, default) in settings {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{path}` |")));
        match (row, &default) {
            (None, Value::Null) => assert!(page.contains(&format!("`{path}`")), "{path} isn't mentioned"),
            (None, _) => panic!("{path} has no row"),
            (Some(row), Value::Bool(_) | Value::Number(_)) => {
                assert!(row.contains(&format!("| `{default}` |")), "{row}: {default}");
            }
            (Some(row), Value::String(text)) => {
                let written = row.split('`').nth(3).unwrap();
                let same = serde_json::from_value::<Span>(json!(written)).map(|span| json!(span));
                assert!(written == text || same.is_ok_and(|span| span == default), "{row}: {default}");
            }
            (Some(_), _) => {}
        }
    }
}

/// The settings below `value` that hold no further ones.
fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value.as_object() {
        Some(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(member, &format!("{path}{dot}{name}"), found);
            }
        }
        None => found.push((path.to_owned(), value.clone())),
    }
}

#[tokio::test]
async fn images_are_named_by_digest_before_tag() {
    let helm = Helm::build().await;
    let objects = helm.template(matrix::DIGESTS).await;
    let digest = format!("sha256:{}", "a".repeat(64));
    for pod in objects.iter().filter_map(pod_of) {
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        assert_eq!(image, format!("registry.example.com/drydock/controller@{digest}"));
    }
    let text = serde_json::to_string(&objects).unwrap();
    assert!(text.contains(&format!("--agent-image=registry.example.com/drydock/agent@{digest}")));
}

/// An alert on a metric that nobody exports never fires.
#[tokio::test]
async fn alerts_are_on_metrics_that_the_controller_has() {
    let helm = Helm::build().await;
    let objects = helm.template(r#"{"metrics": {"prometheusRule": {"enabled": true}}}"#).await;
    let rule = objects.iter().find(|o| o["kind"] == "PrometheusRule").unwrap();
    let exported = include_str!("../../../controller/src/metrics.rs");
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    for alert in alerts {
        let expression = alert["expr"].as_str().unwrap();
        let metric = expression.split('{').next().unwrap().rsplit(['(', ' ']).next().unwrap();
        let name = metric.trim_end_matches("_total");
        assert!(exported.contains(&format!("\"{name}\"")), "{expression}: {name} isn't exported");
        assert!(alert["annotations"]["summary"].is_string() && alert["labels"]["severity"].is_string());
    }
    assert!(alerts.len() >= 4);
}

#[tokio::test]
async fn namespaced_mode_needs_no_right_in_the_cluster() {
    let helm = Helm::build().await;
    let objects = helm.template(matrix::NAMESPACED_ONLY).await;
    let cluster_wide: Vec<&str> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .filter(|kind| kind.starts_with("Cluster") || *kind == "CustomResourceDefinition")
        .collect();
    assert_eq!(cluster_wide, Vec::<&str>::new());
    let text = serde_json::to_string(&objects).unwrap();
    assert!(text.contains("--watch-namespace=team-a") && text.contains("--watch-namespace=team-b"));
}

/// What holds of every rendering, whatever the values.
fn check(case: &str, objects: &[Value]) {
    for object in objects {
        let name = format!("{case}: {} {}", object["kind"], object["metadata"]["name"]);
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "drydock", "{name}");
        if object["kind"] == "CustomResourceDefinition" && case != "definitions-go" {
            assert_eq!(object["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{name}");
        }
        for rule in object["rules"].as_array().into_iter().flatten() {
            least_privilege(&name, rule);
        }
        if let Some(pod) = pod_of(object) {
            let environment = pod["spec"]["containers"][0]["env"].as_array().unwrap();
            let mut names: Vec<&str> = environment.iter().map(|e| e["name"].as_str().unwrap()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{name}: a variable stands twice");
        }
    }
}

fn least_privilege(name: &str, rule: &Value) {
    let text = rule.to_string();
    assert!(!text.contains("\"*\""), "{name}: {text}");
    for word in ["nodes/proxy", "escalate", "\"bind\"", "impersonate", "serviceaccounts/token"] {
        assert!(!text.contains(word), "{name}: {text}");
    }
    let secrets = rule["resources"].as_array().unwrap().iter().any(|r| r == "secrets");
    if secrets && rule["resourceNames"].is_null() {
        let verbs: Vec<&str> =
            rule["verbs"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        assert!(verbs == ["get"] || verbs == ["create"], "{name}: {text}");
    }
}

/// The pod that a Deployment or Job makes.
fn pod_of(object: &Value) -> Option<Value> {
    let template = &object["spec"]["template"];
    template["spec"]["containers"].is_array().then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "try", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        })
    })
}

/// Every object and every pod that would come of it, against the API server's own schemas and Pod Security `restricted`.
async fn try_out(cluster: &Cluster, case: &str, objects: &[Value]) {
    let known = objects.iter().filter(|o| !o["apiVersion"].as_str().unwrap().starts_with(FOREIGN));
    let all: Vec<Value> = known.cloned().chain(objects.iter().filter_map(pod_of)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.json");
    std::fs::write(&file, list.to_string()).unwrap();
    let dry_run = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f"];
    let taken = cluster.kubectl(&[&dry_run[..], &[file.to_str().unwrap()]].concat()).await;
    assert!(taken.is_ok(), "{case}: {}", taken.unwrap_err());
}

/// Definitions and objects outlive the release; installing and upgrading touch nothing twice.
async fn installs_upgrades_and_leaves_data(helm: &Helm, cluster: &Cluster) {
    helm.on(cluster, &["install", "drydock", helm.chart(), "--namespace", NAMESPACE]).await;
    let wait = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
    cluster.kubectl(&wait).await.unwrap();
    cluster
        .apply(r#"{"apiVersion":"drydock.dev/v1alpha1","kind":"Workspace","metadata":{"name":"shop","namespace":"team-a"},"spec":{"source":{"upload":{}}}}"#)
        .await
        .unwrap();
    let versions = [
        "get",
        "crd,deployment,clusterrole",
        "-A",
        "-l",
        "app.kubernetes.io/part-of=drydock",
        "-o",
        "jsonpath={.items[*].metadata.resourceVersion}",
    ];
    let before = cluster.kubectl(&versions).await.unwrap();
    helm.on(cluster, &["upgrade", "drydock", helm.chart(), "--namespace", NAMESPACE]).await;
    assert_eq!(cluster.kubectl(&versions).await.unwrap(), before, "an upgrade to the same changes nothing");
    // No node runs the hook's job here; the uninstall with hooks is an end-to-end test.
    helm.on(cluster, &["uninstall", "drydock", "--no-hooks", "--namespace", NAMESPACE]).await;
    let left = cluster.kubectl(&["get", "workspace", "-n", "team-a", "-o", "name"]).await.unwrap();
    assert_eq!(left.trim(), "workspace.drydock.dev/shop");
    let deployments = cluster.kubectl(&["get", "deployment", "-n", NAMESPACE, "-o", "name"]).await.unwrap();
    assert_eq!(deployments, "");
}
