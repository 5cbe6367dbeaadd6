//! The instances of a workspace: one for each valid configuration, shared with its user; what vanished goes when it is unused.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::devcontainer_instance::DevcontainerInstance;
use drydock_crds::label::{self, Role};
use drydock_crds::workspace::{Devcontainer, Problem};
use serde_json::{Value, json};

use super::{Draft, InstanceSeen};
use crate::decision::{Deletion, Effect, Object, owner_reference, resource_of};
use crate::render::label_value;

impl Draft<'_> {
    /// Makes what is missing, mends what was changed, deletes what vanished.
    pub(super) fn keep_instances(&mut self) {
        if !ConditionType::Discovered.is_true(&self.conditions.clone().finish()) {
            return;
        }
        self.note_conflicts();
        let found = self.status.devcontainers.clone();
        for configuration in found.iter().filter(|d| d.problem.is_none() && !d.name.is_empty()) {
            let seen = self.seen.instances.iter().find(|i| i.name == configuration.name);
            match seen {
                Some(seen) if seen.deleting || self.is_right(seen, configuration) => {}
                Some(seen) => self.apply(configuration, seen.automatic),
                None => self.apply(configuration, true),
            }
        }
        self.delete_vanished(&found);
    }

    /// A name that an instance of another workspace has is a problem of the configuration, as long as that is so.
    fn note_conflicts(&mut self) {
        let (own, instances) = (self.name().to_owned(), &self.seen.instances);
        for configuration in &mut self.status.devcontainers {
            let other = instances.iter().find(|i| i.name == configuration.name && i.workspace != own);
            let noted =
                configuration.problem.as_ref().is_some_and(|p| p.reason == Reason::NameConflict.as_str());
            match other {
                Some(other) if configuration.problem.is_none() || noted => {
                    let message = format!(
                        "DevcontainerInstance {} belongs to Workspace {}: rename or delete it",
                        other.name, other.workspace
                    );
                    configuration.problem = Some(Problem {
                        reason: Reason::NameConflict.to_string(),
                        message,
                        ..Problem::default()
                    });
                }
                None if noted => configuration.problem = None,
                Some(_) | None => {}
            }
        }
    }

    fn is_right(&self, seen: &InstanceSeen, configuration: &Devcontainer) -> bool {
        let labels = self.labels(configuration);
        seen.workspace == self.name()
            && seen.config_path.as_deref() == Some(&configuration.config_path)
            && labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value))
    }

    fn labels(&self, configuration: &Devcontainer) -> Vec<(String, String)> {
        let mut labels = vec![
            (label::MANAGED_BY.to_owned(), label::MANAGER.to_owned()),
            (label::WORKSPACE.to_owned(), label_value(self.name())),
            (label::ROLE.to_owned(), Role::Environment.as_str().to_owned()),
        ];
        if let Some(name) = configuration.config_name.as_deref().filter(|n| !n.is_empty()) {
            labels.push((label::CONFIGURATION.to_owned(), label_value(name)));
        }
        labels
    }

    /// Applies what Drydock owns of an instance: which configuration it is. The rest is its user's.
    fn apply(&mut self, configuration: &Devcontainer, automatic: bool) {
        let labels: serde_json::Map<String, Value> =
            self.labels(configuration).into_iter().map(|(k, v)| (k, v.into())).collect();
        let mut metadata = json!({
            "name": configuration.name,
            "namespace": self.namespace(),
            "labels": labels,
        });
        if automatic {
            let owner = owner_reference(self.seen.workspace.as_ref());
            metadata["ownerReferences"] = json!([owner]);
        }
        let resource = resource_of::<DevcontainerInstance>();
        let object = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": {"workspaceRef": {"name": self.name()}, "configPath": configuration.config_path},
        });
        self.effects.push(Effect::Apply(Object {
            resource,
            namespace: self.namespace().to_owned(),
            name: configuration.name.clone(),
            json: object,
        }));
    }

    fn delete_vanished(&mut self, found: &[Devcontainer]) {
        let vanished = self.seen.instances.iter().filter(|i| {
            let listed =
                found.iter().any(|d| d.name == i.name && Some(&d.config_path) == i.config_path.as_ref());
            i.automatic && !listed && !i.in_use && !i.deleting
        });
        let deletions: Vec<Effect> = vanished
            .map(|instance| {
                Effect::Delete(Deletion {
                    resource: resource_of::<DevcontainerInstance>(),
                    namespace: self.namespace().to_owned(),
                    name: instance.name.clone(),
                    uid: instance.uid.clone(),
                    resource_version: None,
                    grace_seconds: None,
                })
            })
            .collect();
        self.effects.extend(deletions);
    }
}
