//! The operator's configuration: one typed value, validated as a whole, with an override a namespace.
//!
//! The file is `drydock.dev/config/v1alpha1`. Reading it is the controller's; what it means is decided here. A setting whose behaviour
//! isn't there yet is refused, so that nobody relies on what doesn't happen.

use std::collections::BTreeMap;
use std::time::Duration;

use drydock_crds::project::HostPolicy;
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `apiVersion` of the file.
pub const API_VERSION: &str = "drydock.dev/config/v1alpha1";

/// The configuration in force: the general settings and one complete set for each namespace that overrides some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// What holds where nothing else is said.
    pub general: Settings,
    /// What holds in a namespace.
    pub namespaces: BTreeMap<String, Settings>,
}

impl Configuration {
    /// The settings of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> &Settings {
        self.namespaces.get(namespace).unwrap_or(&self.general)
    }

    /// Reads and validates a whole file.
    ///
    /// # Errors
    /// Every bad entry that was found, with its path.
    pub fn read(file: &Value) -> Result<Self, Vec<SettingError>> {
        let Some(map) = file.as_object() else {
            return Err(vec![SettingError::new("", "the configuration must be a mapping")]);
        };
        match map.get("apiVersion").and_then(Value::as_str) {
            Some(API_VERSION) => {}
            other => {
                let found = other.unwrap_or("nothing");
                return Err(vec![SettingError::new(
                    "apiVersion",
                    &format!("must be {API_VERSION}, found {found}"),
                )]);
            }
        }
        let mut base = map.clone();
        base.remove("apiVersion");
        let overrides = base.remove("namespaces").unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let mut errors = Vec::new();
        let general = settings(&Value::Object(base.clone()), "", &mut errors);
        let mut namespaces = BTreeMap::new();
        match overrides.as_object() {
            None => errors.push(SettingError::new("namespaces", "must be a mapping from names to settings")),
            Some(overrides) => {
                for (name, over) in overrides {
                    let mut merged = Value::Object(base.clone());
                    merge(&mut merged, over);
                    let path = format!("namespaces.{name}.");
                    if let Some(settings) = settings(&merged, &path, &mut errors) {
                        namespaces.insert(name.clone(), settings);
                    }
                }
            }
        }
        match general {
            Some(general) if errors.is_empty() => Ok(Self { general, namespaces }),
            _ => Err(errors),
        }
    }
}

/// What the controller was installed with, beside the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// The image with the agent and git: checkout pods, the agent's init container, host runners.
    pub tools_image: String,
    /// Its pull policy; absent: the cluster's default.
    pub pull_policy: Option<String>,
    /// The certificate (PEM) of the authority that signs the controller's client certificate; agents accept no other client.
    pub client_ca: String,
}

/// A bad entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Path of the entry, such as `runs.timeout`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl SettingError {
    fn new(path: &str, message: &str) -> Self {
        Self { path: path.to_owned(), message: message.to_owned() }
    }
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

impl std::error::Error for SettingError {}

/// One complete set of settings.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Tool runs.
    pub runs: Runs,
    /// Whether the admission policies must be there. `Required` isn't there yet.
    pub admission: Admission,
    /// Environments.
    pub environments: Environments,
    /// Source trees.
    pub sources: Sources,
    /// What configurations may ask for; not there yet.
    pub policy: Option<Value>,
    /// Image builds; not there yet.
    pub builds: Option<Value>,
    /// Other interfaces; not there yet.
    pub interfaces: Option<Value>,
    /// Snapshots; not there yet.
    pub snapshots: Option<Value>,
}

/// Settings of tool runs.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Runs {
    /// The longest time limit that a run may ask for (24h).
    pub max_timeout: Span,
    /// The time limit of a run that asks for none (120s).
    pub timeout: Span,
    /// Bytes kept of each stream (50 MiB).
    pub output_limit: i64,
    /// How long a finished run is kept (1h).
    pub ttl: Span,
    /// How many finished runs are kept.
    pub retained: Retained,
    /// How many runs may be active at once in one environment (16).
    pub max_concurrent_runs: i32,
    /// Whether tools may run outside of project containers (Allowed).
    pub host_policy: HostPolicy,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            max_timeout: Span::hours(24),
            timeout: Span::seconds(120),
            output_limit: 50 << 20,
            ttl: Span::hours(1),
            retained: Retained::default(),
            max_concurrent_runs: 16,
            host_policy: HostPolicy::Allowed,
        }
    }
}

