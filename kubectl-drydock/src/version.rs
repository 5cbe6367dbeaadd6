//! `version`: client, controller and definitions, and whether they fit.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::connection::Connection;
use crate::explain::operator;
use crate::failure::{Asked, Failure, within};
use crate::{exit, output};

/// The definition that is looked at.
const DEFINITION: &str = "toolruns.drydock.dev";

/// Writes the versions; 1 where they don't fit.
pub(crate) async fn version(connection: &Connection, global: &Global) -> Result<u8, Failure> {
    let client = env!("CARGO_PKG_VERSION");
    let (definitions, fits, note) = definitions(connection).await;
    let controller = operator::status(connection, &global.operator_namespace).await;
    let controller = controller.ok().and_then(|c| c.version).unwrap_or_else(|| "unknown".to_owned());
    let value: Value =
        json!({"client": client, "controller": controller, "definitions": definitions, "fits": fits});
    let text = output::document(&global.output, client, &value).unwrap_or_else(|| {
        let fit = match fits {
            Some(true) => "they fit".to_owned(),
            Some(false) => format!("this client needs {}", drydock_crds::VERSION),
            None => note,
        };
        let rows =
            [("client", client, ""), ("controller", &controller, ""), ("definitions", &definitions, &fit)];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(a, b, c)| vec![(*a).to_owned(), (*b).to_owned(), (*c).to_owned()]).collect();
        output::table(&["PART", "VERSION", "NOTE"], &rows, !global.no_headers)
    });
    output::write(&text);
    Ok(if fits == Some(false) { exit::FAILED } else { exit::DONE })
}

/// The served versions, whether ours is among them, and why that isn't known.
async fn definitions(connection: &Connection) -> (String, Option<bool>, String) {
    let api = Api::<CustomResourceDefinition>::all(connection.client.clone());
    let asked = Asked {
        verb: "get",
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        name: Some(DEFINITION),
        namespace: "",
    };
    match within(connection.request_timeout, &asked, api.get_opt(DEFINITION)).await {
        Ok(Some(definition)) => {
            let served = definition.spec.versions.iter().filter(|v| v.served);
            let served: Vec<String> = served.map(|v| v.name.clone()).collect();
            let fits = served.iter().any(|v| v == drydock_crds::VERSION);
            (served.join(","), Some(fits), String::new())
        }
        Ok(None) => ("not installed".to_owned(), Some(false), String::new()),
        Err(failure) => ("unknown".to_owned(), None, failure.headline.clone()),
    }
}
