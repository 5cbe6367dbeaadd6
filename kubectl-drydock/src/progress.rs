//! What is under way, on stderr: one changing line on a terminal, else a line a transition.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::cli::Global;
use crate::duration;
use crate::text::line;

/// A state that is over sooner isn't worth a line.
pub(crate) const DELAY: Duration = Duration::from_millis(300);

/// The line on stderr.
pub(crate) struct Progress {
    terminal: bool,
    quiet: bool,
    verbose: bool,
    begun: Instant,
    /// What is under way and not yet said, and since when.
    pending: Option<(String, Instant)>,
    said: Option<String>,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            quiet: global.quiet,
            verbose: global.verbose,
            begun: Instant::now(),
            pending: None,
            said: None,
            shown: false,
        }
    }

    /// Something else is under way; said by [`Self::tick`] if it lasts.
    pub(crate) fn state(&mut self, text: &str) {
        let text = line(text);
        let current = self.pending.as_ref().map(|(t, _)| t).or(self.said.as_ref());
        if !text.is_empty() && current != Some(&text) {
            self.pending = Some((text, Instant::now()));
        }
    }

    /// When [`Self::tick`] has something to say.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(_, since)| *since + if self.verbose { Duration::ZERO } else { DELAY })
    }

    /// Says what has lasted long enough.
    pub(crate) fn tick(&mut self) {
        if self.due().is_some_and(|due| due <= Instant::now())
            && let Some((text, _)) = self.pending.take()
        {
            let elapsed = duration::show(self.begun.elapsed());
            self.show(&format!("{text} ({elapsed})"));
            self.said = Some(text);
        }
    }

    fn show(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        let mut stderr = std::io::stderr().lock();
        if self.terminal {
            let _ = write!(stderr, "\r\u{1b}[K{text}");
            let _ = stderr.flush();
            self.shown = true;
        } else {
            let _ = writeln!(stderr, "{text}");
        }
    }

    /// Takes the changing line away, before anything else is written.
    pub(crate) fn clear(&mut self) {
        self.pending = None;
        if std::mem::take(&mut self.shown) {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\u{1b}[K");
            let _ = stderr.flush();
        }
    }

    /// A line that stays.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{}", line(text));
        }
    }

    /// The last line of something that was long enough to be told of.
    pub(crate) fn done(&mut self, text: &str) {
        self.clear();
        if self.said.is_some() || self.verbose {
            self.note(&format!("{text} in {}", duration::show(self.begun.elapsed())));
        }
    }
}
