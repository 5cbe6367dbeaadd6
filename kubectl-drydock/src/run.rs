//! `run`: one command, followed to its end.

mod follow;
mod outcome;
pub(crate) mod pump;
mod spec;

use std::hash::{BuildHasher as _, Hasher as _};

use drydock_crds::ToolRun;
use kube::api::PostParams;
use serde_json::json;

use crate::cli::{Global, RunArgs};
use crate::connection::Connection;
use crate::exit;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Longest first part of a run's name.
const BASE_MAX: usize = 50;

/// Creates the run and follows it; the exit code.
pub(crate) async fn run(connection: &Connection, global: &Global, args: &RunArgs) -> Result<u8, Failure> {
    let spec = spec::spec(connection, args).await?;
    let base = spec::base_name(&spec);
    let run = create(connection, ToolRun::new(&name(&base), spec)).await?;
    if args.detach || !global.wait {
        let name = run.metadata.name.clone().unwrap_or_default();
        let text = output::document(&global.output, &format!("trun/{name}"), &json!(run));
        output::write(&text.unwrap_or_else(|| format!("trun/{name}\n")));
        return Ok(exit::DONE);
    }
    let followed = follow::Follow::new(connection, global, run);
    let (run, code) = match followed.follow().await? {
        follow::End::Finished(run) => {
            let code = run.status.as_ref().map_or(exit::OURS, exit::of_run);
            (run, code)
        }
        follow::End::Left(code) => return Ok(code),
    };
    let name = format!("trun/{}", run.metadata.name.as_deref().unwrap_or_default());
    if let Some(text) = output::document(&global.output, &name, &json!(run)) {
        output::write(&text);
    }
    if let Some(failure) = outcome::failure(&run)
        && global.output != Format::Json
    {
        output::failure(global, &failure);
    }
    Ok(code)
}

/// Creates the run. A name that is taken is ours when what stands there is what was to be written: a request that was sent
/// again must not become a second run.
async fn create(connection: &Connection, run: ToolRun) -> Result<ToolRun, Failure> {
    let api = connection.api::<ToolRun>();
    let name = run.metadata.name.clone().unwrap_or_default();
    let created =
        connection.call::<ToolRun, _>("create", None, api.create(&PostParams::default(), &run)).await;
    match created {
        Err(failure) if failure.reason == "AlreadyExists" => {
            let found: ToolRun = connection.get(&name).await?;
            if found.spec == run.spec { Ok(found) } else { Err(failure) }
        }
        other => other,
    }
}

/// `<base>-<eight random characters>`.
fn name(base: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    // Seeded from the operating system for each process and each value.
    let mut random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let mut tail = String::new();
    for _ in 0..8 {
        tail.push(char::from(LETTERS[usize::try_from(random % 32).unwrap_or(0)]));
        random /= 32;
    }
    let cut: String = base.chars().take(BASE_MAX).collect();
    format!("{}-{tail}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_and_differ() {
        let long = "x".repeat(49) + "-yyyy";
        for base in ["shop", &long] {
            let (one, two) = (name(base), name(base));
            assert_ne!(one, two);
            assert!(one.len() <= 63 && crate::place::name(&one).is_ok(), "{one}");
        }
    }
}
