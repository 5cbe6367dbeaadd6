//! The generated table test: every combination of what can be declared, against a statement of the rules in the form of a
//! table. Its first row that fits gives the answer.

use drydock_crds::execution_environment::Priority;
use drydock_crds::project::{Detection, HostPolicy};
use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::tool::{Capability, Preferred, Required, Specific};
use drydock_crds::workspace::{Devcontainer, Problem};

use super::{
    Checkout, Environment, EnvironmentTarget, Link, ProjectFacts, Request, Sandbox, Scope, Target,
    TargetState, Tree, route,
};
use crate::path::WorkspacePath;

/// `turn`: the first of the five sources that is there. `target`: what it points to, any container resolved. `spare`:
/// whether there is a root dev container or a linked instance.
const TABLE: &str = "
required  specific activate policy    turn     target    preferred spare | answer rule
Host      *        yes      *         *        *         *         *     | host   ToolRequiresHost
Host      *        *        Forbidden *        *         *         *     | -      -
Host      *        *        *         *        *         *         *     | host   ToolRequiresHost
*         missing  *        *         *        *         *         *     | -      -
*         present  *        *         *        *         *         *     | tool   ToolSpecific
*         *        *        *         *        unusable  *         *     | -      -
Container *        *        *         override host      *         *     | -      -
*         *        *        Forbidden override host      *         *     | -      -
*         *        *        *         override *         *         *     | target turn
Container *        *        *         *        container *         *     | target turn
*         *        *        Allowed   *        container Host      *     | host   ToolPrefers
*         *        *        *         *        container *         *     | target turn
Container *        *        *         *        *         *         yes   | spare  ToolRequiresContainer
Container *        *        *         *        *         *         no    | -      -
*         *        *        Forbidden fallback host      *         *     | -      -
*         *        *        *         fallback host      *         *     | host   turn
*         *        *        *         none     *         Container yes   | spare  ToolPrefers
*         *        *        Allowed   none     *         *         *     | host   Host
*         *        *        *         none     *         *         *     | -      -
";

/// The values of each column, in the order of their bits.
const COLUMNS: [&[&str]; 8] = [
    &["Any", "Container", "Host"],
    &["none", "present", "missing"],
    &["no", "yes"],
    &["Allowed", "OnRequest", "Forbidden"],
    &["none", "override", "nearest", "fallback"],
    &["nothing", "unusable", "host", "container"],
    &["none", "Container", "Host"],
    &["no", "yes"],
];

struct Row {
    masks: [u8; 8],
    answer: &'static str,
    rule: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|l| !l.is_empty()).skip(1);
    lines
        .map(|line| {
            let (given, then) = line.split_once('|').unwrap();
            let mut masks = [0; 8];
            for ((mask, cell), values) in masks.iter_mut().zip(given.split_whitespace()).zip(COLUMNS) {
                *mask = match cell {
                    "*" => u8::MAX,
                    value => 1 << values.iter().position(|v| *v == value).expect(value),
                };
            }
            let (answer, rule) = then.trim().split_once(' ').unwrap();
            Row { masks, answer, rule: rule.trim() }
        })
        .collect()
}

/// What a source points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Points {
    Absent,
    Instance,
    Missing,
    NotLinked,
    Host,
    Any,
}
use Points::{Absent, Any, Instance, Missing, NotLinked};

const POINTS: [Points; 6] = [Absent, Instance, Missing, NotLinked, Points::Host, Any];

/// Which configurations the workspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    Nothing,
    Folder,
    Root,
    Invalid,
}

/// One combination.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Plan override, project override, plan fallback, project fallback.
    environments: [Points; 4],
    near: Near,
    linked: bool,
    policy: HostPolicy,
    required: Option<Required>,
    preferred: Option<Preferred>,
    /// Index into the second column.
    specific: usize,
    detection: Detection,
    activate: bool,
    checkout: bool,
}

const SCOPES: [(Scope, Priority, &str, &str); 4] = [
    (Scope::Plan, Priority::Override, "PlanOverride", "override"),
    (Scope::Project, Priority::Override, "ProjectOverride", "override"),
    (Scope::Plan, Priority::Fallback, "PlanFallback", "fallback"),
    (Scope::Project, Priority::Fallback, "ProjectFallback", "fallback"),
];
/// Where the four environments point: two documented names of the workspace, one of another one, one container.
const NAMES: [&str; 4] = ["shop-tools", "gpu", "other", "shop-docs"];

impl Case {
    fn capability(&self) -> Capability {
        let named = ["", "tool", "gone"][self.specific];
        Capability {
            required: self.required,
            preferred: self.preferred,
            specific: (!named.is_empty()).then(|| Specific { kind: None, name: named.to_owned() }),
        }
    }

