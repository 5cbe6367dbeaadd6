//! The definitions as they are installed: what every schema must hold, what goes over the wire, and what rules refuse.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

mod generated;
mod lint;
mod rules;
mod sample;
mod wire;

use drydock_crds::definitions;
use serde_json::Value;

/// The definitions as JSON, each with its kind.
fn all() -> Vec<(String, Value)> {
    definitions()
        .unwrap()
        .into_iter()
        .map(|crd| (crd.spec.names.kind.clone(), serde_json::to_value(crd).unwrap()))
        .collect()
}

/// The schema of one kind.
fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}
