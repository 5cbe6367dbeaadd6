//! The objects that a route depends on, read with the caller's rights.

use drydock_crds::plan::Sandbox;
use drydock_crds::project::HostPolicy;
use drydock_crds::reference::{InstanceRef, LocalRef};
use drydock_crds::tool_run::ToolRunSpec;
use drydock_crds::workspace::{Checkout as CheckoutMode, Devcontainer};
use drydock_crds::{
    ContainerInstance, DevcontainerInstance, ExecutionEnvironment, InstanceStatus, Plan, Project, Tool,
    Workspace,
};
use drydock_domain::routing::{self, Checkout, Environment, InstanceFacts, Link, ProjectFacts, target_state};

use crate::connection::Connection;
use crate::failure::Failure;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) tool: Option<Tool>,
    pub(super) plan: Option<Plan>,
    pub(super) project: Option<Project>,
    /// The run's workspace: its name and configurations.
    pub(super) workspace: Option<(String, Vec<Devcontainer>)>,
    /// It has no checkout.
    pub(super) remote_only: bool,
    /// The configurations of the workspaces that the plan has checkouts of.
    pub(super) shared: Vec<(String, Vec<Devcontainer>)>,
    pub(super) environments: Vec<ExecutionEnvironment>,
    pub(super) instances: Vec<Instance>,
}

/// An instance.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) facts: InstanceFacts,
    pub(super) uid: Option<String>,
    pub(super) state: String,
}

impl Facts {
    /// Reads what the run's spec refers to, directly or not.
    pub(super) async fn read(connection: &Connection, spec: &ToolRunSpec) -> Result<Self, Failure> {
        let name = |reference: &Option<LocalRef>| reference.as_ref().map(|r| r.name.clone());
        let mut facts = Self::default();
        if let Some(tool) = name(&spec.tool_ref) {
            facts.tool = Some(connection.get(&tool).await?);
        }
        if let Some(plan) = name(&spec.plan_ref) {
            facts.plan = Some(connection.get::<Plan>(&plan).await?);
        }
        let of_plan = facts.plan.as_ref().map(|p| &p.spec);
        let project = name(&spec.project_ref).or_else(|| of_plan.and_then(|p| name(&p.project_ref)));
        let workspace = name(&spec.workspace_ref).or_else(|| of_plan.and_then(|p| name(&p.workspace_ref)));
        if let Some(project) = project {
            facts.project = Some(connection.get(&project).await?);
        }
        if let Some(workspace) = workspace {
            let found: Workspace = connection.workspace(&workspace).await?;
            let git = found.spec.source.git.as_ref();
            facts.remote_only = git.is_some_and(|g| g.checkout == Some(CheckoutMode::None));
            facts.workspace = Some((workspace, devcontainers(found)));
        }
        for checkout in facts.plan_checkouts() {
            // A workspace that is gone has no shared instances.
            let found = connection.workspace(&checkout).await;
            facts.shared.push((checkout, found.map(devcontainers).unwrap_or_default()));
        }
        if facts.plan.is_some() || facts.project.is_some() {
            facts.environments = connection.list().await?;
        }
        facts.instances = instances(connection).await?;
        Ok(facts)
    }

    fn plan_checkouts(&self) -> Vec<String> {
        if self.sandbox_plan().is_none() {
            return Vec::new();
        }
        let status = self.plan.as_ref().and_then(|p| p.status.as_ref());
        status.map(|s| s.checkouts.iter().map(|c| c.workspace.clone()).collect()).unwrap_or_default()
    }

    /// Name of the plan, where it works in checkouts of its own.
    pub(super) fn sandbox_plan(&self) -> Option<&str> {
        let plan = self.plan.as_ref().filter(|p| p.spec.sandbox == Some(Sandbox::Checkout))?;
        plan.metadata.name.as_deref()
    }

