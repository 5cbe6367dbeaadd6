//! What works here, for people and clients: one ConfigMap in the operator's namespace, written only when it says something else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drydock_crds::label;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::time::timeout;

use crate::act::DEADLINE;
use crate::context::Context;

/// The ConfigMap's name.
pub const NAME: &str = "drydock-status";
/// How often it is looked after, beside changes of the configuration.
const LOOK: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_secs(10);

/// Keeps the ConfigMap right for ever.
pub async fn publish(context: Arc<Context>) {
    let mut changes = context.configuration_changes();
    loop {
        let wait = match timeout(DEADLINE, write(&context)).await {
            Ok(Ok(())) => LOOK,
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "the ConfigMap {NAME} wasn't written");
                RETRY
            }
            Err(_) => RETRY,
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            Ok(()) = changes.changed() => {}
        }
    }
}

async fn write(context: &Context) -> kube::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.namespace);
    let wanted = content(context);
    if maps.get_opt(NAME).await?.and_then(|there| there.data).as_ref() == Some(&wanted) {
        return Ok(());
    }
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(BTreeMap::from([(label::MANAGED_BY.to_owned(), label::MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(wanted),
        ..ConfigMap::default()
    };
    maps.patch(NAME, &PatchParams::apply(label::FIELD_MANAGER).force(), &Patch::Apply(&map)).await?;
    Ok(())
}

fn content(context: &Context) -> BTreeMap<String, String> {
    let configuration = context.configuration();
    let general = &configuration.general;
    let mut content = BTreeMap::from([
        ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("environments.enabled".to_owned(), general.environments.enabled.to_string()),
        ("runs.hostPolicy".to_owned(), general.runs.host_policy.to_string()),
        ("runs.maxTimeout".to_owned(), format!("{}s", general.runs.max_timeout.0.as_secs())),
    ]);
    for (namespace, settings) in &configuration.namespaces {
        if settings.environments.enabled != general.environments.enabled {
            let enabled = settings.environments.enabled.to_string();
            content.insert(format!("namespaces.{namespace}.environments.enabled"), enabled);
        }
        if settings.runs.host_policy != general.runs.host_policy {
            let policy = settings.runs.host_policy.to_string();
            content.insert(format!("namespaces.{namespace}.runs.hostPolicy"), policy);
        }
    }
    content
}
