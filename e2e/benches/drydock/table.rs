//! The one table at the end.

use crate::process;
use crate::statistics::Spread;

/// A bound that a quantile should keep.
pub(crate) struct Aim {
    quantile: &'static str,
    milliseconds: f64,
}

impl Aim {
    /// `quantile` is `p50` or `p99`.
    pub(crate) fn new(quantile: &'static str, milliseconds: f64) -> Self {
        Self { quantile, milliseconds }
    }

    fn show(&self, spread: &Spread) -> String {
        let found = spread.quantile(if self.quantile == "p50" { 0.5 } else { 0.99 });
        let verdict = if found <= self.milliseconds { "met" } else { "missed" };
        format!("{} \u{2264} {} {verdict}", self.quantile, self.milliseconds)
    }
}

/// Rows of what, how much and the aim, with the machine's load when each was taken.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
    /// Bare cycles a second.
    pub(crate) ceiling: Option<f64>,
}

impl Table {
    /// Adds a row, and shows it at once.
    pub(crate) fn row(&mut self, what: &str, value: String, aim: String) {
        eprintln!("   {what}: {value}");
        self.rows.push([what.to_owned(), value, aim, process::load_average()]);
    }

    /// Adds durations.
    pub(crate) fn milliseconds(&mut self, what: &str, spread: &Spread, aims: &[Aim]) {
        let aims: Vec<String> = aims.iter().map(|aim| aim.show(spread)).collect();
        self.row(what, spread.to_string(), aims.join(", "));
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        println!("\n{}\n", process::machine());
        let head = ["what", "measured", "aim", "load"].map(str::to_owned);
        let all: Vec<&[String; 4]> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (what, measured, aim) = (width(0), width(1), width(2));
        for [name, value, aims, load] in all {
            println!("{name:what$}  {value:measured$}  {aims:aim$}  {load}");
        }
    }
}
