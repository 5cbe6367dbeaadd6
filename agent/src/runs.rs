//! The runs of this container: what is known of each attempt, on disk and in memory, and what may be asked of it.
//!
//! The folder of an attempt is the truth ([`crate::paths::RunDir`]); memory holds the unfinished ones and the order of the
//! finished ones. An attempt is claimed by making its folder, which only one call can do.

pub mod active;
pub mod follow;
pub mod journal;
pub mod kept;
mod launch;
pub mod output;
pub mod record;
mod recover;
pub mod registry;
pub mod request;
pub mod retention;
pub mod watch;
