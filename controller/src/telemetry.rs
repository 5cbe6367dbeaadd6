//! The log: one JSON object a line on standard error, or plain text for people.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Begins to log. `filter` is a level or a filter in tracing's syntax; one that isn't understood counts as `info`. The audit is always
/// logged.
pub fn start(filter: &str, format: Format) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let filter = match "audit=info".parse() {
        Ok(audit) => filter.add_directive(audit),
        Err(_) => filter,
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) is no fault.
    let _ = match format {
        Format::Json => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
        Format::Text => log.try_init(),
    };
}
