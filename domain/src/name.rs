//! The documented names of everything Drydock makes.
//!
//! Names are functions of what they are for, so an object can be named before it exists and is never made twice. Every
//! name is an RFC 1123 label of at most 63 bytes, provided that the names it is made of are.
//!
//! - instance found in a workspace: `<workspace>[-<folder slug>][-<configuration name>]` ([`instances`])
//! - a plan's own instance: `<instance>-<plan>`, or the plan alone where it begins with `<instance>-` ([`plan_instances`])
//! - host runner: `<workspace>-host`, `…-host-project-<project>`, `…-host-plan-<plan>` ([`host_runner`])
//! - everything else: `drydock-<hash of the owner's uid>-<role>` ([`child`])
//!
//! A hash is added only where the plain name is too long, empty in a part, or not unique.

use std::collections::{BTreeMap, BTreeSet};

use drydock_crds::MAX_NAME;
use drydock_crds::label::Role;
use drydock_crds::workspace::Devcontainer;
use sha2::{Digest, Sha256};

/// Digits of the hash of each level: the plain name, then longer ones for as long as names meet.
const LEVELS: [usize; 4] = [0, 8, 16, 40];
/// Digits of the hash of an owner's uid.
const UID_DIGITS: usize = 12;

/// What a name is made from.
struct Wanted {
    base: String,
    hashed: String,
    level: usize,
}

impl Wanted {
    fn name(&self) -> String {
        with_hash(&self.base, &self.hashed, LEVELS[self.level])
    }
}

/// The names of the instances of all `configurations` of `workspace`, in their order.
///
/// The names depend on the set alone, not on its order. Names that meet get a hash of the configuration's path, each of
/// them, so that no name ever changes its meaning; but of the two unnamed files of one folder the one that routing takes
/// keeps the plain name.
#[must_use]
pub fn instances(workspace: &str, configurations: &[Devcontainer]) -> Vec<String> {
    let preferred: BTreeSet<&str> = configurations
        .iter()
        .filter(|c| c.config_name.is_none() && !is_dotfile(c))
        .map(|c| c.directory.as_str())
        .collect();
    let wanted = configurations
        .iter()
        .map(|c| {
            let folder = slug(&c.directory);
            let configuration = c.config_name.as_deref().map(slug);
            let unclear = (folder.is_empty() && c.directory != ".") || configuration.as_deref() == Some("");
            let shadowed =
                c.config_name.is_none() && is_dotfile(c) && preferred.contains(c.directory.as_str());
            let parts = [workspace, &folder, configuration.as_deref().unwrap_or_default()];
            Wanted {
                base: parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("-"),
                hashed: c.config_path.clone(),
                level: usize::from(unclear || shadowed),
            }
        })
        .collect();
    allocate(wanted, &BTreeSet::new())
}

/// The names of a plan's own instances, in the order of `instances`, the documented names ([`instances`]) of all
/// configurations of its checkouts. None of them is one of `taken`: the documented names of the workspaces themselves.
#[must_use]
pub fn plan_instances(plan: &str, instances: &[String], taken: &BTreeSet<String>) -> Vec<String> {
    let mut taken = taken.clone();
    taken.extend(instances.iter().cloned());
    let wanted = instances
        .iter()
        .map(|instance| {
            let own = plan.strip_prefix(instance.as_str()).is_some_and(|rest| rest.starts_with('-'));
            Wanted {
                base: if own { plan.to_owned() } else { format!("{instance}-{plan}") },
                hashed: format!("{instance}/{plan}"),
                level: 0,
            }
        })
        .collect();
    allocate(wanted, &taken)
}

/// Whose host runner it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostScope<'a> {
    /// The workspace's, used by everybody.
    Workspace,
    /// For runs of a project with `host` settings.
    Project(&'a str),
    /// For runs of a plan with a checkout of its own.
    Plan(&'a str),
}

/// The name of the ContainerInstance that is the host runner of a workspace.
#[must_use]
pub fn host_runner(workspace: &str, scope: HostScope<'_>) -> String {
    let name = match scope {
        HostScope::Workspace => format!("{workspace}-host"),
        HostScope::Project(project) => format!("{workspace}-host-project-{project}"),
        HostScope::Plan(plan) => format!("{workspace}-host-plan-{plan}"),
    };
    if name.len() <= MAX_NAME { name } else { with_hash(&name, &name, LEVELS[1]) }
}

/// The name of the one child that an owner has in a role: the environment pod of an instance, the checkout pod of a
/// workspace.
#[must_use]
pub fn child(owner_uid: &str, role: Role) -> String {
    format!("drydock-{}-{}", digest(owner_uid, UID_DIGITS), role.as_str())
}

/// The name of one of several children in a role, told apart by `of` (any text).
#[must_use]
pub fn child_of(owner_uid: &str, role: Role, of: &str) -> String {
    format!("{}-{}", child(owner_uid, role), digest(of, UID_DIGITS))
}

/// The name of the claim that holds a workspace's tree.
#[must_use]
pub fn workspace_claim(workspace_uid: &str) -> String {
    format!("drydock-{}-workspace", digest(workspace_uid, UID_DIGITS))
}

/// The name of the claim of an instance's named volume.
#[must_use]
pub fn volume_claim(instance_uid: &str, volume: &str) -> String {
    format!("drydock-{}-volume-{}", digest(instance_uid, UID_DIGITS), digest(volume, UID_DIGITS))
}

/// Lower case, `/` and `_` become `-`, only `[a-z0-9-]` stays, trimmed of `-`.
#[must_use]
pub fn slug(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter_map(|c| match c.to_ascii_lowercase() {
            '/' | '_' => Some('-'),
            c @ ('a'..='z' | '0'..='9' | '-') => Some(c),
            _ => None,
        })
        .collect();
    kept.trim_matches('-').to_owned()
}

/// The first `digits` (at most 64) lower-case hex digits of the SHA-256 of a text.
#[must_use]
pub fn digest(text: &str, digits: usize) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex.truncate(digits);
    hex
}

