//! Reads the operator's configuration file, at the start and when it changes. What it means is decided in `domain`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use drydock_domain::settings::{Configuration, SettingError};
use serde_json::Value;

use crate::context::Context;
use crate::health::Health;

/// How often the file is looked at. A mounted ConfigMap follows its object within a minute or so.
const LOOK: Duration = Duration::from_secs(10);
/// Longest file, in bytes: as much as a ConfigMap can hold.
const LONGEST: u64 = 1024 * 1024;

/// Why a configuration isn't taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file can't be read.
    #[error("{path} can't be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file isn't YAML.
    #[error("{path} isn't YAML: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// Entries are bad: each is named.
    #[error("{path} has bad entries: {}", listed(.entries))]
    Entries {
        /// The file.
        path: PathBuf,
        /// All of them.
        entries: Vec<SettingError>,
    },
}

fn listed(entries: &[SettingError]) -> String {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Reads the file.
///
/// # Errors
/// When it can't be read, isn't YAML, or has bad entries, each of which is named.
pub async fn read(path: &Path) -> Result<Configuration, ConfigurationError> {
    parse(path, &content(path).await?)
}

/// Follows the file for ever: a changed one that is good is put in force, a bad one is told by readiness and the log.
pub async fn follow(path: PathBuf, context: Arc<Context>, health: Arc<Health>) {
    let mut last = content(&path).await.ok();
    loop {
        tokio::time::sleep(LOOK).await;
        let found = match content(&path).await {
            Ok(found) if Some(&found) == last.as_ref() => continue,
            found => found,
        };
        let read = found.and_then(|content| {
            last = Some(content.clone());
            parse(&path, &content)
        });
        match read {
            Ok(configuration) => {
                health.set_configuration(None);
                if *context.configuration() != configuration {
                    tracing::info!("a changed configuration is in force");
                    context.set_configuration(configuration);
                }
            }
            Err(error) => {
                let error = crate::reconcile::chain(&error);
                tracing::error!(error, "the changed configuration isn't taken: the old one stays in force");
                health.set_configuration(Some(format!("the changed configuration isn't taken: {error}")));
            }
        }
    }
}

async fn content(path: &Path) -> Result<String, ConfigurationError> {
    let read = async {
        let size = tokio::fs::metadata(path).await?.len();
        if size > LONGEST {
            return Err(std::io::Error::other(format!("it has {size} bytes; at most {LONGEST} are read")));
        }
        tokio::fs::read_to_string(path).await
    };
    read.await.map_err(|source| ConfigurationError::Read { path: path.to_owned(), source })
}

fn parse(path: &Path, content: &str) -> Result<Configuration, ConfigurationError> {
    let file: Value = serde_saphyr::from_str(content)
        .map_err(|error| ConfigurationError::Syntax { path: path.to_owned(), message: error.to_string() })?;
    Configuration::read(&file)
        .map_err(|entries| ConfigurationError::Entries { path: path.to_owned(), entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(content: &str) -> Result<Configuration, String> {
        parse(Path::new("config.yaml"), content).map_err(|e| e.to_string())
    }

    #[test]
    fn each_bad_entry_is_named_and_a_broken_file_by_its_place() {
        let good = parsed("apiVersion: drydock.dev/config/v1alpha1\nruns:\n  timeout: 5m\n").unwrap();
        assert_eq!(good.of("any").runs.timeout.0, Duration::from_secs(300));
        let bad = parsed(
            "apiVersion: drydock.dev/config/v1alpha1\nruns:\n  maxConcurrentRuns: 0\n  ttl: 1h\nenvironments:\n  idleTimeout: 0s\n",
        );
        let bad = bad.unwrap_err();
        assert!(bad.contains("runs.maxConcurrentRuns") && bad.contains("environments.idleTimeout"), "{bad}");
        assert!(parsed("runs: [").unwrap_err().contains("isn't YAML"));
    }
}
