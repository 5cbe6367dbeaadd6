//! `${devcontainerId}`: one dev container's name for itself, the same after every rebuild.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const LENGTH: usize = 52;

/// The identifier of a dev container that is known by these labels: 52 characters of `0-9a-v`.
///
/// It is the SHA-256 of the labels as a JSON object with sorted keys and no white space, as a number in base 32 (specification,
/// `devcontainer-id-variable`).
#[must_use]
pub fn devcontainer_id(labels: &BTreeMap<String, String>) -> String {
    let mut sorted: Vec<(&String, &String)> = labels.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    let members: serde_json::Map<String, serde_json::Value> =
        sorted.into_iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
    let digest = Sha256::digest(serde_json::Value::Object(members).to_string().as_bytes());
    base32(&digest)
}

/// The bytes as one big-endian number in base 32: digit `i` from the right is made of the bits from `5 * i` on.
fn base32(bytes: &[u8]) -> String {
    let bit = |index: usize| match bytes.len().checked_sub(index / 8 + 1) {
        Some(byte) => (bytes[byte] >> (index % 8)) & 1,
        None => 0,
    };
    let digit = |place: usize| (0..5).fold(0, |sum, i| sum | (bit(place * 5 + i) << i));
    (0..LENGTH).rev().map(|place| char::from(DIGITS[usize::from(digit(place))])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn is_that_of_the_reference_tool() {
        let labels = labels(&[
            ("devcontainer.local_folder", "/home/user/app"),
            ("devcontainer.config_file", "/home/user/app/.devcontainer/devcontainer.json"),
        ]);
        assert_eq!(devcontainer_id(&labels), "1u4mauah40nbl8s2vgfctjaebckqjgnnat0jsn9076k2fqelkbds");
    }

    #[test]
    fn small_numbers_are_padded() {
        let mut bytes = [0; 32];
        bytes[31] = 33;
        assert_eq!(base32(&bytes), format!("{}11", "0".repeat(50)));
        assert_eq!(base32(&[0xFF; 32]), format!("1{}", "v".repeat(51)));
    }

    #[test]
    fn differs_by_any_label_and_not_by_their_order() {
        let one = devcontainer_id(&labels(&[("a", "1"), ("b", "2")]));
        assert_eq!(one, devcontainer_id(&labels(&[("b", "2"), ("a", "1")])));
        assert_ne!(one, devcontainer_id(&labels(&[("a", "1"), ("b", "3")])));
        assert_ne!(one, devcontainer_id(&labels(&[("a", "1")])));
    }
}
