//! Warm runs: one by one, at a rate, and as many at once as told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use crate::site::Site;
use crate::statistics::Spread;

/// One after the other. Answers runs a second too.
///
/// # Errors
/// Of the first run that fails.
pub(crate) async fn sequential(site: &Site, count: usize) -> Result<(Spread, f64)> {
    in_flight(site, 1, count, false).await
}

/// `rate` a second for a while, whatever becomes of those before: a run's time counts from when it was due.
///
/// # Errors
/// Of the first run that fails.
pub(crate) async fn at_rate(site: &Site, rate: u32, time: Duration) -> Result<Spread> {
    let begin = Instant::now();
    let count = (f64::from(rate) * time.as_secs_f64()) as u32;
    let runs = (0..count).map(|n| {
        let due = begin + Duration::from_secs(1) / rate * n;
        async move {
            tokio::time::sleep_until(due.into()).await;
            site.run_from(due).await.map(|(overhead, _)| overhead)
        }
    });
    Ok(Spread::of(try_join_all(runs).await?))
}

/// `places` at once, `count` in all; each is deleted when it has ended if `delete` says so. Answers runs a second too.
///
/// # Errors
/// Of the first run that fails.
pub(crate) async fn in_flight(
    site: &Site,
    places: usize,
    count: usize,
    delete: bool,
) -> Result<(Spread, f64)> {
    let (begin, taken) = (Instant::now(), AtomicUsize::new(0));
    let place = || async {
        let mut spent = Vec::new();
        while taken.fetch_add(1, Ordering::Relaxed) < count {
            let (overhead, name) = site.run_from(Instant::now()).await?;
            spent.push(overhead);
            if delete {
                site.delete(&name).await?;
            }
        }
        anyhow::Ok(spent)
    };
    let spent = try_join_all((0..places).map(|_| place())).await?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    Ok((Spread::of(spent.into_iter().flatten().collect()), rate))
}
