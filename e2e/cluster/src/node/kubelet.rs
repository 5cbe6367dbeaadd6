//! The configuration of a node's kubelet and service proxy.

use serde_json::{Map, Value, json};

use crate::control_plane::{DNS_ADDRESS, program};
use crate::options::Options;
use crate::pki::{Pki, Subject};
use crate::process::Start;
use crate::{Result, network, tools};

use super::Node;
use super::containerd::write;

/// Writes the kubelet's certificate, which it serves with too, and its configuration.
pub(super) fn configure(node: &Node, server: &str, options: &Options, pki: &Pki) -> Result<Start> {
    let user = format!("system:node:{}", node.name);
    let certificate = format!("kubelet-{}", node.number);
    let subject = Subject {
        common_name: &user,
        organization: Some("system:nodes"),
        alternative_names: vec![node.name.clone(), node.address.clone()],
    };
    let kubeconfig = node.folder.join("kubelet.kubeconfig");
    pki.kubeconfig(&certificate, &subject, server, &kubeconfig)?;
    // The host's own name servers are out of reach of the nodes.
    let resolver = node.folder.join("resolv.conf");
    write(&resolver, "")?;
    let config = node.folder.join("kubelet.json");
    let text = kubelet_config(node, options, pki, &certificate, &resolver.display().to_string()).to_string();
    write(&config, &text)?;
    let argv = vec![
        program(&tools::KUBELET)?,
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--node-ip={}", node.address),
        format!("--hostname-override={}", node.name),
    ];
    Ok(node.component("kubelet", argv))
}

/// Writes the service proxy's certificate and configuration.
pub(super) fn configure_proxy(node: &Node, server: &str, options: &Options, pki: &Pki) -> Result<Start> {
    let kubeconfig = node.folder.join("kube-proxy.kubeconfig");
    let subject = Subject::client("system:kube-proxy", None);
    pki.kubeconfig(&format!("kube-proxy-{}", node.number), &subject, server, &kubeconfig)?;
    let config = node.folder.join("kube-proxy.json");
    let text = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": network::POD_RANGE,
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": kubeconfig},
        // The size of the connection table belongs to the host.
        "conntrack": {"maxPerCore": 0},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "featureGates": gates(options),
    });
    write(&config, &text.to_string())?;
    Ok(node.component(
        "kube-proxy",
        vec![program(&tools::KUBE_PROXY)?, format!("--config={}", config.display())],
    ))
}

fn kubelet_config(node: &Node, options: &Options, pki: &Pki, certificate: &str, resolver: &str) -> Value {
    let mut gates = gates(options);
    // Tolerates a machine that may not set what only CAP_SYS_RESOURCE may.
    gates.insert("KubeletInUserNamespace".to_owned(), true.into());
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki.path("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki.path(&format!("{certificate}.crt")),
        "tlsPrivateKeyFile": pki.path(&format!("{certificate}.key")),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.cgroup),
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failSwapOn": false,
        "featureGates": gates,
        "imageGCHighThresholdPercent": 100,
        "maxPods": 200,
        "registryPullQPS": 0,
        "resolvConf": resolver,
        "serializeImagePulls": false,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    })
}

fn gates(options: &Options) -> Map<String, Value> {
    let pairs = options.feature_gates.iter().filter_map(|gate| gate.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), (value == "true").into())).collect()
}
