//! Writes everything that is generated from the API types: the definitions, the chart's copies, the reference.
//!
//! `crdgen ROOT` writes below the repository's root; `crdgen --check ROOT` writes nothing and fails where a file differs.

mod chart;
mod conditions;
mod reference;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use drydock_crds::{GROUP, definitions, schema};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--check", root] => check(Path::new(root)),
        [root] if !root.starts_with('-') => write(Path::new(root)),
        _ => Err("usage: crdgen [--check] ROOT".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crdgen: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Every generated file: its path from the root, and its text.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let crds = definitions()?;
    let mut files = Vec::new();
    for crd in &crds {
        let text = schema::to_yaml(crd)?;
        let name = format!("{GROUP}_{}.yaml", crd.spec.names.plural);
        files.push((Path::new("charts/drydock/templates/crds").join(&name), chart::template(&text)?));
        files.push((Path::new("crds").join(&name), text));
    }
    let values = crds.iter().map(serde_json::to_value).collect::<std::result::Result<Vec<_>, _>>()?;
    files.push(("docs/reference/api.md".into(), reference::page(&values)));
    files.push(("docs/reference/conditions.md".into(), conditions::page(&values)));
    Ok(files)
}

fn write(root: &Path) -> Result<()> {
    for (path, text) in files()? {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn check(root: &Path) -> Result<()> {
    let stale: Vec<String> = files()?
        .into_iter()
        .filter(|(path, text)| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    match stale.as_slice() {
        [] => Ok(()),
        stale => Err(format!("not what the types say, run `make generate`: {}", stale.join(", ")).into()),
    }
}
