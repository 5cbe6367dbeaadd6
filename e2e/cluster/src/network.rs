//! The link between the host and a cluster's first node, between its two nodes, and the routes over them.
//!
//! Slot N has the network 10.213.N.0/24: the host is .1, node 1 is .2, and the two ends of the link to node 2 are .129
//! and .130. Pods of node I are 10.244.I.0/24. Nothing but the one interface and its routes is on the host.

use std::process::Command;

use crate::record::{host_address, node_address};
use crate::{Error, Result};

/// The addresses of all pods.
pub(crate) const POD_RANGE: &str = "10.244.0.0/16";
/// Node 1's end of the link to node 2.
const NODE_LINK: &str = "node2";

/// The host's end of the link.
pub(crate) fn host_interface(slot: u8) -> String {
    format!("drydock{slot}")
}

/// The pods of one node.
pub(crate) fn pod_subnet(node: u8) -> String {
    format!("10.244.{node}.0/24")
}

/// Links the host with node 1, whose namespaces the process `holder` holds and `inside` enters.
pub(crate) fn link_host(slot: u8, holder: i32, inside: &[String]) -> Result<()> {
    let interface = host_interface(slot);
    let (host, node) = (host_address(slot), node_address(slot, 1));
    script(
        &[],
        &format!(
            "ip link add {interface} type veth peer name eth0 netns {holder}
         ip address add {host}/25 dev {interface}
         ip link set {interface} up"
        ),
    )?;
    script(
        inside,
        &format!(
            "ip address add {node}/25 dev eth0
         ip link set eth0 up
         ip route add default via {host}
         echo 1 > /proc/sys/net/ipv4/ip_forward
         iptables -w 10 -t nat -A POSTROUTING -s {POD_RANGE} ! -d {POD_RANGE} -o eth0 -j MASQUERADE"
        ),
    )?;
    script(&[], &format!("ip route add {} via {node} dev {interface}", node_link_network(slot)))
}

/// Links node 1 with node 2, whose namespaces the process `holder` holds.
pub(crate) fn link_nodes(slot: u8, holder: i32, first: &[String], second: &[String]) -> Result<()> {
    script(first, &format!("ip link add {NODE_LINK} type veth peer name eth0 netns {holder}"))?;
    script(first, &format!("ip address add {}/30 dev {NODE_LINK}", node_link_address(slot)))?;
    script(
        second,
        &format!(
            "ip address add {}/30 dev eth0
         echo 1 > /proc/sys/net/ipv4/ip_forward
         ip link set eth0 up
         ip route add default via {}",
            node_address(slot, 2),
            node_link_address(slot)
        ),
    )?;
    connect_nodes(slot, first)
}

/// Puts the link to node 2 up, and the routes that it lost when it went down.
pub(crate) fn connect_nodes(slot: u8, first: &[String]) -> Result<()> {
    script(
        first,
        &format!(
            "ip link set {NODE_LINK} up
         ip route replace {} via {} dev {NODE_LINK}",
            pod_subnet(2),
            node_address(slot, 2)
        ),
    )
}

/// Cuts the link to node 2: for everybody else, the node is lost. What runs on it goes on.
pub(crate) fn disconnect_nodes(first: &[String]) -> Result<()> {
    script(first, &format!("ip link set {NODE_LINK} down"))
}

fn node_link_network(slot: u8) -> String {
    format!("10.213.{slot}.128/30")
}

fn node_link_address(slot: u8) -> String {
    format!("10.213.{slot}.129")
}

/// Runs lines of shell, all made of our own constants and numbers, stopping at the first that fails.
fn script(inside: &[String], lines: &str) -> Result<()> {
    let lines = format!("set -e\n{lines}");
    let words: Vec<&str> = inside.iter().map(String::as_str).chain(["sh", "-c", &lines]).collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|source| Error::Spawn { program: words[0].to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: lines,
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
