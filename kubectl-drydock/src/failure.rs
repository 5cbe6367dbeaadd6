//! What is said when something didn't work.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::exit;
use crate::text::line;

/// A failure, told in at most five lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure(Box<Parts>);

/// What a failure says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// `kind/name`.
    pub(crate) object: Option<String>,
    /// What didn't happen, with the object.
    pub(crate) headline: String,
    /// The reason as conditions have it.
    pub(crate) reason: String,
    /// More about the cause.
    pub(crate) why: Option<String>,
    /// File, line and column.
    pub(crate) at: Option<String>,
    /// The command that shows the log.
    pub(crate) log: Option<String>,
    /// What to do.
    pub(crate) then: Option<String>,
    /// The exit code; none: the verb's own.
    pub(crate) code: Option<u8>,
}

impl std::ops::Deref for Failure {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::ops::DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl Failure {
    /// A failure with a reason.
    pub(crate) fn new(reason: &str, headline: impl Into<String>) -> Self {
        Self(Box::new(Parts { headline: headline.into(), reason: reason.to_owned(), ..Parts::default() }))
    }

    /// Wrong usage.
    pub(crate) fn usage(headline: impl Into<String>) -> Self {
        let mut failure = Self::new("Usage", headline);
        failure.code = Some(exit::USAGE);
        failure
    }

    pub(crate) fn object(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    pub(crate) fn then(mut self, then: impl Into<String>) -> Self {
        self.then = Some(then.into());
        self
    }

    /// A call of the API server that failed: what was asked of it, in which namespace.
    pub(crate) fn of_call(error: &kube::Error, asked: &Asked<'_>) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                let headline = format!("no right to {asked}");
                Self::new("Forbidden", headline).why(status.message.clone()).then(format!(
                    "ask for the verb {:?} on {:?} (API group {:?}) in namespace {}",
                    asked.verb, asked.resource, asked.group, asked.namespace
                ))
            }
            kube::Error::Api(status) if status.code == 401 => {
                Self::new("Unauthorized", "the cluster doesn't know you").then("log in to the cluster again")
            }
            kube::Error::Api(status) if status.code == 404 && asked.name.is_none() => {
                Self::new("NotInstalled", format!("the cluster has no {}", asked.resource))
                    .then("install Drydock: helm install drydock …")
            }
            kube::Error::Api(status) => {
                Self::new(&status.reason, format!("can't {asked}")).why(status.message.clone())
            }
            other => Self::new("NoCluster", "the cluster can't be reached").why(chain(other)),
        }
    }

    /// The lines for a person.
    pub(crate) fn lines(&self) -> String {
        let mut out = format!("error: {}", line(&self.headline));
        for (name, part) in [("why", &self.why), ("at", &self.at), ("log", &self.log), ("then", &self.then)] {
            if let Some(part) = part {
                let _ = write!(out, "\n  {name:<4}  {}", line(part));
            }
        }
        out
    }

    /// The object for a machine.
    pub(crate) fn json(&self) -> Value {
        let mut error = json!({"reason": self.reason, "message": line(&self.headline)});
        for (name, part) in [("object", &self.object), ("at", &self.at), ("then", &self.then)] {
            if let Some(part) = part {
                error[name] = json!(part);
            }
        }
        if let Some(why) = &self.why {
            error["message"] = json!(format!("{}: {}", line(&self.headline), line(why)));
        }
        json!({"error": error})
    }
}

/// What was asked of the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The verb of RBAC.
    pub(crate) verb: &'a str,
    /// The API group.
    pub(crate) group: &'a str,
    /// The plural of the kind.
    pub(crate) resource: &'a str,
    /// One object of it.
    pub(crate) name: Option<&'a str>,
    /// The namespace.
    pub(crate) namespace: &'a str,
}

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = self.name {
            write!(f, "/{name}")?;
        }
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {}", self.namespace) }
    }
}

/// An error with its sources, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            let _ = write!(text, ": {next}");
        }
        source = error.source();
    }
    line(&text)
}

/// Bounds a call by the request timeout; zero: none.
pub(crate) async fn within<T>(
    limit: Duration,
    asked: &Asked<'_>,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    let result = if limit.is_zero() {
        call.await
    } else {
        match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => {
                let headline = format!("no answer to {asked} within {}", crate::duration::show(limit));
                return Err(Failure::new("NoCluster", headline).then("try again, or raise --request-timeout"));
            }
        }
    };
    result.map_err(|error| Failure::of_call(&error, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_json() {
        let mut failure = Failure::new("BuildFailed", "dc/web can't start: BuildFailed\u{1b}[2J in step 3/5")
            .object("dc/web")
            .why("E: Unable to\nlocate package")
            .then("fix it");
        failure.at = Some("services/web/.devcontainer/devcontainer.json:12:5".into());
        failure.log = Some("kubectl drydock logs dc/web --build".into());
        assert_eq!(
            failure.lines(),
            "error: dc/web can't start: BuildFailed in step 3/5\n  why   E: Unable to locate package\n  at    \
             services/web/.devcontainer/devcontainer.json:12:5\n  log   kubectl drydock logs dc/web --build\n  then  fix it"
        );
        assert_eq!(
            failure.json(),
            json!({"error": {
                "reason": "BuildFailed", "object": "dc/web", "then": "fix it",
                "at": "services/web/.devcontainer/devcontainer.json:12:5",
                "message": "dc/web can't start: BuildFailed in step 3/5: E: Unable to locate package"
            }})
        );
    }

    #[test]
    fn a_missing_right_names_verb_resource_and_namespace() {
        let asked = Asked {
            verb: "create",
            group: "drydock.dev",
            resource: "toolruns",
            name: None,
            namespace: "team",
        };
        let status = kube::core::Status {
            code: 403,
            message: "no".into(),
            reason: "Forbidden".into(),
            ..kube::core::Status::default()
        };
        let failure = Failure::of_call(&kube::Error::Api(Box::new(status)), &asked);
        assert_eq!(failure.headline, "no right to create toolruns in namespace team");
        assert!(failure.then.as_ref().unwrap().contains("\"create\" on \"toolruns\""));
    }
}
