//! The fencing epoch and the seal: who may still give orders, and whether runs may begin. Kept in a file, so that neither
//! is forgotten when `serve` is restarted.

use std::io;
use std::path::PathBuf;

use drydock_protocol::agent::Refusal;
use drydock_protocol::agent::refusal::Reason;
use serde::{Deserialize, Serialize};

use crate::paths::{read_json, write_whole};
use crate::runs::journal::refusal;

/// The state and its file.
#[derive(Debug)]
pub struct Fence {
    file: PathBuf,
    kept: Kept,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    epoch: u64,
    sealed: bool,
    boot_id: String,
}

impl Fence {
    /// Reads the file. A seal holds for the boot in which it was made; an epoch for ever.
    #[must_use]
    pub fn open(file: PathBuf, boot_id: &str) -> Self {
        let found: Kept = read_json(&file).unwrap_or_default();
        let sealed = found.sealed && found.boot_id == boot_id;
        Self { file, kept: Kept { sealed, boot_id: boot_id.to_owned(), ..found } }
    }

    /// Lets a caller through, or not. A higher epoch than any seen is recorded, and every lower one refused from then on.
    ///
    /// # Errors
    /// `STALE_EPOCH`; `JOURNAL_FAILED` when the record can't be written.
    pub fn admit(&mut self, epoch: u64, needed: bool) -> Result<(), Refusal> {
        if epoch == 0 {
            return if needed {
                Err(refusal(Reason::StaleEpoch, "this call needs a fencing epoch"))
            } else {
                Ok(())
            };
        }
        if epoch < self.kept.epoch {
            let message = format!("epoch {epoch} is older than {}", self.kept.epoch);
            return Err(refusal(Reason::StaleEpoch, message));
        }
        if epoch > self.kept.epoch {
            self.write(Kept { epoch, ..self.kept.clone() }).map_err(|error| {
                refusal(Reason::JournalFailed, format!("the epoch could not be recorded: {error}"))
            })?;
        }
        Ok(())
    }

    /// Whether starts are refused.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.kept.sealed
    }

    /// Seals or unseals.
    ///
    /// # Errors
    /// The record can't be written; nothing has changed then.
    pub fn set_sealed(&mut self, sealed: bool) -> io::Result<()> {
        self.write(Kept { sealed, ..self.kept.clone() })
    }

    fn write(&mut self, kept: Kept) -> io::Result<()> {
        write_whole(&self.file, &serde_json::to_vec(&kept)?)?;
        self.kept = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_only_rise_and_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Fence::open(dir.path().join("fence.json"), "boot");
        let mut fence = open();
        assert!(fence.admit(7, true).is_ok());
        assert!(fence.admit(7, true).is_ok());
        assert_eq!(fence.admit(6, false).unwrap_err().reason(), Reason::StaleEpoch);
        assert!(fence.admit(0, false).is_ok());
        assert_eq!(fence.admit(0, true).unwrap_err().reason(), Reason::StaleEpoch);
        assert_eq!(open().admit(6, true).unwrap_err().reason(), Reason::StaleEpoch);
    }

    #[test]
    fn a_seal_holds_for_its_boot() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("fence.json");
        Fence::open(file.clone(), "one").set_sealed(true).unwrap();
        assert!(Fence::open(file.clone(), "one").is_sealed());
        assert!(!Fence::open(file, "two").is_sealed());
    }
}
