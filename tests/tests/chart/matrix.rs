//! The values that the chart is rendered with.

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Values, as JSON.
    pub(crate) values: &'static str,
}

pub(crate) const WHOLE_CONFIGURATION: &str = r#"{"config": {
    "admission": "Off",
    "runs": {"maxTimeout": "12h", "timeout": "60s", "outputLimit": 1048576, "ttl": "30m", "maxConcurrentRuns": 8, "hostPolicy": "OnRequest",
        "retained": {"perEnvironment": 10, "perNamespace": 50}},
    "environments": {"enabled": true, "idleTimeout": "10m", "startTimeout": "5m", "runtimeClassName": "gvisor", "hostUsers": false,
        "hostImage": "docker.io/library/debian:trixie", "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "100m"}}},
    "sources": {"allowedSources": ["https://git.example.com/team/"]},
    "namespaces": {"team-a": {"runs": {"maxConcurrentRuns": 2}}}
}}"#;

pub(crate) const NAMESPACED_ONLY: &str = r#"{"watchNamespaces": ["team-a", "team-b"], "crds": {"enabled": false},
    "rbac": {"aggregateClusterRoles": false}}"#;

pub(crate) const DIGESTS: &str = r#"{
    "controller": {"image": {"registry": "registry.example.com", "repository": "drydock/controller", "tag": "ignored",
        "digest": "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    "agent": {"image": {"registry": "registry.example.com", "repository": "drydock/agent",
        "digest": "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}
}"#;

pub(crate) const CASES: &[Case] = &[
    Case { name: "defaults", values: "{}" },
    Case { name: "namespaced", values: r#"{"watchNamespaces": ["team-a", "team-b"]}"# },
    Case { name: "namespaced-only", values: NAMESPACED_ONLY },
    Case { name: "digests", values: DIGESTS },
    Case { name: "configuration", values: WHOLE_CONFIGURATION },
    Case { name: "definitions-go", values: r#"{"crds": {"keep": false}}"# },
    Case {
        name: "two-replicas",
        values: r#"{"controller": {"replicas": 2, "priorityClassName": "system-cluster-critical", "hostUsers": false,
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}"#,
    },
    Case {
        name: "placement",
        values: r#"{"controller": {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "podAnnotations": {"a/b": "c"}, "podLabels": {"team": "platform"}, "runtimeClassName": ""},
            "commonLabels": {"team": "platform"}, "imagePullSecrets": [{"name": "pull"}]}"#,
    },
    Case {
        name: "logs-and-extras",
        values: r#"{"controller": {"log": {"level": "info,drydock_controller=debug", "format": "text"}, "extraArgs": ["--help"],
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
            "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra", "namespace": "team-a",
                "labels": {"app.kubernetes.io/part-of": "drydock"}}}]}"#,
    },
    Case {
        name: "monitoring",
        values: r#"{"metrics": {"serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}}, "prometheusRule": {"enabled": true}},
            "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]}}"#,
    },
    Case {
        name: "bare",
        values: r#"{"metrics": {"service": {"enabled": false}}, "networkPolicy": {"enabled": false}, "rbac": {"create": false},
            "serviceAccount": {"create": false, "name": "given"}, "uninstall": {"releaseFinalizers": false}, "crds": {"enabled": false}}"#,
    },
    Case {
        name: "names",
        values: r#"{"fullnameOverride": "an-operator-with-a-name-longer-than-forty-characters", "serviceAccount": {"annotations": {"a/b": "c"}}}"#,
    },
];

/// Values that are refused, each with a part of what is said.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    (r#"{"replicas": 2}"#, "additional properties 'replicas' not allowed"),
    (r#"{"controller": {"image": {"digest": "latest"}}}"#, "at '/controller/image/digest'"),
    (r#"{"config": {"runs": {"timeot": "3s"}}}"#, "additional properties 'timeot' not allowed"),
    (r#"{"config": {"runs": {"timeout": 3}}}"#, "at '/config/runs/timeout'"),
    (r#"{"config": {"admission": "Required"}}"#, "at '/config/admission'"),
    (r#"{"config": {"policy": {"privileged": true}}}"#, "additional properties 'policy' not allowed"),
    (
        r#"{"controller": {"extraEnv": [{"name": "POD_NAME", "value": "x"}]}}"#,
        "at '/controller/extraEnv/0/name'",
    ),
    (r#"{"watchNamespaces": ["Team A"]}"#, "at '/watchNamespaces/0'"),
    (r#"{"uninstall": {"timeoutSeconds": 1}}"#, "at '/uninstall/timeoutSeconds'"),
];
