//! Ports: which are forwarded or published, and what tools are told about them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};

/// A port of `forwardPorts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardPort {
    /// The host, as seen from the container; absent: the container itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// From 1.
    pub port: u16,
}

/// A port of `appPort`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppPort {
    /// The same port on both sides.
    Port(u16),
    /// An argument of `docker run --publish`.
    Publish(String),
}

/// What tools are told about a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortAttributes {
    /// For display.
    pub label: Option<String>,
    /// What is spoken on it.
    pub protocol: Option<PortProtocol>,
    /// What happens when it is found.
    pub on_auto_forward: Option<OnAutoForward>,
    /// Whether the local port must be the same.
    pub require_local_port: Option<bool>,
    /// Whether to ask for rights that a low local port needs.
    pub elevate_if_needed: Option<bool>,
}

/// What is spoken on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PortProtocol {
    /// HTTP.
    Http,
    /// HTTPS.
    Https,
}

/// What happens when a port is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnAutoForward {
    /// The user is told.
    Notify,
    /// A browser is opened.
    OpenBrowser,
    /// A browser is opened the first time.
    OpenBrowserOnce,
    /// A preview is opened.
    OpenPreview,
    /// It is forwarded without a word.
    Silent,
    /// It isn't forwarded.
    Ignore,
}

pub(super) fn forward_ports(reader: &mut Reader<'_>, root: &Node<'_>) -> Vec<ForwardPort> {
    let Some(node) = root.member("forwardPorts") else {
        return Vec::new();
    };
    if !node.value.is_array() {
        reader.wrong_type(&node, "an array of ports");
    }
    node.elements().filter_map(|element| forward_port(reader, &element)).collect()
}

pub(super) fn app_ports(reader: &mut Reader<'_>, root: &Node<'_>) -> Vec<AppPort> {
    let Some(node) = root.member("appPort") else {
        return Vec::new();
    };
    match node.value {
        Value::Array(_) => node.elements().filter_map(|element| app_port(reader, &element)).collect(),
        _ => app_port(reader, &node).into_iter().collect(),
    }
}

pub(super) fn attributes(reader: &mut Reader<'_>, root: &Node<'_>) -> IndexMap<String, PortAttributes> {
    let Some(object) = reader.object(root, "portsAttributes") else {
        return IndexMap::new();
    };
    let mut attributes = IndexMap::new();
    for (name, node) in object.members() {
        if node.value.is_object() {
            attributes.insert(name.to_owned(), attributes_of(reader, &node));
        } else {
            reader.wrong_type(&node, "an object");
        }
    }
    attributes
}

pub(super) fn other_attributes(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<PortAttributes> {
    let node = reader.object(root, "otherPortsAttributes")?;
    Some(attributes_of(reader, &node))
}

fn attributes_of(reader: &mut Reader<'_>, node: &Node<'_>) -> PortAttributes {
    PortAttributes {
        label: reader.string(node, "label"),
        protocol: reader.choice(node, "protocol"),
        on_auto_forward: reader.choice(node, "onAutoForward"),
        require_local_port: reader.boolean(node, "requireLocalPort"),
        elevate_if_needed: reader.boolean(node, "elevateIfNeeded"),
    }
}

fn forward_port(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<ForwardPort> {
    match node.value {
        Value::Number(number) => {
            let port = number.as_u64().and_then(port_number);
            if port.is_none() {
                not_a_port(reader, node, &number.to_string());
            }
            Some(ForwardPort { host: None, port: port? })
        }
        Value::String(text) => {
            let (host, port) = match text.rsplit_once(':') {
                Some((host, port)) => (Some(host), port),
                None => (None, text.as_str()),
            };
            let port = digits(port).filter(|_| host != Some(""));
            if port.is_none() && reader.is_settled(text) {
                not_a_port(reader, node, text);
            } else if port.is_none() {
                let message = "the port can only be read once its variables are replaced";
                reader.warn(Reason::UnresolvedVariable, node, message, "");
            }
            Some(ForwardPort { host: host.map(str::to_owned), port: port? })
        }
        _ => {
            reader.wrong_type(node, "a port or HOST:PORT");
            None
        }
    }
}

fn app_port(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<AppPort> {
    match node.value {
        Value::Number(number) => {
            let port = number.as_u64().and_then(port_number);
            if port.is_none() {
                not_a_port(reader, node, &number.to_string());
            }
            port.map(AppPort::Port)
        }
        Value::String(text) => Some(AppPort::Publish(text.clone())),
        _ => {
            reader.wrong_type(node, "a port, a string or an array of them");
            None
        }
    }
}

fn not_a_port(reader: &mut Reader<'_>, node: &Node<'_>, text: &str) {
    let fix = "write a number from 1 to 65535, or \"HOST:PORT\"";
    reader.error(Reason::InvalidValue, node, format!("{} isn't a port", quote(text)), fix);
}

fn digits(text: &str) -> Option<u16> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten().and_then(port_number)
}

fn port_number(number: u64) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port > 0)
}
