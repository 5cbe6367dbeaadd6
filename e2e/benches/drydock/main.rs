//! Measures Drydock on a real cluster, in one run beside `kubectl exec` and beside the API server's own ceiling, and prints one table.
//!
//! Arguments name the sections to measure, `SECTION` or `SECTION=COUNT`; without any it is all of them. What is counted: runs, cycles or
//! starts, in `rates` seconds. The cluster stays for the next time.

#![expect(clippy::print_stdout, reason = "a benchmark answers on standard output")]

mod ceiling;
mod client;
mod exec;
mod history;
mod load;
mod process;
mod site;
mod start;
mod statistics;
mod table;
mod watcher;
mod writes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::table::{Aim, Table};

/// The sections in their order, each with how much of it is measured by default.
const SECTIONS: [(&str, usize); 8] = [
    ("exec", 40),
    ("ceiling", 3000),
    ("sequential", 300),
    ("rates", 15),
    ("throughput", 3000),
    ("start", 8),
    ("history", 10_000),
    ("sweep", 120),
];
/// Rates, in runs a second.
const RATES: [u32; 3] = [10, 50, 100];
/// Runs at once where throughput is measured.
const IN_FLIGHT: usize = 64;

#[tokio::main]
async fn main() -> ExitCode {
    match measure().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            eprintln!("bench: {}", causes.join(": "));
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<()> {
    let asked = asked(std::env::args().skip(1).filter(|argument| argument != "--bench"))?;
    let site = Site::prepare().await?;
    let mut table = Table::default();
    for (section, count) in asked {
        eprintln!("   {section} (load {})", process::load_average());
        match section {
            "exec" => {
                let spread = exec::run(&site, count).await?;
                table.milliseconds("kubectl exec of the same command", &spread, &[]);
            }
            "ceiling" => ceiling(&site, &mut table, count).await?,
            "sequential" => sequential(&site, &mut table, count).await?,
            "rates" => rates(&site, &mut table, count).await?,
            "throughput" => throughput(&site, &mut table, count).await?,
            "start" => start::run(&site, &mut table, count).await?,
            "history" => history::run(&site, &mut table, count).await?,
            _ => history::sweep(&site, &mut table, count).await?,
        }
    }
    site.leave().await?;
    table.print();
    Ok(())
}

/// The sections to measure and how much of each, in the order in which they are asked for.
fn asked(arguments: impl Iterator<Item = String>) -> Result<Vec<(&'static str, usize)>> {
    let mut asked = Vec::new();
    for argument in arguments {
        let (name, count) = argument.split_once('=').unwrap_or((&argument, ""));
        let Some((name, usual)) = SECTIONS.into_iter().find(|(section, _)| *section == name) else {
            bail!("{name:?} is none of {}", SECTIONS.map(|(section, _)| section).join(", "));
        };
        let count = if count.is_empty() { Ok(usual) } else { count.parse() };
        let count = count.ok().filter(|count| *count > 0);
        asked.push((
            name,
            count.with_context(|| format!("{argument:?}: the count must be a number above 0"))?,
        ));
    }
    Ok(if asked.is_empty() { SECTIONS.to_vec() } else { asked })
}

async fn ceiling(site: &Site, table: &mut Table, count: usize) -> Result<()> {
    let (spread, rate) = ceiling::run(site, IN_FLIGHT, count).await?;
    table.milliseconds("bare create + 2 status updates + delete, one by one", &spread, &[]);
    table.ceiling = Some(rate);
    table.row("bare cycles, 64 in flight", format!("{rate:.0}/s"), String::new());
    Ok(())
}

async fn sequential(site: &Site, table: &mut Table, count: usize) -> Result<()> {
    let processes = site.processes().await?;
    let (before, used) = (writes::count(&site.scene.client).await?, processes.usage());
    let (spread, _) = load::sequential(site, count).await?;
    let spent = processes.since(&used, count);
    let after = writes::count(&site.scene.client).await?;
    let aims = [Aim::new("p50", 25.0), Aim::new("p99", 60.0)];
    table.milliseconds("overhead of a warm run, one by one", &spread, &aims);
    let (per_run, what) = writes::per(&before, &after, count);
    table.row("API writes per run", format!("{per_run:.2}: {what}"), "3".to_owned());
    table.row("processor time per run, one by one", spent, String::new());
    Ok(())
}

async fn rates(site: &Site, table: &mut Table, seconds: usize) -> Result<()> {
    for rate in RATES {
        let spread = load::at_rate(site, rate, Duration::from_secs(seconds as u64)).await?;
        let aims = if rate == 50 { vec![Aim::new("p99", 250.0)] } else { Vec::new() };
        table.milliseconds(&format!("overhead at {rate} a second"), &spread, &aims);
    }
    Ok(())
}

async fn throughput(site: &Site, table: &mut Table, count: usize) -> Result<()> {
    for places in [IN_FLIGHT, 16] {
        site.max_concurrent_runs(places).await?;
        let processes = site.processes().await?;
        let used = processes.usage();
        let (spread, rate) = load::in_flight(site, IN_FLIGHT, count, true).await?;
        let spent = processes.since(&used, count);
        let of = table.ceiling.map(|ceiling| format!(", {:.0} % of the ceiling", 100.0 * rate / ceiling));
        let aim = if places == IN_FLIGHT { "≥ 60 %" } else { "" };
        table.row(
            &format!("throughput, 64 in flight, maxConcurrentRuns {places}"),
            format!("{rate:.0}/s{}; {spread}", of.unwrap_or_default()),
            aim.to_owned(),
        );
        table.row(&format!("processor time per run, maxConcurrentRuns {places}"), spent, String::new());
    }
    site.max_concurrent_runs(IN_FLIGHT).await
}