    /// The instance of the nearest configuration; `!` where that is invalid.
    fn near_name(&self) -> Option<&'static str> {
        match self.near {
            Near::Nothing => None,
            Near::Folder => Some("shop-services-api"),
            Near::Root => Some("shop"),
            Near::Invalid => Some("!"),
        }
    }

    /// The root dev container, else the first linked instance.
    fn spare(&self) -> Option<&'static str> {
        match (self.near, self.linked) {
            (Near::Root, _) => Some("shop"),
            (_, true) => Some("linked"),
            (_, false) => None,
        }
    }

    /// Whose turn it is: its rule, its kind, what it points to and the instance's name.
    fn turn(&self) -> (&'static str, &'static str, Points, &'static str) {
        let [plan_override, project_override, plan_fallback, project_fallback] =
            [0, 1, 2, 3].map(|at| (SCOPES[at].2, SCOPES[at].3, self.environments[at], NAMES[at]));
        let near = self.near_name().filter(|_| self.detection == Detection::Enabled);
        let nearest =
            ("NearestDevcontainer", "nearest", near.map_or(Absent, |_| Instance), near.unwrap_or("-"));
        let turns = [plan_override, project_override, nearest, plan_fallback, project_fallback];
        turns.into_iter().find(|t| t.2 != Absent).unwrap_or(("-", "none", Absent, "-"))
    }

    /// The row of the table, and its answer: a name (`host`, or an instance's) and a rule.
    fn expected(&self, rows: &[Row]) -> (usize, Option<(&'static str, &'static str)>) {
        let spare = self.spare();
        let (turn_rule, turn_kind, points, name) = self.turn();
        let (target_kind, target) = match points {
            Absent => ("nothing", None),
            Missing | NotLinked => ("unusable", None),
            Points::Host => ("host", Some("host")),
            Instance if name == "!" => ("unusable", None),
            Instance => ("container", Some(name)),
            Any => match self.near_name().or(self.linked.then_some("linked")) {
                None | Some("!") => ("unusable", None),
                Some(name) => ("container", Some(name)),
            },
        };
        let required = self.required.map_or(0, |r| r as usize);
        let preferred = self.preferred.map_or(0, |p| 1 + p as usize);
        let bit = |column: usize, value: &str| COLUMNS[column].iter().position(|v| *v == value).unwrap();
        let values = [
            required,
            self.specific,
            usize::from(self.activate),
            self.policy as usize,
            bit(4, turn_kind),
            bit(5, target_kind),
            preferred,
            usize::from(spare.is_some()),
        ];
        let fits = |row: &Row| row.masks.iter().zip(values).all(|(mask, value)| mask & (1 << value) != 0);
        let at = rows.iter().position(fits).expect("the table is total");
        let row = &rows[at];
        let answer = match row.answer {
            "-" => return (at, None),
            "target" => target.unwrap(),
            "spare" => spare.unwrap(),
            other => other,
        };
        let rule = if row.rule == "turn" { turn_rule } else { row.rule };
        (at, Some((own(answer, self.checkout), rule)))
    }
}