    /// The plan's checkouts.
    pub(super) fn checkouts(&self) -> Vec<Checkout<'_>> {
        let status = self.plan.as_ref().and_then(|p| p.status.as_ref());
        let checkouts = status.map_or(&[][..], |s| s.checkouts.as_slice());
        checkouts
            .iter()
            .map(|checkout| Checkout {
                workspace: &checkout.workspace,
                devcontainers: &checkout.devcontainers,
                shared: self
                    .shared
                    .iter()
                    .find(|(name, _)| *name == checkout.workspace)
                    .map_or(&[][..], |(_, devcontainers)| devcontainers.as_slice()),
            })
            .collect()
    }

    /// The project's links; none without a project.
    pub(super) fn links(&self) -> Option<Vec<Link>> {
        let project = self.project.as_ref()?;
        let instances: Vec<InstanceFacts> = self.instances.iter().map(|i| i.facts.clone()).collect();
        Some(routing::links(&project.spec.resources, &instances))
    }

    /// The project as routing sees it.
    pub(super) fn project_facts<'a>(&'a self, links: &'a [Link]) -> Option<ProjectFacts<'a>> {
        let project = self.project.as_ref()?;
        Some(ProjectFacts {
            name: project.metadata.name.as_deref().unwrap_or_default(),
            links,
            detection: project.spec.devcontainer_detection.unwrap_or_default(),
        })
    }

    /// The project's host policy.
    pub(super) fn host_policy(&self) -> Option<HostPolicy> {
        self.project.as_ref()?.spec.host.as_ref()?.policy
    }

    /// The environments of the plan and the project.
    pub(super) fn environments(&self, links: Option<&[Link]>) -> Vec<Environment<'_>> {
        let name = |metadata: &kube::core::ObjectMeta| metadata.name.clone();
        let plan = self.plan.as_ref().and_then(|p| name(&p.metadata));
        let project = self.project.as_ref().and_then(|p| name(&p.metadata));
        let state = |instance: &InstanceRef| target_state(instance, self.is_nameable(instance), links);
        self.environments
            .iter()
            .filter_map(|e| Environment::of(e, plan.as_deref(), project.as_deref(), state))
            .collect()
    }

    /// The instances that clone the workspace, where it has no checkout.
    pub(super) fn cloned_by(&self) -> Option<Vec<InstanceRef>> {
        let (workspace, _) = self.workspace.as_ref().filter(|_| self.remote_only)?;
        let cloning = self.instances.iter().filter(|i| i.facts.clones.contains(workspace));
        Some(cloning.map(|i| i.facts.instance.clone()).collect())
    }

    /// All instances that can be named.
    pub(super) fn existing(&self) -> Vec<InstanceRef> {
        let nameable = self.instances.iter().filter(|i| !i.facts.host_runner);
        nameable.map(|i| i.facts.instance.clone()).collect()
    }

    /// Whether an instance exists and isn't a host runner.
    fn is_nameable(&self, reference: &InstanceRef) -> bool {
        self.instance(reference).is_some_and(|i| !i.facts.host_runner)
    }

    /// An instance that exists.
    pub(super) fn instance(&self, reference: &InstanceRef) -> Option<&Instance> {
        self.instances.iter().find(|i| i.facts.instance == *reference)
    }
}

fn devcontainers(workspace: Workspace) -> Vec<Devcontainer> {
    workspace.status.map(|s| s.devcontainers).unwrap_or_default()
}

async fn instances(connection: &Connection) -> Result<Vec<Instance>, Failure> {
    let state = |status: Option<InstanceStatus>| {
        let state = status.and_then(|s| s.provisioning_state);
        state.map(|s| s.to_string()).unwrap_or_default()
    };
    let devcontainers: Vec<DevcontainerInstance> = connection.list().await?;
    let containers: Vec<ContainerInstance> = connection.list().await?;
    let mut all: Vec<Instance> = devcontainers
        .into_iter()
        .map(|object| Instance {
            facts: InstanceFacts::from(&object),
            uid: object.metadata.uid.clone(),
            state: state(object.status),
        })
        .collect();
    all.extend(containers.into_iter().map(|object| Instance {
        facts: InstanceFacts::from(&object),
        uid: object.metadata.uid.clone(),
        state: state(object.status),
    }));
    Ok(all)
}
