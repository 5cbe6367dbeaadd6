//! The properties that the specification has.

use serde_json::Value;

/// Every property of a `devcontainer.json`, old ones too. Source: the specification's JSON schema and reference page.
pub const KNOWN_PROPERTIES: &[&str] = &[
    "$schema",
    "appPort",
    "build",
    "capAdd",
    "containerEnv",
    "containerUser",
    "context",
    "customizations",
    "devPort",
    "dockerComposeFile",
    "dockerFile",
    "extensions",
    "features",
    "forwardPorts",
    "hostRequirements",
    "image",
    "init",
    "initializeCommand",
    "mounts",
    "name",
    "onCreateCommand",
    "otherPortsAttributes",
    "overrideCommand",
    "overrideFeatureInstallOrder",
    "portsAttributes",
    "postAttachCommand",
    "postCreateCommand",
    "postStartCommand",
    "privileged",
    "remoteEnv",
    "remoteUser",
    "runArgs",
    "runServices",
    "secrets",
    "securityOpt",
    "service",
    "settings",
    "shutdownAction",
    "updateContentCommand",
    "updateRemoteUserUID",
    "userEnvProbe",
    "waitFor",
    "workspaceFolder",
    "workspaceMount",
];

/// The members of a property that is an object of fixed members; none where its members are the user's own.
#[must_use]
pub fn known_members(property: &str) -> Option<&'static [&'static str]> {
    match property {
        "build" => Some(&["args", "cacheFrom", "context", "dockerfile", "options", "target"]),
        "hostRequirements" => Some(&["cpus", "gpu", "memory", "storage"]),
        "otherPortsAttributes" => {
            Some(&["elevateIfNeeded", "label", "onAutoForward", "protocol", "requireLocalPort"])
        }
        _ => None,
    }
}

/// The keys of a configuration that aren't among them, in the order written: `key`, or `property.key`.
pub(crate) fn unknown(config: &Value) -> impl Iterator<Item = String> {
    config.as_object().into_iter().flatten().flat_map(|(name, value)| {
        let known = KNOWN_PROPERTIES.contains(&name.as_str());
        let inside =
            known_members(name).zip(value.as_object()).into_iter().flat_map(move |(members, object)| {
                let unknown = object.keys().filter(|key| !members.contains(&key.as_str()));
                unknown.map(move |key| crate::unmapped::bounded(&format!("{name}.{key}")))
            });
        (!known).then(|| crate::unmapped::bounded(name)).into_iter().chain(inside)
    })
}
