//! etcd, the API server, the controller manager and the scheduler: their arguments and certificates.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::kubectl::Kubectl;
use crate::layout::Layout;
use crate::options::{Options, Profile};
use crate::pki::{Pki, Subject};
use crate::process::{Process, Start};
use crate::record::{Record, free_port, node_address};
use crate::{Error, Result, tools, wait};

/// The addresses of services; the first is the API server's, the tenth the DNS's.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The address of the cluster's DNS.
pub(crate) const DNS_ADDRESS: &str = "10.96.0.10";
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// The certificates of the control plane and the administrator's kubeconfig.
pub(crate) fn certificates(layout: &Layout, record: &Record) -> Result<Pki> {
    let pki = Pki::create(&layout.pki())?;
    let mut names: Vec<String> =
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned).into();
    names.extend(["kubernetes.default.svc.cluster.local".to_owned(), "10.96.0.1".to_owned()]);
    names.push(Ipv4Addr::LOCALHOST.to_string());
    names.extend(record.slot.map(|slot| node_address(slot, 1).to_string()));
    let server = Subject { common_name: "kube-apiserver", organization: None, alternative_names: names };
    pki.issue("apiserver", &server)?;
    let masters = Some("system:masters");
    pki.kubeconfig("admin", &Subject::client("admin", masters), &record.server, &layout.kubeconfig())?;
    if record.profile == Profile::Node {
        pki.issue("kubelet-client", &Subject::client("kube-apiserver-kubelet-client", masters))?;
        for component in ["kube-controller-manager", "kube-scheduler"] {
            let user = format!("system:{component}");
            let target = layout.pki().join(format!("{component}.kubeconfig"));
            pki.kubeconfig(component, &Subject::client(&user, None), &record.server, &target)?;
        }
    }
    Ok(pki)
}

/// Starts etcd and the API server, each `inside` the given namespaces, without waiting for either.
pub(crate) fn start_api(
    layout: &Layout,
    record: &Record,
    options: &Options,
    pki: &Pki,
    inside: &[String],
) -> Result<(Process, Process)> {
    let (client, peer) = match record.profile {
        Profile::Api => (free_port()?, free_port()?),
        Profile::Node => (2379, 2380),
    };
    let etcd = wrap(inside, etcd(layout, client, peer)?);
    let etcd = Start::new("etcd", etcd).spawn(layout)?;
    let mut arguments = wrap(inside, api_server(record, pki, client)?);
    arguments.extend(feature_gates(options));
    arguments.extend(options.api_server_arguments.iter().cloned());
    let api_server = Start::new("kube-apiserver", arguments).spawn(layout)?;
    Ok((etcd, api_server))
}

/// Waits until the API server serves. It dials before it asks, as each question costs a process.
pub(crate) async fn wait_for_api(record: &Record, kubectl: &Kubectl, api_server: &Process) -> Result<()> {
    let address = record.server.trim_start_matches("https://");
    wait::until("the API server's port", READY_DEADLINE, Some(api_server), || async {
        let dial = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await;
        dial.map_err(|_| "no answer".to_owned())?.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    wait::until("the API server", READY_DEADLINE, Some(api_server), || kubectl.ready()).await
}

/// Starts the controller manager and the scheduler.
pub(crate) fn start_controllers(
    layout: &Layout,
    options: &Options,
    pki: &Pki,
    inside: &[String],
) -> Result<()> {
    for (tool, arguments) in [
        (tools::KUBE_CONTROLLER_MANAGER, controller_manager(layout, pki)),
        (tools::KUBE_SCHEDULER, Vec::new()),
    ] {
        let mut argv = vec![
            program(&tool)?,
            format!("--kubeconfig={}", pki.path(&format!("{}.kubeconfig", tool.name))),
            "--leader-elect=false".to_owned(),
            // A start makes a service account and a token for each controller, at 20 calls a second by default.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        argv.extend(arguments);
        argv.extend(feature_gates(options));
        Start::new(tool.name, wrap(inside, argv)).spawn(layout)?;
    }
    Ok(())
}

/// The `--feature-gates` argument, if there are any.
pub(crate) fn feature_gates(options: &Options) -> Option<String> {
    (!options.feature_gates.is_empty())
        .then(|| format!("--feature-gates={}", options.feature_gates.join(",")))
}

/// A command that is run by another one.
pub(crate) fn wrap(inside: &[String], argv: Vec<String>) -> Vec<String> {
    inside.iter().cloned().chain(argv).collect()
}

/// A built program's path, as the first word of a command.
pub(crate) fn program(tool: &tools::Tool) -> Result<String> {
    let path = tool.path()?;
    path.into_os_string().into_string().map_err(|path| Error::invalid(format!("{path:?} is not UTF-8")))
}

fn etcd(layout: &Layout, client: u16, peer: u16) -> Result<Vec<String>> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Ok(vec![
        program(&tools::ETCD)?,
        "--name=default".to_owned(),
        format!("--data-dir={}", layout.root().join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}

fn api_server(record: &Record, pki: &Pki, etcd_port: u16) -> Result<Vec<String>> {
    let (address, port) = record.server.trim_start_matches("https://").rsplit_once(':').unwrap_or_default();
    let mut argv = vec![
        program(&tools::KUBE_APISERVER)?,
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        format!("--advertise-address={address}"),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--cert-dir={}", pki.path("")),
    ];
    for (flag, file) in [
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("client-ca-file", "ca.crt"),
        ("service-account-key-file", "service-accounts.pub"),
        ("service-account-signing-key-file", "service-accounts.key"),
    ] {
        argv.push(format!("--{flag}={}", pki.path(file)));
    }
    match record.profile {
        Profile::Api => argv.extend([
            "--bind-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]),
        Profile::Node => argv.extend([
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            // Otherwise exec and logs look the node's name up in a DNS that does not know it, and hang.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-certificate-authority={}", pki.path("ca.crt")),
            format!("--kubelet-client-certificate={}", pki.path("kubelet-client.crt")),
            format!("--kubelet-client-key={}", pki.path("kubelet-client.key")),
        ]),
    }
    Ok(argv)
}

fn controller_manager(layout: &Layout, pki: &Pki) -> Vec<String> {
    vec![
        // Its default is a folder of the host, which it makes.
        format!("--flex-volume-plugin-dir={}", layout.root().join("volume-plugins").display()),
        "--use-service-account-credentials".to_owned(),
        "--enable-hostpath-provisioner".to_owned(),
        format!("--root-ca-file={}", pki.path("ca.crt")),
        format!("--service-account-private-key-file={}", pki.path("service-accounts.key")),
        format!("--cluster-signing-cert-file={}", pki.path("ca.crt")),
        format!("--cluster-signing-key-file={}", pki.path("ca.key")),
    ]
}
