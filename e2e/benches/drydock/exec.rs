//! The yardstick that everybody knows: `kubectl exec` of the same command in the same pod.

use std::time::Instant;

use anyhow::Result;
use kube::ResourceExt;

use crate::site::Site;
use crate::statistics::Spread;

/// One after the other.
///
/// # Errors
/// When kubectl fails.
pub(crate) async fn run(site: &Site, times: usize) -> Result<Spread> {
    let pod = site.environment_pod().await?;
    let container = pod.spec.as_ref().and_then(|s| s.containers.first()).map_or("", |c| c.name.as_str());
    let (name, namespace) = (pod.name_any(), site.scene.namespace.as_str());
    let mut spent = Vec::new();
    for _ in 0..times {
        let begin = Instant::now();
        site.scene.drydock.kubectl(&["exec", "-n", namespace, "-c", container, &name, "--", "true"]).await?;
        spent.push(begin.elapsed());
    }
    Ok(Spread::of(spent))
}
