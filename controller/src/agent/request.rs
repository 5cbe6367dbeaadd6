//! An attempt as it goes over the wire. Values of Secrets and ConfigMaps are read now, and are nowhere else.

use domain::agent::{StartCall, Variable, VariableValue, What};
use drydock_domain as domain;
use drydock_protocol::agent::{Argv, EnvironmentVariable, StartRequest, Streams, start_request};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::act::DEADLINE;

/// Why an attempt can't be sent.
pub(super) enum Unsent {
    /// It never can: what is wrong, for people.
    Never(String),
    /// Not now: the API server doesn't answer.
    Now(String),
}

/// Makes the request; `epoch` is the fencing epoch.
pub(super) async fn request(client: &Client, call: &StartCall, epoch: u64) -> Result<StartRequest, Unsent> {
    let mut env = Vec::with_capacity(call.env.len());
    let mut values = Values { client, namespace: &call.run.namespace, secrets: Vec::new() };
    for variable in &call.env {
        values.read(variable, &mut env).await?;
    }
    let (what, script_args) = match &call.what {
        What::Argv(args) => {
            let args = args.iter().map(|a| a.clone().into_bytes()).collect();
            (start_request::What::Argv(Argv { args }), Vec::new())
        }
        What::Script { text, args } => {
            let args = args.iter().map(|a| a.clone().into_bytes()).collect();
            (start_request::What::Script(text.clone().into_bytes()), args)
        }
    };
    let streams = if call.combined { Streams::Combined } else { Streams::Separate };
    Ok(StartRequest {
        epoch,
        run_uid: call.run.uid.clone(),
        attempt: call.attempt,
        boot_id: call.boot_id.clone(),
        env,
        stdin: call.stdin.clone(),
        user: call.user.clone(),
        working_directory: call.working_directory.clone(),
        nearest_directory: call.nearest_directory,
        timeout_ms: call.timeout_ms,
        grace_ms: 0,
        output_limit: call.output_limit,
        streams: streams.into(),
        keep_background: call.keep_background,
        script_args,
        what: Some(what),
    })
}

/// Reads values, each Secret once.
struct Values<'a> {
    client: &'a Client,
    namespace: &'a str,
    secrets: Vec<(String, Secret)>,
}

impl Values<'_> {
    async fn read(&mut self, variable: &Variable, env: &mut Vec<EnvironmentVariable>) -> Result<(), Unsent> {
        let name = variable.name.clone();
        let value =
            match &variable.value {
                VariableValue::Literal(value) => value.clone().into_bytes(),
                VariableValue::Secret(key) => {
                    let secret = self.secret(&key.name).await?;
                    let found = secret.data.as_ref().and_then(|d| d.get(&key.key));
                    found.map(|v| v.0.clone()).ok_or_else(|| missing("Secret", &key.name, &key.key))?
                }
                VariableValue::ConfigMap(key) => {
                    let map = self.config_map(&key.name).await?;
                    let found = map.data.as_ref().and_then(|d| d.get(&key.key));
                    found
                        .map(|v| v.clone().into_bytes())
                        .ok_or_else(|| missing("ConfigMap", &key.name, &key.key))?
                }
                VariableValue::WholeSecret(secret) => {
                    let secret = self.secret(secret).await?;
                    let all = secret.data.iter().flatten().filter(|(name, _)| is_variable(name));
                    env.extend(all.map(|(name, value)| EnvironmentVariable {
                        name: name.clone(),
                        value: value.0.clone(),
                    }));
                    return Ok(());
                }
            };
        env.push(EnvironmentVariable { name, value });
        Ok(())
    }

    async fn secret(&mut self, name: &str) -> Result<&Secret, Unsent> {
        if let Some(at) = self.secrets.iter().position(|(known, _)| known == name) {
            return Ok(&self.secrets[at].1);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        let secret = found("Secret", name, timeout(DEADLINE, api.get_opt(name)).await)?;
        self.secrets.push((name.to_owned(), secret));
        let last = self.secrets.len() - 1;
        Ok(&self.secrets[last].1)
    }

    async fn config_map(&self, name: &str) -> Result<ConfigMap, Unsent> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        found("ConfigMap", name, timeout(DEADLINE, api.get_opt(name)).await)
    }
}

type Answer<T> = Result<kube::Result<Option<T>>, tokio::time::error::Elapsed>;

fn found<T>(kind: &str, name: &str, answer: Answer<T>) -> Result<T, Unsent> {
    match answer {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => Err(Unsent::Never(format!("the {kind} {name} isn't there"))),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Err(Unsent::Never(format!("the controller may not read the {kind} {name}")))
        }
        Ok(Err(error)) => Err(Unsent::Now(error.to_string())),
        Err(_) => Err(Unsent::Now(format!("the {kind} {name}: no answer in time"))),
    }
}

fn missing(kind: &str, name: &str, key: &str) -> Unsent {
    Unsent::Never(format!("the {kind} {name} has no key {key}"))
}

/// The names that the protocol takes.
fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        && !name.starts_with("DRYDOCK_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_no_variables_are_left_out_of_a_whole_secret() {
        for (name, is) in [
            ("TOKEN", true),
            ("a.b-c", true),
            ("1A", false),
            ("", false),
            ("DRYDOCK_X", false),
            ("a b", false),
        ] {
            assert_eq!(is_variable(name), is, "{name}");
        }
    }
}
