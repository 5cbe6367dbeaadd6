//! The configuration of a node's container runtime and of its pod network.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::control_plane::program;
use crate::process::Start;
use crate::{Error, Result, command, network, tools};

use super::{Node, REGISTRY_PORT};

/// Writes containerd's configuration; `registry` is the address that `localhost:5000` stands for on this node.
pub(super) async fn configure(node: &Node, registry: &str) -> Result<Start> {
    let spec = node.folder.join("runtime-spec.json");
    write(&spec, &runtime_spec().await?.to_string())?;
    let hosts = node.folder.join(format!("certs.d/localhost:{REGISTRY_PORT}/hosts.toml"));
    write(&hosts, &format!("server = \"http://{registry}\"\n"))?;
    let network = node.folder.join("cni.d/10-drydock.conflist");
    write(&network, &pod_network(node).to_string())?;
    let config = node.folder.join("containerd.toml");
    write(&config, &containerd_toml(node, &spec)?)?;

    let argv = vec![program(&tools::CONTAINERD)?, format!("--config={}", config.display())];
    let mut start = node.component("containerd", argv);
    // The runtime finds its shim in PATH.
    let folder = tools::CONTAINERD.path()?.parent().map(Path::to_owned).unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    start.environment.insert("PATH".to_owned(), format!("{}:{path}", folder.display()));
    Ok(start)
}

/// containerd's own default without its resource limits: a machine may forbid to raise them.
async fn runtime_spec() -> Result<Value> {
    let printed = command::run(
        command::command([program(&tools::CTR)?.as_str(), "oci", "spec"]),
        Duration::from_secs(10),
    );
    let mut spec: Value = serde_json::from_str(&printed.await?)
        .map_err(|error| Error::invalid(format!("`ctr oci spec` printed no JSON: {error}")))?;
    spec["process"]["rlimits"] = json!([]);
    Ok(spec)
}

fn pod_network(node: &Node) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": format!("drydock-{}", node.number),
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isDefaultGateway": true,
                "hairpinMode": true,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": network::pod_subnet(node.number)}]]},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn containerd_toml(node: &Node, spec: &Path) -> Result<String> {
    let folder = node.folder.display();
    let runc = program(&tools::RUNC)?;
    let spec = spec.display();
    Ok(format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "localhost:{REGISTRY_PORT}/pause:1"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{folder}/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{folder}/cni.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{spec}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"#
    ))
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
    }
    fs::write(path, text).map_err(Error::file("write", path))
}
