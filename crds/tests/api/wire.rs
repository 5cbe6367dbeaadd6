//! What the types send is what the schemas admit, and nothing of it is lost or null.

use drydock_crds::{
    ContainerInstance, DevcontainerInstance, ExecutionEnvironment, Plan, Project, Snapshot, Tool, ToolRun,
    Workspace,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::sample::{Fields, sample};
use super::{all, schema};

/// An object of `kind` with the given parts of it as the schema has them.
fn object(kind: &str, fields: Fields) -> Value {
    let crds = all();
    let (_, crd) = crds.iter().find(|(found, _)| found == kind).unwrap();
    let properties = &schema(crd)["properties"];
    json!({
        "apiVersion": "drydock.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "shop"},
        "spec": sample(&properties["spec"], fields),
        "status": sample(&properties["status"], fields),
    })
}

fn round_trip<K: Serialize + DeserializeOwned>(kind: &str, fields: Fields) {
    let before = object(kind, fields);
    let typed: K =
        serde_json::from_value(before.clone()).unwrap_or_else(|e| panic!("{kind}: {e} in {before:#}"));
    let after = serde_json::to_value(&typed).unwrap();
    let mut expected = before;
    if fields == Fields::Required {
        expected["status"]["observedGeneration"] = after["status"]["observedGeneration"].clone();
    }
    assert_eq!(after, expected, "{kind}");
    assert_eq!(nulls(&after, kind), Vec::<String>::new());
}

/// Paths at which a null stands outside of free-form JSON.
fn nulls(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Null => vec![path.to_owned()],
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(i, item)| nulls(item, &format!("{path}[{i}]"))).collect()
        }
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "any")
            .flat_map(|(name, member)| nulls(member, &format!("{path}.{name}")))
            .collect(),
        _ => Vec::new(),
    }
}

/// One test a kind, so that all failures show at once.
macro_rules! kinds {
    ($($name:ident: $kind:ident),* $(,)?) => {$(
        mod $name {
            use super::*;

            #[test]
            fn every_field_is_read_and_sent_as_it_was() {
                round_trip::<$kind>(stringify!($kind), Fields::All);
            }

            #[test]
            fn absent_fields_stay_absent() {
                round_trip::<$kind>(stringify!($kind), Fields::Required);
            }
        }
    )*};
}

kinds! {
    workspace: Workspace,
    devcontainer_instance: DevcontainerInstance,
    container_instance: ContainerInstance,
    execution_environment: ExecutionEnvironment,
    project: Project,
    plan: Plan,
    tool: Tool,
    tool_run: ToolRun,
    snapshot: Snapshot,
}

#[test]
fn a_status_that_nobody_wrote_is_read() {
    let mut object = object("ToolRun", Fields::Required);
    object["status"] = json!({"observedGeneration": -1});
    let run: ToolRun = serde_json::from_value(object).unwrap();
    assert_eq!(run.status.unwrap().observed_generation, -1);
}
