//! What the operator publishes: the ConfigMap `drydock-status` in its namespace.

use std::collections::BTreeMap;

use drydock_crds::project::HostPolicy;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::Value;

use crate::connection::Connection;
use crate::failure::{Asked, within};

/// Its name.
const NAME: &str = "drydock-status";

/// What of it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Key `runs.hostPolicy`.
    pub(crate) host_policy: HostPolicy,
    /// Key `environments.enabled`.
    pub(crate) devcontainers_enabled: bool,
    /// Key `version`: the controller's.
    pub(crate) version: Option<String>,
}

impl Default for Status {
    /// The operator's defaults.
    fn default() -> Self {
        Self { host_policy: HostPolicy::Allowed, devcontainers_enabled: true, version: None }
    }
}

/// Reads it.
///
/// # Errors
/// Why it can't be read, for people.
pub(crate) async fn status(connection: &Connection, namespace: &str) -> Result<Status, String> {
    let api = Api::<ConfigMap>::namespaced(connection.client.clone(), namespace);
    let asked = Asked { verb: "get", group: "", resource: "configmaps", name: Some(NAME), namespace };
    match within(connection.request_timeout, &asked, api.get_opt(NAME)).await {
        Ok(Some(found)) => Ok(parse(&found.data.unwrap_or_default(), &connection.namespace)),
        Ok(None) => Err(format!("no ConfigMap {NAME} in namespace {namespace}")),
        Err(failure) => Err(failure.headline.clone()),
    }
}

/// A key of the namespace (`namespaces.<name>.<key>`) goes before the general one; an absent key is the default.
fn parse(data: &BTreeMap<String, String>, namespace: &str) -> Status {
    let value = |key: &str| {
        let own = format!("namespaces.{namespace}.{key}");
        data.get(&own).or_else(|| data.get(key)).map(|text| text.trim().to_owned())
    };
    let mut status = Status::default();
    if let Some(policy) =
        value("runs.hostPolicy").and_then(|text| serde_json::from_value(Value::String(text)).ok())
    {
        status.host_policy = policy;
    }
    status.devcontainers_enabled = value("environments.enabled").is_none_or(|text| text != "false");
    status.version = value("version");
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespaces_own_value_goes_first() {
        let data: BTreeMap<String, String> = [
            ("runs.hostPolicy", "Forbidden"),
            ("namespaces.team.runs.hostPolicy", "OnRequest"),
            ("environments.enabled", "false\n"),
            ("version", "1.2.3"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
        let team = parse(&data, "team");
        assert_eq!((team.host_policy, team.devcontainers_enabled), (HostPolicy::OnRequest, false));
        assert_eq!(parse(&data, "other").host_policy, HostPolicy::Forbidden);
        assert_eq!(parse(&BTreeMap::new(), "x"), Status::default());
    }
}
