//! What a container needs of the machine it runs on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};

/// `hostRequirements`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRequirements {
    /// Cores, from 1.
    pub cpus: Option<u32>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Bytes.
    pub storage: Option<u64>,
    /// Absent: none.
    pub gpu: Option<Gpu>,
}

/// `hostRequirements.gpu`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gpu {
    /// `false`
    NotNeeded,
    /// `true`
    Required,
    /// `"optional"`: used where there is one.
    Optional,
    /// One that has at least this.
    Detailed {
        /// Cores, from 1.
        cores: Option<u32>,
        /// Bytes.
        memory: Option<u64>,
    },
}

/// A number of bytes, `8gb`: digits, then nothing or one of `kb`, `mb`, `gb`, `tb`, powers of 1024. None where it isn't one, or is
/// above 64 bits.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let power = match &text[end..] {
        "" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(1 << (10 * power))
}

pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<HostRequirements> {
    let node = reader.object(root, "hostRequirements")?;
    Some(HostRequirements {
        cpus: count(reader, &node, "cpus"),
        memory: bytes(reader, &node, "memory"),
        storage: bytes(reader, &node, "storage"),
        gpu: reader.hint(|reader| gpu(reader, &node)),
    })
}

fn gpu(reader: &mut Reader<'_>, parent: &Node<'_>) -> Option<Gpu> {
    let node = parent.member("gpu")?;
    match node.value {
        Value::Bool(true) => Some(Gpu::Required),
        Value::Bool(false) => Some(Gpu::NotNeeded),
        Value::String(text) if text == "optional" => Some(Gpu::Optional),
        Value::Object(_) => Some(Gpu::Detailed {
            cores: count(reader, &node, "cores"),
            memory: bytes(reader, &node, "memory"),
        }),
        _ => {
            reader.wrong_type(&node, "true, false, \"optional\" or an object");
            None
        }
    }
}

fn count(reader: &mut Reader<'_>, parent: &Node<'_>, name: &str) -> Option<u32> {
    let node = parent.member(name)?;
    let Value::Number(number) = node.value else {
        reader.wrong_type(&node, "a whole number");
        return None;
    };
    let count = number.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
    if count.is_none() {
        let message = format!("{} isn't a whole number from 1", quote(&number.to_string()));
        reader.error(Reason::InvalidValue, &node, message, "write a whole number from 1");
    }
    count
}

fn bytes(reader: &mut Reader<'_>, parent: &Node<'_>, name: &str) -> Option<u64> {
    let node = parent.member(name)?;
    let text = match node.value {
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => reader.string_of(&node)?,
    };
    let bytes = parse_bytes(&text);
    if bytes.is_none() && reader.is_settled(&text) {
        let fix = "write digits and kb, mb, gb or tb, such as 8gb";
        reader.error(Reason::InvalidValue, &node, format!("{} isn't a number of bytes", quote(&text)), fix);
    }
    bytes
}
