//! How often the API server was written to, as it counts itself.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::Client;

/// Writes of Drydock's kinds, pods and events, by verb and resource.
pub(crate) type Writes = BTreeMap<String, f64>;

/// What was written so far.
///
/// # Errors
/// When the API server's metrics can't be read.
pub(crate) async fn count(client: &Client) -> Result<Writes> {
    let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let mut writes = Writes::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let (verb, resource) = (label("verb").unwrap_or(""), label("resource").unwrap_or(""));
        let ours = label("group") == Some(drydock_crds::GROUP) || ["pods", "events"].contains(&resource);
        if ours && ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb) {
            let subresource = label("subresource").filter(|s| !s.is_empty());
            let what = subresource.map_or_else(|| resource.to_owned(), |s| format!("{resource}/{s}"));
            let count: f64 = line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
            *writes.entry(format!("{verb} {what}")).or_default() += count;
        }
    }
    Ok(writes)
}

/// The difference, for each of `runs`, and what it is made of.
pub(crate) fn per(before: &Writes, after: &Writes, runs: usize) -> (f64, String) {
    let mut total = 0.0;
    let mut parts = Vec::new();
    for (what, count) in after {
        let each = (count - before.get(what).copied().unwrap_or(0.0)) / runs as f64;
        if each > 0.0 {
            total += each;
            parts.push(format!("{each:.2} {what}"));
        }
    }
    (total, parts.join(", "))
}
