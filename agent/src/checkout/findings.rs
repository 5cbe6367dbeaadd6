//! Puts the report together: each configuration with its bytes as far as the document has room for them.

use devcontainer::discover::{ConfigFile, Configuration, Discovery, Refusal};
use drydock_protocol::checkout::{CheckoutReport, FoundConfiguration, Omitted};
use drydock_protocol::limits;
use sha2::{Digest, Sha256};

use super::listing::{Content, Source};

/// Reads what was discovered.
#[must_use]
pub fn read(discovery: &Discovery, source: &Source<'_>) -> Vec<FoundConfiguration> {
    discovery
        .configurations
        .iter()
        .take(limits::CONFIGURATIONS)
        .map(|found| read_one(found, source))
        .collect()
}

fn read_one(configuration: &Configuration, source: &Source<'_>) -> FoundConfiguration {
    let mut found = FoundConfiguration {
        config_path: configuration.config_path.clone(),
        bytes: 0,
        sha256: String::new(),
        content: None,
        omitted: None,
        message: None,
        link_target: None,
        source_digest: None,
    };
    if let ConfigFile::Linked(target) = &configuration.file {
        found.link_target = Some(target.clone());
    }
    let omit = |found: &mut FoundConfiguration, why, message: Option<String>| {
        found.omitted = Some(why);
        found.message = message;
    };
    let Some(path) = configuration.read_path() else {
        let why = match configuration.file {
            ConfigFile::Refused(Refusal::PathEscapesWorkspace) => Omitted::PathEscapesWorkspace,
            _ => Omitted::NotAFile,
        };
        let message = configuration.problem().map(|problem| format!("{}: {}", problem.message, problem.fix));
        omit(&mut found, why, message);
        return found;
    };
    match source.read(path) {
        Content::Unreadable(message) => omit(&mut found, Omitted::Unreadable, Some(message)),
        Content::TooLarge(bytes) => {
            found.bytes = bytes;
            let message = format!("it has {bytes} bytes; at most {} are read", limits::CONFIG_MAX);
            omit(&mut found, Omitted::TooLarge, Some(message));
        }
        Content::Bytes(bytes) => {
            found.bytes = bytes.len() as u64;
            found.sha256 = crate::shim::capture::to_hex(&Sha256::digest(&bytes));
            match String::from_utf8(bytes) {
                Err(error) => {
                    let at = error.utf8_error().valid_up_to();
                    omit(&mut found, Omitted::NotUtf8, Some(format!("it is not UTF-8: see byte {at}")));
                }
                Ok(text) if text.len() > limits::CONFIG_INLINE => omit(&mut found, Omitted::Large, None),
                Ok(text) => found.content = Some(text),
            }
        }
    }
    found
}

/// The document: the last configurations' contents are left out until it fits.
///
/// # Errors
/// It can't be made to fit; nothing in it is that large.
pub fn to_document(report: &mut CheckoutReport) -> serde_json::Result<String> {
    let mut document = serde_json::to_string(report)?;
    let mut from_end = report.devcontainers.len();
    while document.len() > limits::CHECKOUT_REPORT && from_end > 0 {
        // Enough at once that few rounds are needed.
        let mut excess = document.len() - limits::CHECKOUT_REPORT;
        while excess > 0 && from_end > 0 {
            from_end -= 1;
            let found = &mut report.devcontainers[from_end];
            if let Some(content) = found.content.take() {
                excess = excess.saturating_sub(serde_json::to_string(&content)?.len());
                found.omitted = Some(Omitted::DocumentFull);
            }
        }
        document = serde_json::to_string(report)?;
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_given_by_its_digest() {
        let one = |number: usize| FoundConfiguration {
            config_path: format!("{number:03}/.devcontainer.json"),
            bytes: 16 * 1024,
            sha256: "0".repeat(64),
            content: Some("\u{1}".repeat(16 * 1024)),
            omitted: None,
            message: None,
            link_target: None,
            source_digest: None,
        };
        let devcontainers = (0..500).map(one).collect();
        let mut report = CheckoutReport { discovered: true, devcontainers, ..CheckoutReport::default() };
        let document = to_document(&mut report).unwrap();
        assert!(document.len() <= limits::CHECKOUT_REPORT);
        assert!(report.devcontainers[0].content.is_some());
        assert_eq!(report.devcontainers[499].omitted, Some(Omitted::DocumentFull));
        assert_eq!(serde_json::from_str::<CheckoutReport>(&document).unwrap(), report);
    }
}
