//! Where a run is to go: the flags that `run` and `explain` share, and the part of a ToolRun's spec they mean.

use clap::Args;
use drydock_crds::reference::LocalRef;
use drydock_crds::tool::{self, Capability, Specific};
use drydock_crds::tool_run::{PathMapping, ToolRunSpec};

use crate::cli::{Preferred, Required};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::place::{self, Place};

/// Where a run is to go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Where {
    /// ws/NAME[/PATH], dc/NAME or ctr/NAME. Default: the plan's or project's.
    #[arg(value_name = "PLACE")]
    pub(crate) place: Option<String>,
    /// A Tool instead of a command; what follows -- are its arguments.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The file or folder worked on, relative to the workspace root.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Which configuration, where a folder has several.
    #[arg(long, value_name = "NAME")]
    pub(crate) config: Option<String>,
    /// The project whose environments count.
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    pub(crate) project: Option<String>,
    /// The plan whose environments count.
    #[arg(long, value_name = "NAME")]
    pub(crate) plan: Option<String>,
    /// Where it must run.
    #[arg(long, value_name = "WHERE")]
    pub(crate) require: Option<Required>,
    /// Where it runs rather.
    #[arg(long, value_name = "WHERE")]
    pub(crate) prefer: Option<Preferred>,
}

impl Where {
    /// The part of the spec that routing reads, without asking the cluster.
    ///
    /// # Errors
    /// Wrong usage.
    pub(crate) fn spec(&self, map_root: Option<&str>) -> Result<ToolRunSpec, Failure> {
        let reference = |flag: &str, name: &Option<String>| {
            name.as_deref()
                .map(|n| {
                    place::name(n)
                        .map(LocalRef::new)
                        .map_err(|why| Failure::usage(format!("{flag} {n}: {why}")))
                })
                .transpose()
        };
        let mut spec = ToolRunSpec {
            tool_ref: reference("--tool", &self.tool)?,
            project_ref: reference("--project", &self.project)?,
            plan_ref: reference("--plan", &self.plan)?,
            path: self.path.clone(),
            config_name: self.config.clone(),
            path_mapping: map_root.map(|root| PathMapping { host_root: root.to_owned() }),
            ..ToolRunSpec::default()
        };
        let mut capability = Capability {
            required: self.require.map(|r| match r {
                Required::Any => tool::Required::Any,
                Required::Container => tool::Required::Container,
                Required::Host => tool::Required::Host,
            }),
            preferred: self.prefer.map(|p| match p {
                Preferred::Container => tool::Preferred::Container,
                Preferred::Host => tool::Preferred::Host,
            }),
            specific: None,
        };
        match self.place()? {
            None => {}
            Some(Place::Workspace { name, path }) => {
                if path.is_some() && self.path.is_some() {
                    return Err(Failure::usage("the path is given twice: in the place and by --path"));
                }
                spec.workspace_ref = Some(LocalRef::new(name));
                spec.path = path.or(spec.path);
            }
            Some(Place::Instance(instance)) => {
                capability.specific = Some(Specific { kind: Some(instance.kind), name: instance.name });
            }
        }
        spec.environment = Some(capability).filter(|c| *c != Capability::default());
        Ok(spec)
    }

    /// [`Self::spec`], with the workspace of a named instance where a path is given too.
    pub(crate) async fn resolve(
        &self,
        connection: &Connection,
        map_root: Option<&str>,
    ) -> Result<ToolRunSpec, Failure> {
        let mut spec = self.spec(map_root)?;
        let specific = spec.environment.as_ref().and_then(|e| e.specific.as_ref());
        if let (Some(Specific { kind: Some(kind), name }), Some(_), None) =
            (specific, &spec.path, &spec.plan_ref)
        {
            let workspace = connection.workspace_of(*kind, name).await?;
            spec.workspace_ref = workspace.map(LocalRef::new);
            if spec.workspace_ref.is_none() {
                return Err(Failure::usage(format!(
                    "ctr/{name} is of no workspace that --path could be relative to"
                )));
            }
        }
        Ok(spec)
    }

    fn place(&self) -> Result<Option<Place>, Failure> {
        match self.place.as_deref() {
            None if self.plan.is_some() || self.project.is_some() => Ok(None),
            text => place::parse(text.unwrap_or(".")).map(Some).map_err(Failure::usage),
        }
    }
}

#[cfg(test)]
mod tests {
    use drydock_crds::reference::InstanceKind;

    use super::*;

    fn at(place: &str) -> Where {
        Where { place: Some(place.into()), ..Where::default() }
    }

    #[test]
    fn a_place_becomes_fields() {
        let spec = at("ws/shop/services/api").spec(None).unwrap();
        assert_eq!(spec.workspace_ref, Some(LocalRef::new("shop")));
        assert_eq!(spec.path.as_deref(), Some("services/api"));
        assert_eq!(spec.environment, None);
        let spec = at("dc/web").spec(Some("/home/me")).unwrap();
        let specific = spec.environment.unwrap().specific.unwrap();
        assert_eq!(
            (specific.kind, specific.name.as_str()),
            (Some(InstanceKind::DevcontainerInstance), "web")
        );
        assert_eq!(spec.path_mapping.unwrap().host_root, "/home/me");
        let planned =
            Where { plan: Some("fix".into()), require: Some(Required::Container), ..Where::default() };
        let spec = planned.spec(None).unwrap();
        assert_eq!((spec.plan_ref, spec.workspace_ref), (Some(LocalRef::new("fix")), None));
        assert_eq!(spec.environment.unwrap().required, Some(tool::Required::Container));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let twice = Where { path: Some("x".into()), ..at("ws/shop/y") };
        assert!(twice.spec(None).unwrap_err().headline.contains("twice"));
        assert!(Where::default().spec(None).unwrap_err().headline.contains("local folder"));
        let bad = Where { tool: Some("Lint".into()), ..at("ws/shop") };
        assert!(bad.spec(None).unwrap_err().headline.starts_with("--tool Lint: "));
    }
}
