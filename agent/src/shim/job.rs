//! The job of a shim, as bytes in a memory file: a small header, then the request as it came.

use std::io;
use std::path::PathBuf;

use drydock_protocol::agent::StartRequest;
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::runs::kept::Kept;

/// What `serve` adds to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The run's folder.
    pub dir: PathBuf,
    /// The user where the request names none; empty: the agent's own.
    pub default_user: String,
    /// The working directory where the request names none; empty: the user's home.
    pub default_directory: String,
    /// Monotonic milliseconds at the acceptance.
    pub accepted_ms: u64,
    /// What is kept of each stream.
    pub kept: Kept,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What `serve` adds.
    pub header: Header,
    /// What was asked for.
    pub request: StartRequest,
}

impl Job {
    /// As bytes.
    ///
    /// # Errors
    /// A path that isn't UTF-8.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let header = serde_json::to_vec(&self.header)?;
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(4 + header.len() + self.request.encoded_len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&header);
        self.request.encode(&mut bytes).map_err(io::Error::other)?;
        Ok(bytes)
    }

    /// From bytes.
    ///
    /// # Errors
    /// Anything that [`Self::encode`] doesn't make.
    pub fn decode(bytes: &[u8]) -> io::Result<Self> {
        let broken = || io::Error::other("the job is cut short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(broken)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (header, request) = rest.split_at_checked(length).ok_or_else(broken)?;
        Ok(Self {
            header: serde_json::from_slice(header)?,
            request: StartRequest::decode(request).map_err(io::Error::other)?,
        })
    }
}
