//! What the tree promises and no compiler checks: who may import whom, what is pure, how large a file is, what the invariants name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who may import whom; the figure in docs/architecture.md says the same. Nothing else may.
const ARROWS: [(&str, &[&str]); 10] = [
    ("devcontainer", &[]),
    ("drydock-protocol", &[]),
    ("drydock-crds", &[]),
    ("drydock-cluster", &[]),
    ("drydock-domain", &["drydock-crds", "devcontainer", "drydock-protocol"]),
    ("drydock-controller", &["drydock-domain", "drydock-crds", "drydock-protocol"]),
    ("drydock-agent", &["drydock-protocol", "devcontainer"]),
    ("kubectl-drydock", &["drydock-domain", "drydock-crds", "drydock-protocol"]),
    (
        "drydock-tests",
        &["drydock-controller", "drydock-domain", "drydock-crds", "drydock-protocol", "drydock-cluster"],
    ),
    ("drydock-e2e", &["drydock-crds", "drydock-cluster"]),
];

/// Crates whose code decides and does no I/O.
const PURE: [&str; 2] = ["drydock-domain", "devcontainer"];
/// What reads clocks, sockets, processes or clusters.
const IMPURE: [&str; 11] = [
    "tokio",
    "async-std",
    "hyper",
    "reqwest",
    "ureq",
    "kube-client",
    "kube-runtime",
    "rustix",
    "nix",
    "libc",
    "rand",
];

const MAX_LINES: usize = 450;
const NAMES_THAT_SAY_NOTHING: [&str; 5] = ["utils", "util", "common", "helpers", "manager"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every Rust file of ours, from the root.
fn sources() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .output()
        .unwrap();
    let files: Vec<PathBuf> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).exists())
        .collect();
    assert!(files.len() > 20, "only {} files found", files.len());
    files
}

/// The part of a file before its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn crates_import_only_along_the_arrows() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"])).unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let arrows = allowed.get(name).unwrap_or_else(|| panic!("{name} has no place among the crates"));
        seen.insert(name);
        for dependency in package["dependencies"].as_array().unwrap() {
            let target = dependency["name"].as_str().unwrap();
            if allowed.contains_key(target) && !arrows.contains(&target) && target != name {
                wrong.push(format!("{name} imports {target}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(seen, allowed.keys().copied().collect());
}

#[test]
fn decisions_reach_no_clock_and_no_network() {
    for name in PURE {
        let tree =
            cargo(&["tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none", "--format", "{p}"]);
        let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(crates.len() > 3, "{name}: {tree}");
        let impure: Vec<&&str> = IMPURE.iter().filter(|bad| crates.contains(**bad)).collect();
        assert!(impure.is_empty(), "{name} reaches {impure:?}");
    }
}

#[test]
fn decisions_call_no_clock_environment_or_file() {
    for folder in ["domain", "devcontainer"] {
        let rules = fs::read_to_string(root().join(folder).join("clippy.toml")).unwrap();
        for banned in [
            "std::time::SystemTime::now",
            "std::time::Instant::now",
            "std::env::var",
            "std::fs",
            "std::process::Command",
        ] {
            assert!(rules.contains(banned), "{folder}/clippy.toml lacks {banned}");
        }
    }
}

/// Whether the module that declares the file gates it with `#[cfg(test)]`.
fn is_test_module(path: &Path) -> bool {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let parent = path.parent().unwrap().with_extension("rs");
    let declared = fs::read_to_string(root().join(parent)).unwrap_or_default();
    declared.contains(&format!("#[cfg(test)]\nmod {stem};"))
}

#[test]
fn files_are_short_and_named_for_what_they_hold() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let shown = path.display();
        if stem == "mod" {
            wrong.push(format!("{shown}: the layout is foo.rs and foo/"));
        }
        if NAMES_THAT_SAY_NOTHING.contains(&stem) {
            wrong.push(format!("{shown}: the name says nothing"));
        }
        if path.components().any(|part| part.as_os_str() == "tests") || is_test_module(&path) {
            continue;
        }
        let lines = without_tests(&text).lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{shown}: {lines} lines"));
        }
        if !text.starts_with("//!") && stem != "build" {
            wrong.push(format!("{shown}: doesn't say what it does (//!)"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_undone_in_the_code() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["#[ig", "nore]"].concat()];
    for path in sources() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{} has a {mark}", path.display());
        }
    }
}

#[test]
fn versions_are_pinned_once() {
    let mut wrong = Vec::new();
    for (folder, _) in members() {
        let manifest = fs::read_to_string(root().join(&folder).join("Cargo.toml")).unwrap();
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies")
                && line.contains('=')
                && !line.contains("workspace = true")
                && !line.contains("path = ")
            {
                wrong.push(format!("{folder}: {line}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "versions belong into the root's [workspace.dependencies]");
}

/// The folder and name of each crate.
fn members() -> Vec<(String, String)> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"])).unwrap();
    let prefix = root();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder = manifest.parent().unwrap().strip_prefix(&prefix).unwrap();
            (folder.to_str().unwrap().to_owned(), package["name"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// Every line `**Invariant**` of docs/architecture.md ends in `Held by: …`, and what it names exists.
#[test]
fn every_invariant_names_what_holds_it() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let code: String = sources().iter().map(|path| fs::read_to_string(root().join(path)).unwrap()).collect();
    let mut count = 0;
    for paragraph in text.split("\n- **Invariant ").skip(1) {
        count += 1;
        let paragraph = paragraph.split("\n\n").next().unwrap();
        let (statement, holders) = paragraph
            .split_once("Held by:")
            .unwrap_or_else(|| panic!("no `Held by:` in invariant {paragraph}"));
        let named: Vec<&str> = holders.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "invariant {statement} names nothing");
        for name in named {
            let found = match name.ends_with(".toml") {
                true => root().join(name).exists(),
                false => code.contains(&format!("fn {name}")),
            };
            assert!(found, "`{name}` of invariant {statement} doesn't exist");
        }
    }
    assert!(count >= 6, "{count} invariants");
}