/// What a name means in a plan with checkouts of its own.
fn own(name: &'static str, checkout: bool) -> &'static str {
    match (checkout, name) {
        (true, "shop") => "shop-p",
        (true, "shop-services-api") => "shop-services-api-p",
        (true, "shop-tools") => "shop-tools-p",
        (true, "shop-docs") => "shop-docs-p",
        (_, shared) => shared,
    }
}

fn configuration(directory: &str, name: &str) -> Devcontainer {
    let prefix = if directory == "." { String::new() } else { format!("{directory}/") };
    Devcontainer {
        name: name.to_owned(),
        config_path: format!("{prefix}.devcontainer/devcontainer.json"),
        directory: directory.to_owned(),
        ..Devcontainer::default()
    }
}

/// What stays the same for many cases.
struct World {
    near: Vec<Devcontainer>,
    links: Vec<Link>,
    instances: Vec<InstanceRef>,
    path: WorkspacePath,
}

impl World {
    fn new(near: Near, linked: bool) -> Self {
        let mut configurations =
            vec![configuration("tools", "shop-tools"), configuration("docs", "shop-docs")];
        match near {
            Near::Nothing => {}
            Near::Folder => configurations.push(configuration("services/api", "shop-services-api")),
            Near::Root => configurations.push(configuration(".", "shop")),
            Near::Invalid => configurations.push(Devcontainer {
                problem: Some(Problem {
                    reason: "InvalidConfig".to_owned(),
                    message: "expected a comma".to_owned(),
                    file: Some("services/.devcontainer/devcontainer.json".to_owned()),
                    line: Some(3),
                    column: Some(7),
                }),
                ..configuration("services", "")
            }),
        }
        let container =
            |name: &str| InstanceRef { kind: InstanceKind::ContainerInstance, name: name.to_owned() };
        let link = |name: &str, of_plan| Link { instance: container(name), of_plan };
        let mut links = vec![link("tool", true)];
        if linked {
            links.push(link("linked", false));
            links.push(link("linked-later", false));
        }
        Self {
            near: configurations,
            links,
            instances: vec![container("tool"), container("linked")],
            path: WorkspacePath::parse("services/api/src/main.py", None).unwrap(),
        }
    }

    /// Compares one case with the table; the row that decided.
    fn check(&self, case: &Case, rows: &[Row]) -> usize {
        let environments: Vec<Environment<'_>> = SCOPES
            .iter()
            .zip(case.environments)
            .zip(NAMES)
            .filter_map(|((scope, points), name)| environment(*scope, points, name))
            .collect();
        let capability = case.capability();
        let checkouts = [Checkout { workspace: "shop", devcontainers: &self.near, shared: &self.near }];
        let verdict = route(&Request {
            workspace: Some(Tree { name: "shop", devcontainers: &self.near, cloned_by: None }),
            path: &self.path,
            capability: &capability,
            config_name: None,
            activate: case.activate,
            sandbox: case.checkout.then_some(Sandbox { plan: "p", checkouts: &checkouts }),
            environments: &environments,
            project: Some(ProjectFacts { name: "proj", links: &self.links, detection: case.detection }),
            host_policy: case.policy,
            devcontainers_enabled: true,
            instances: &self.instances,
        });
        let answer = verdict.chosen.as_ref().map(|target| match target {
            Target::Instance(instance) => instance.name.as_str(),
            Target::Host => "host",
        });
        let rule: Option<&str> = verdict.rule.map(Into::into);
        let (row, expected) = case.expected(rows);
        assert_eq!(answer, expected.map(|e| e.0), "{case:?}\n{verdict:#?}");
        if expected.is_some() {
            assert_eq!(rule, expected.map(|e| e.1), "{case:?}\n{verdict:#?}");
        }
        assert_eq!(verdict.refusal.is_some(), expected.is_none(), "{case:?}\n{verdict:#?}");
        row
    }
}

fn environment<'a>(
    (scope, priority, ..): (Scope, Priority, &str, &str),
    points: Points,
    name: &'a str,
) -> Option<Environment<'a>> {
    let instance = |state| {
        let kind =
            if name == "gpu" { InstanceKind::ContainerInstance } else { InstanceKind::DevcontainerInstance };
        EnvironmentTarget::Instance(InstanceRef { kind, name: name.to_owned() }, state)
    };
    let target = match points {
        Absent => return None,
        Instance => instance(TargetState::Usable),
        Missing => instance(TargetState::NotFound),
        NotLinked => instance(TargetState::NotLinked),
        Points::Host => EnvironmentTarget::Host,
        Any => EnvironmentTarget::Container,
    };
    Some(Environment { name, scope, priority, target })
}

/// Every combination of what isn't an environment.
fn each_switch(mut check: impl FnMut(Case)) {
    for policy in [HostPolicy::Allowed, HostPolicy::OnRequest, HostPolicy::Forbidden] {
        for required in [None, Some(Required::Any), Some(Required::Container), Some(Required::Host)] {
            for preferred in [None, Some(Preferred::Container), Some(Preferred::Host)] {
                for specific in 0..3 {
                    for bits in 0..8 {
                        check(Case {
                            environments: [Absent; 4],
                            near: Near::Nothing,
                            linked: true,
                            policy,
                            required,
                            preferred,
                            specific,
                            detection: if bits & 1 == 0 { Detection::Enabled } else { Detection::Disabled },
                            activate: bits & 2 != 0,
                            checkout: bits & 4 != 0,
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn every_combination_agrees_with_the_table() {
    let compare = |near| {
        let (world, rows) = (World::new(near, true), rows());
        let mut compared = 0_u32;
        each_switch(|switches| {
            if switches.required == Some(Required::Any) {
                return; // the same as none; the other test has it
            }
            for code in 0..6_usize.pow(4) {
                let environments = [code, code / 6, code / 36, code / 216].map(|digit| POINTS[digit % 6]);
                let case = Case { environments, near, ..switches };
                world.check(&case, &rows);
                compared += 1;
            }
        });
        compared
    };
    let compared: u32 = std::thread::scope(|scope| {
        let threads = [Near::Nothing, Near::Folder].map(|near| scope.spawn(move || compare(near)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(compared, 6_u32.pow(4) * 2 * 3 * 3 * 3 * 3 * 2 * 2 * 2);
}

#[test]
fn every_combination_of_configurations_and_links_agrees_and_every_row_decides() {
    let rows = rows();
    let mut decided = vec![false; rows.len()];
    for near in [Near::Nothing, Near::Folder, Near::Root, Near::Invalid] {
        for linked in [false, true] {
            let world = World::new(near, linked);
            each_switch(|switches| {
                for plan_override in [Absent, Any, Points::Host] {
                    for fallback in [Absent, Any, Points::Host] {
                        let case = Case {
                            environments: [plan_override, Absent, Absent, fallback],
                            near,
                            linked,
                            ..switches
                        };
                        decided[world.check(&case, &rows)] = true;
                    }
                }
            });
        }
    }
    assert_eq!(decided, vec![true; rows.len()]);
}
