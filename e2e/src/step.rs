//! Progress that is never silent for long, and the table at its end.

#![expect(clippy::print_stdout, reason = "the demo answers on standard output")]

use std::future::Future;
use std::time::{Duration, Instant};

/// After how long something that takes its time says so again.
const SILENCE: Duration = Duration::from_secs(10);

/// Steps of a demonstration, with their durations.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(String, Duration, String)>,
}

impl Steps {
    /// Carries a step out. `look` says where to look next.
    ///
    /// # Errors
    /// What the step fails with.
    pub async fn step<T, E>(
        &mut self,
        title: &str,
        look: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        println!("\n\u{2500}\u{2500} {}. {title}", self.done.len() + 1);
        let start = Instant::now();
        let result = heartbeat(title, work).await?;
        self.done.push((title.to_owned(), start.elapsed(), look.to_owned()));
        Ok(result)
    }

    /// Prints each step with its duration and where to look next.
    pub fn table(&self) {
        let title = self.done.iter().map(|(t, ..)| t.chars().count()).max().unwrap_or(4);
        println!("\n{:title$}  {:>8}  look next", "step", "took");
        for (name, took, look) in &self.done {
            println!("{name:title$}  {:>7.2}s  {look}", took.as_secs_f64());
        }
    }
}

/// Waits for `work`, saying every ten seconds that it still goes on.
pub async fn heartbeat<T>(what: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(SILENCE, &mut work).await {
            Ok(done) => return done,
            Err(_) => eprintln!("   … {what}: {} s", start.elapsed().as_secs()),
        }
    }
}