/// How many finished runs are kept; the oldest go first, none younger than [`Retained::YOUNG`].
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Retained {
    /// In one environment (1 000).
    pub per_environment: u32,
    /// In one namespace (5 000).
    pub per_namespace: u32,
}

impl Retained {
    /// A finished run younger than this is never removed for the sake of numbers.
    pub const YOUNG: Duration = Duration::from_secs(60);
}

impl Default for Retained {
    fn default() -> Self {
        Self { per_environment: 1_000, per_namespace: 5_000 }
    }
}

/// Whether the admission policies must be there.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Nothing runs without them.
    Required,
    /// They aren't looked for.
    #[default]
    Off,
}

/// Settings of environments.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Environments {
    /// Whether dev containers are used at all (true).
    pub enabled: bool,
    /// How long an environment may be without use (30m).
    pub idle_timeout: Span,
    /// How long a start may take: schedule, pull, the agent's hello (10m).
    pub start_timeout: Span,
    /// How long a hook may take; not there yet.
    pub hook_timeout: Option<Value>,
    /// The health probe; not there yet.
    pub health: Option<Value>,
    /// How many may be active in a namespace; not there yet.
    pub max_active: Option<Value>,
    /// What environments may reach; not there yet.
    pub egress: Option<Value>,
    /// Compute resources where an instance names none.
    pub resources: Option<ResourceRequirements>,
    /// RuntimeClass where an instance names none.
    pub runtime_class_name: Option<String>,
    /// Whether pods share the node's user namespace (true). `false` needs a cluster and a storage that can do it.
    pub host_users: bool,
    /// Image of the host runner where a project names none (the tools image).
    pub host_image: Option<String>,
}

impl Default for Environments {
    fn default() -> Self {
        Self {
            enabled: true,
            idle_timeout: Span::minutes(30),
            start_timeout: Span::minutes(10),
            hook_timeout: None,
            health: None,
            max_active: None,
            egress: None,
            resources: None,
            runtime_class_name: None,
            host_users: true,
            host_image: None,
        }
    }
}

/// Settings of source trees.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Sources {
    /// URL prefixes of the repositories that may be used; empty: any.
    pub allowed_sources: Vec<String>,
    /// Registries that images may come from; empty: any. Not there yet.
    pub allowed_registries: Option<Value>,
    /// ssh host keys that every checkout knows, beside those of its Secret; not there yet.
    pub known_hosts: Option<Value>,
}

/// A length of time in Go syntax (`30m`, `1h30m`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// So many minutes.
    #[must_use]
    pub const fn minutes(n: u64) -> Self {
        Self::seconds(n * 60)
    }

    /// So many hours.
    #[must_use]
    pub const fn hours(n: u64) -> Self {
        Self::minutes(n * 60)
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        kube::core::Duration::from(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration = kube::core::Duration::deserialize(deserializer)?;
        if duration.is_negative() {
            return Err(serde::de::Error::custom("must not be negative"));
        }
        Ok(Self(duration.into()))
    }
}

fn settings(value: &Value, prefix: &str, errors: &mut Vec<SettingError>) -> Option<Settings> {
    let parsed: Result<Settings, _> = serde_path_to_error::deserialize(value.clone());
    match parsed {
        Ok(settings) => {
            let found = check(&settings);
            let valid = found.is_empty();
            errors
                .extend(found.into_iter().map(|e| SettingError { path: format!("{prefix}{}", e.path), ..e }));
            valid.then_some(settings)
        }
        Err(error) => {
            let path = error.path().to_string();
            let path =
                if path == "." { prefix.trim_end_matches('.').to_owned() } else { format!("{prefix}{path}") };
            errors.push(SettingError { path, message: error.into_inner().to_string() });
            None
        }
    }
}

fn check(settings: &Settings) -> Vec<SettingError> {
    let Settings { runs, environments, sources, .. } = settings;
    let mut errors = not_implemented(settings);
    let mut wrong = |path: &str, holds: bool, message: &str| {
        if !holds {
            errors.push(SettingError::new(path, message));
        }
    };
    wrong("runs.timeout", runs.timeout <= runs.max_timeout, "must not exceed runs.maxTimeout");
    wrong("runs.timeout", runs.timeout >= Span::seconds(1), "must be at least 1s");
    wrong("runs.outputLimit", (0..=1 << 40).contains(&runs.output_limit), "must be from 0 to 1 TiB");
    wrong("runs.maxConcurrentRuns", (1..=1000).contains(&runs.max_concurrent_runs), "must be from 1 to 1000");
    wrong("runs.retained.perEnvironment", runs.retained.per_environment > 0, "must be at least 1");
    wrong("runs.retained.perNamespace", runs.retained.per_namespace > 0, "must be at least 1");
    wrong("environments.idleTimeout", environments.idle_timeout >= Span::seconds(1), "must be at least 1s");
    wrong("environments.startTimeout", environments.start_timeout >= Span::seconds(5), "must be at least 5s");
    let prefixes = sources.allowed_sources.iter().all(|s| !s.is_empty());
    wrong("sources.allowedSources", prefixes, "an entry must not be empty; for any source remove the list");
    errors
}

