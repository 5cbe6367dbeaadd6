//! Many finished runs: what keeping them costs, and whether their deletion keeps up.

use std::time::{Duration, Instant};

use anyhow::Result;
use drydock_crds::ToolRun;
use kube::api::ListParams;

use crate::load;
use crate::process::Processes;
use crate::site::{Site, retained};
use crate::table::Table;

/// How long nothing happens while it is measured.
const QUIET: Duration = Duration::from_secs(20);
/// What the sweep leaves.
const KEPT: u32 = 1000;
/// Creates a second while it sweeps.
const RATE: u32 = 50;

/// Memory and processor of controller and agent: idle, then with that many finished runs.
///
/// # Errors
/// When a run fails.
pub(crate) async fn run(site: &Site, table: &mut Table, runs: usize) -> Result<()> {
    let processes = site.processes().await?;
    let (controller, agent) = (&processes.controller, &processes.agent);
    let before = stored(site).await?;
    let (first, second) = tokio::join!(controller.over(QUIET), agent.over(QUIET));
    table.row(&format!("controller, idle, {before} runs"), first, String::new());
    table.row(&format!("agent, idle, {before} runs"), second, "\u{2264} 16 MB".to_owned());
    let made = runs.saturating_sub(before);
    if made > 0 {
        let used = processes.usage();
        let (spread, rate) = load::in_flight(site, 64, made, false).await?;
        let spent = processes.since(&used, made);
        let row = format!("{rate:.0}/s; {spread}; {spent}");
        table.row(&format!("{made} more runs, 64 in flight"), row, String::new());
    }
    let count = stored(site).await?;
    let (first, second) = tokio::join!(controller.over(QUIET), agent.over(QUIET));
    table.row(&format!("controller, idle, {count} runs"), first, "\u{2264} 150 MB".to_owned());
    table.row(&format!("agent, idle, {count} runs"), second, "\u{2264} 16 MB".to_owned());
    let (spread, _) = load::sequential(site, 100).await?;
    table.milliseconds(&format!("overhead one by one beside {count} runs"), &spread, &[]);
    Ok(())
}

/// Lets the controller keep a thousand only, and creates on for a while.
///
/// # Errors
/// When a run fails.
pub(crate) async fn sweep(site: &Site, table: &mut Table, seconds: usize) -> Result<()> {
    let before = stored(site).await?;
    site.scene.drydock.upgrade(&[retained(KEPT)]).await?;
    let begin = Instant::now();
    let spread = load::at_rate(site, RATE, Duration::from_secs(seconds as u64)).await?;
    let controller = Processes::of(&site.controller_pod().await?)?;
    let after = stored(site).await?;
    let made = RATE as usize * seconds;
    let deleted = (before + made).saturating_sub(after);
    table.row(
        &format!("sweep of {before} runs under {RATE} a second"),
        format!("{deleted} deleted in {:.0} s, {after} left; {spread}", begin.elapsed().as_secs_f64()),
        "more than made".to_owned(),
    );
    table.row("controller after the sweep", controller.over(QUIET).await, "\u{2264} 150 MB".to_owned());
    Ok(())
}

async fn stored(site: &Site) -> Result<usize> {
    let page = site.scene.api::<ToolRun>().list_metadata(&ListParams::default().limit(1)).await?;
    let more = page.metadata.remaining_item_count.unwrap_or(0);
    Ok(page.items.len() + usize::try_from(more).unwrap_or(0))
}
