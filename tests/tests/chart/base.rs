//! The kustomize base is what the chart renders with its defaults. `make generate` writes it; otherwise a difference fails.

use std::fmt::Write;
use std::path::Path;

use super::helm::Helm;

const HEADER: &str = "# Rendered from charts/drydock by `make generate`.\n";

#[tokio::test]
async fn the_kustomize_base_is_what_the_chart_renders() {
    let helm = Helm::build().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base");
    let parts = [
        ("drydock.yaml", r#"{"uninstall": {"releaseFinalizers": false}, "crds": {"enabled": false}}"#),
        ("crds.yaml", r#"{"crds": {"keep": false}}"#),
    ];
    for (name, values) in parts {
        let rendered = without_helm(&helm.text(values).await, name == "crds.yaml");
        let file = folder.join(name);
        if std::env::var_os("DRYDOCK_GENERATE").is_some() {
            std::fs::write(&file, &rendered).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == rendered, "deploy/base/{name} differs from the chart: run `make generate`");
    }
}

/// The GitOps examples are YAML documents with a kind and a name, in the version of the chart.
#[test]
fn gitops_examples_are_objects_of_this_version() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/gitops");
    for name in ["argocd/application.yaml", "flux/release.yaml"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert!(objects.len() >= 2, "{name}");
        for object in objects {
            assert!(object["kind"].is_string() && object["metadata"]["name"].is_string(), "{name}: {object}");
        }
        let version = env!("CARGO_PKG_VERSION");
        let minor = version.rsplit_once('.').unwrap().0;
        assert!(text.contains(version) || text.contains(&format!("{minor}.x")), "{name} isn't for {version}");
    }
}

/// The documents that are definitions, or those that aren't, without the labels that mean something to Helm alone.
fn without_helm(rendered: &str, definitions: bool) -> String {
    let mut kept = String::from(HEADER);
    for document in rendered.split("---\n") {
        let lines: Vec<&str> = document
            .lines()
            .filter(|line| {
                let line = line.trim_start();
                !line.starts_with("helm.sh/chart: ")
                    && !line.starts_with("# Source: ")
                    && line != "app.kubernetes.io/managed-by: Helm"
            })
            .collect();
        let text = lines.join("\n");
        let is_definition = text.contains("kind: CustomResourceDefinition\n");
        if text.contains("\nkind: ") && is_definition == definitions {
            let _ = writeln!(kept, "---\n{}", text.trim_end());
        }
    }
    kept
}