/// Settings that the API has already and this version doesn't carry out.
fn not_implemented(settings: &Settings) -> Vec<SettingError> {
    let Settings { admission, environments, sources, policy, builds, interfaces, snapshots, runs: _ } =
        settings;
    let set = [
        ("policy", policy.is_some()),
        ("builds", builds.is_some()),
        ("interfaces", interfaces.is_some()),
        ("snapshots", snapshots.is_some()),
        ("sources.knownHosts", sources.known_hosts.is_some()),
        ("sources.allowedRegistries", sources.allowed_registries.is_some()),
        ("environments.hookTimeout", environments.hook_timeout.is_some()),
        ("environments.health", environments.health.is_some()),
        ("environments.maxActive", environments.max_active.is_some()),
        ("environments.egress", environments.egress.is_some()),
    ];
    let later = "isn't implemented in this version: remove it";
    let mut errors: Vec<SettingError> =
        set.iter().filter(|(_, is_set)| *is_set).map(|(path, _)| SettingError::new(path, later)).collect();
    if *admission != Admission::Off {
        errors.push(SettingError::new("admission", "Required isn't implemented in this version: set Off"));
    }
    errors
}

/// Lays `over` over `base`: mappings are merged, everything else is replaced.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(mut file: Value) -> Result<Configuration, Vec<SettingError>> {
        file["apiVersion"] = API_VERSION.into();
        Configuration::read(&file)
    }

    #[test]
    fn an_empty_file_gives_the_documented_defaults() {
        let configuration = read(json!({})).unwrap();
        let Settings { runs, environments, .. } = configuration.of("any");
        assert_eq!(runs.max_timeout, Span::hours(24));
        assert_eq!(runs.timeout, Span::seconds(120));
        assert_eq!(runs.output_limit, 52_428_800);
        assert_eq!(runs.ttl, Span::hours(1));
        assert_eq!(runs.retained, Retained { per_environment: 1_000, per_namespace: 5_000 });
        assert_eq!(runs.max_concurrent_runs, 16);
        assert_eq!(environments.idle_timeout, Span::minutes(30));
        assert_eq!(environments.start_timeout, Span::minutes(10));
        assert!(environments.enabled);
    }

    #[test]
    fn a_namespace_overrides_single_settings() {
        let configuration = read(json!({
            "runs": {"timeout": "5m", "ttl": "2h"},
            "namespaces": {"team": {"runs": {"timeout": "10m"}}},
        }))
        .unwrap();
        assert_eq!(configuration.of("other").runs.timeout, Span::minutes(5));
        assert_eq!(configuration.of("team").runs.timeout, Span::minutes(10));
        assert_eq!(configuration.of("team").runs.ttl, Span::hours(2));
    }

    #[test]
    fn every_bad_entry_is_named_with_its_path() {
        for (file, path, part) in [
            (json!({"runs": {"timeout": "x"}}), "runs.timeout", ""),
            (json!({"runs": {"timeout": "-5s"}}), "runs.timeout", "negative"),
            (json!({"runs": {"timeout": "48h"}}), "runs.timeout", "maxTimeout"),
            (json!({"runs": {"timeOut": "5s"}}), "runs.timeOut", "unknown field"),
            (json!({"rums": {}}), "rums", "unknown field"),
            (json!({"admission": "Required"}), "admission", "implemented"),
            (json!({"builds": {"backend": "buildah"}}), "builds", "implemented"),
            (
                json!({"namespaces": {"a": {"runs": {"outputLimit": -1}}}}),
                "namespaces.a.runs.outputLimit",
                "1 TiB",
            ),
            (json!({"namespaces": []}), "namespaces", "mapping"),
        ] {
            let errors = read(file.clone()).unwrap_err();
            assert!(errors.iter().any(|e| e.path == path && e.message.contains(part)), "{file}: {errors:?}");
        }
        assert!(
            Configuration::read(&json!({"apiVersion": "v1"})).unwrap_err()[0].message.contains(API_VERSION)
        );
    }
}
