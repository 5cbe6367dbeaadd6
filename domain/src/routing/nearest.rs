//! The nearest ancestor of a path that has a configuration, and which of a folder's configurations counts.

use std::borrow::Cow;

use drydock_crds::workspace::Devcontainer;

use super::request::Request;
use crate::name;

/// The configuration of a folder that counts.
#[derive(Debug)]
pub(super) struct Pick<'a> {
    /// The configuration.
    pub(super) configuration: &'a Devcontainer,
    /// Documented name of its instance.
    pub(super) name: Cow<'a, str>,
    /// The folder's other named configurations, where the choice among them was made by name order alone.
    pub(super) others: Vec<&'a str>,
    /// `configName` names none of the folder.
    pub(super) not_named: bool,
}

/// The configurations of the run's workspace: of the plan's checkout where it has one, else of the workspace itself; and
/// the checkout's workspace in the first case.
fn configurations<'a>(request: &Request<'a>) -> (&'a [Devcontainer], Option<&'a str>) {
    let Some(tree) = request.workspace else {
        return (&[], None);
    };
    let checkouts = request.sandbox.map_or(&[][..], |s| s.checkouts);
    match checkouts.iter().find(|c| c.workspace == tree.name) {
        Some(checkout) => (checkout.devcontainers, Some(checkout.workspace)),
        None => (tree.devcontainers, None),
    }
}

/// The nearest configuration of the request's path; none where no folder up to the root has one.
pub(super) fn nearest<'a>(request: &Request<'a>) -> Option<Pick<'a>> {
    request.path.ancestors().find_map(|folder| in_folder(request, folder))
}

/// The configuration of `folder` that counts. It may be one with a problem.
///
/// The one that `configName` names, else `.devcontainer/devcontainer.json`, else `.devcontainer.json`, else the first
/// named one.
pub(super) fn in_folder<'a>(request: &Request<'a>, folder: &str) -> Option<Pick<'a>> {
    let (all, checkout) = configurations(request);
    let here = || all.iter().filter(|c| c.directory == folder);
    let chosen = here().min_by_key(|c| {
        let asked = request.config_name.is_some() && c.config_name.as_deref() == request.config_name;
        (!asked, rank(c), c.config_name.as_deref(), c.config_path.as_str())
    })?;
    let asked = request.config_name.is_some() && chosen.config_name.as_deref() == request.config_name;
    let mut others: Vec<&str> = Vec::new();
    if !asked && chosen.config_name.is_some() {
        others.extend(here().filter(|c| *c != chosen).filter_map(|c| c.config_name.as_deref()));
        others.sort_unstable();
    }
    let name = match checkout {
        Some(workspace) => {
            let names = name::instances(workspace, all);
            let at = all.iter().position(|c| c.config_path == chosen.config_path)?;
            Cow::Owned(names.into_iter().nth(at)?)
        }
        None => Cow::Borrowed(chosen.name.as_str()),
    };
    Some(Pick { configuration: chosen, name, others, not_named: request.config_name.is_some() && !asked })
}

/// The order of a folder's configurations.
fn rank(configuration: &Devcontainer) -> u8 {
    match (&configuration.config_name, configuration.config_path.as_str()) {
        (Some(_), _) => 2,
        (None, path) if path == ".devcontainer.json" || path.ends_with("/.devcontainer.json") => 1,
        (None, _) => 0,
    }
}