fn is_dotfile(configuration: &Devcontainer) -> bool {
    let path = configuration.config_path.as_str();
    path == ".devcontainer.json" || path.ends_with("/.devcontainer.json")
}

/// `base-hash`, `base` cut so that it fits; `base` alone with no digits.
fn with_hash(base: &str, hashed: &str, digits: usize) -> String {
    if digits == 0 {
        return base.to_owned();
    }
    let room = MAX_NAME - digits - 1;
    let cut: String = base.chars().take(room).collect();
    let cut = cut.trim_end_matches('-');
    let hash = digest(hashed, digits);
    if cut.is_empty() { hash } else { format!("{cut}-{hash}") }
}

/// Raises the level of everything that is too long or not unique, until nothing is or nothing can be raised.
fn allocate(mut wanted: Vec<Wanted>, taken: &BTreeSet<String>) -> Vec<String> {
    for entry in &mut wanted {
        if entry.base.len() > MAX_NAME {
            entry.level = entry.level.max(1);
        }
    }
    loop {
        let names: Vec<String> = wanted.iter().map(Wanted::name).collect();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &names {
            *uses.entry(name).or_default() += 1;
        }
        let mut raised = false;
        for (entry, name) in wanted.iter_mut().zip(&names) {
            let met = uses[name.as_str()] > 1 || taken.contains(name);
            if met && entry.level + 1 < LEVELS.len() {
                entry.level += 1;
                raised = true;
            }
        }
        if !raised {
            return names;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str) -> Devcontainer {
        let (directory, config_name) =
            if let Some(folder) = path.strip_suffix(".devcontainer/devcontainer.json") {
                (folder, None)
            } else if let Some(folder) = path.strip_suffix(".devcontainer.json") {
                (folder, None)
            } else {
                let (folder, rest) = path.split_once(".devcontainer/").unwrap();
                (folder, rest.strip_suffix("/devcontainer.json").map(str::to_owned))
            };
        let directory = directory.trim_end_matches('/');
        Devcontainer {
            config_path: path.to_owned(),
            directory: if directory.is_empty() { "." } else { directory }.to_owned(),
            config_name,
            ..Devcontainer::default()
        }
    }

    fn named(workspace: &str, paths: &[&str]) -> Vec<String> {
        instances(workspace, &paths.iter().map(|p| file(p)).collect::<Vec<_>>())
    }

    fn is_label(name: &str) -> bool {
        !name.is_empty()
            && name.len() <= MAX_NAME
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-')
    }

    #[test]
    fn plain_names() {
        let names = named(
            "shop",
            &[
                ".devcontainer/devcontainer.json",
                ".devcontainer/gpu/devcontainer.json",
                "services/api/.devcontainer/devcontainer.json",
                "services/Web_App/.devcontainer.json",
                "services/api/.devcontainer/Test/devcontainer.json",
            ],
        );
        assert_eq!(
            names,
            ["shop", "shop-gpu", "shop-services-api", "shop-services-web-app", "shop-services-api-test"]
        );
    }

    #[test]
    fn the_file_that_routing_takes_keeps_the_plain_name() {
        let names = named("shop", &["a/.devcontainer.json", "a/.devcontainer/devcontainer.json"]);
        assert_eq!(names[1], "shop-a");
        assert_eq!(names[0], format!("shop-a-{}", digest("a/.devcontainer.json", 8)));
    }

    #[test]
    fn names_that_meet_all_get_a_hash() {
        let names =
            named("shop", &["a/b/.devcontainer.json", "a-b/.devcontainer.json", "c/.devcontainer.json"]);
        assert_eq!(names[0], format!("shop-a-b-{}", digest("a/b/.devcontainer.json", 8)));
        assert_eq!(names[1], format!("shop-a-b-{}", digest("a-b/.devcontainer.json", 8)));
        assert_eq!(names[2], "shop-c");
    }

    #[test]
    fn a_folder_called_like_a_hashed_name_steals_nothing() {
        let hash = digest("a/b/.devcontainer.json", 8);
        let squatter = format!("a-b-{hash}/.devcontainer.json");
        let names = named("shop", &["a/b/.devcontainer.json", "a-b/.devcontainer.json", &squatter]);
        let set: BTreeSet<_> = names.iter().collect();
        assert_eq!(set.len(), 3, "{names:?}");
        assert!(names.iter().all(|n| *n != format!("shop-a-b-{hash}")), "{names:?}");
    }

    #[test]
    fn a_name_without_letters_and_a_long_one_get_a_hash() {
        let long = format!("{}/.devcontainer.json", "x".repeat(80));
        let names = named("shop", &["日本/.devcontainer.json", &long]);
        assert_eq!(names[0], format!("shop-{}", digest("日本/.devcontainer.json", 8)));
        assert_eq!(names[1].len(), 63);
        assert!(names[1].ends_with(&digest(&long, 8)));
    }

    #[test]
    fn a_plans_own_instances() {
        let of = |plan: &str, instances: &[&str]| {
            let instances: Vec<String> = instances.iter().map(|i| (*i).to_owned()).collect();
            plan_instances(plan, &instances, &BTreeSet::new())
        };
        assert_eq!(of("fix-1", &["shop", "shop-api"]), ["shop-fix-1", "shop-api-fix-1"]);
        assert_eq!(of("shop-fix", &["shop"]), ["shop-fix"]);
        assert_eq!(of("shop", &["shop"]), ["shop-shop"]);
        assert_eq!(of("shopping", &["shop"]), ["shop-shopping"]);
        let met = of("shop-api-fix", &["shop", "shop-api"]);
        assert_eq!(met[0], format!("shop-api-fix-{}", digest("shop/shop-api-fix", 8)));
        assert_eq!(met[1], format!("shop-api-fix-{}", digest("shop-api/shop-api-fix", 8)));
        let shared = of("api", &["shop", "shop-api"]);
        assert_eq!(shared[0], format!("shop-api-{}", digest("shop/api", 8)), "shop-api is the shared one");
    }

    #[test]
    fn children() {
        let uid = "11111111-2222-3333-4444-555555555555";
        assert_eq!(child(uid, Role::Checkout), format!("drydock-{}-checkout", digest(uid, 12)));
        assert!(is_label(&child_of(uid, Role::Environment, "any text")));
        assert!(is_label(&workspace_claim(uid)));
        assert!(is_label(&volume_claim(uid, "any volume")));
        assert_eq!(host_runner("shop", HostScope::Workspace), "shop-host");
        assert_eq!(host_runner("shop", HostScope::Project("p")), "shop-host-project-p");
        assert_eq!(host_runner("shop", HostScope::Plan("p")), "shop-host-plan-p");
        let long = "x".repeat(63);
        assert!(is_label(&host_runner(&long, HostScope::Plan(&long))));
        assert_ne!(host_runner(&long, HostScope::Plan("p")), host_runner(&long, HostScope::Project("p")));
    }

    fn paths() -> impl Strategy<Value = BTreeSet<String>> {
        let folder = "([ab-]{1,3}/|é/|x{70}/){0,2}";
        let file = prop_oneof![
            Just(".devcontainer.json".to_owned()),
            Just(".devcontainer/devcontainer.json".to_owned()),
            "[ab_A]{1,2}".prop_map(|n| format!(".devcontainer/{n}/devcontainer.json")),
        ];
        proptest::collection::btree_set((folder, file).prop_map(|(d, f)| format!("{d}{f}")), 0..12)
    }

    proptest! {
        #[test]
        fn names_are_labels_unique_and_independent_of_order(paths in paths(), turn in 0_usize..12) {
            let mut files: Vec<_> = paths.iter().map(|p| file(p)).collect();
            let names = instances("ws", &files);
            prop_assert!(names.iter().all(|n| is_label(n)), "{:?}", names);
            prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), files.len());
            let by_path: BTreeMap<_, _> = files.iter().map(|f| f.config_path.clone()).zip(names.clone()).collect();
            if !files.is_empty() {
                let turn = turn % files.len();
                files.rotate_left(turn);
            }
            for (file, name) in files.iter().zip(instances("ws", &files)) {
                prop_assert_eq!(&by_path[&file.config_path], &name);
            }
        }

        #[test]
        fn plan_names_are_labels_and_never_shared_ones(paths in paths(), plan in "(ws-)?[a-b]([a-b-]{0,60}[a-b])?") {
            let files: Vec<_> = paths.iter().map(|p| file(p)).collect();
            let shared = instances("ws", &files);
            let own = plan_instances(&plan, &shared, &BTreeSet::new());
            prop_assert!(own.iter().all(|n| is_label(n) && !shared.contains(n)), "{:?}", own);
            prop_assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len());
        }

        #[test]
        fn slugs_are_parts_of_labels(text in "\\PC{0,30}") {
            let slug = slug(&text);
            prop_assert!(slug.is_empty() || slug.len() > MAX_NAME || is_label(&slug));
        }
    }
}
