//! What comes back of a command: its code, its bytes, and the text of what went wrong.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use drydock_crds::ToolRun;
use drydock_crds::tool_run::Stream;
use drydock_e2e::Scene;
use drydock_e2e::cli::{outcome, sha256, to};
use serde_json::json;
use tokio::task::JoinSet;

/// How many runs are under way at once.
const WORKERS: usize = 12;

fn stdout(run: &ToolRun) -> Result<&Stream> {
    run.status.as_ref().and_then(|s| s.stdout.as_ref()).context("a finished run has its stdout")
}

fn stderr(run: &ToolRun) -> Result<&Stream> {
    run.status.as_ref().and_then(|s| s.stderr.as_ref()).context("a finished run has its stderr")
}

fn exit_code(run: &ToolRun) -> Option<i32> {
    run.status.as_ref().and_then(|s| s.exit_code)
}

/// A command, how often it is run, and what each of its runs must show.
struct Expected {
    command: &'static [&'static str],
    times: usize,
    code: i32,
    stdout: Vec<u8>,
    stderr: &'static [u8],
}

async fn check(scene: &Scene, name: &str, expected: &Expected) -> Result<()> {
    let run = scene.run(name, json!({"environment": to("box"), "command": expected.command})).await?;
    let (out, err) = (stdout(&run)?, stderr(&run)?);
    ensure!(exit_code(&run) == Some(expected.code), "{name}: {} {:?}", outcome(&run), exit_code(&run));
    let lengths = (expected.stdout.len(), expected.stderr.len());
    ensure!((out.bytes, err.bytes) == (lengths.0 as i64, lengths.1 as i64), "{name}: {out:?} {err:?}");
    ensure!(out.sha256.as_deref() == Some(&sha256(&expected.stdout)), "{name}: {out:?}");
    ensure!(err.sha256.as_deref() == Some(&sha256(expected.stderr)), "{name}: {err:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b076_no_byte_and_no_code_is_lost_in_650_runs() -> Result<()> {
    let scene = Arc::new(Scene::new("b076").await?);
    scene.container("box", scene.image, json!({})).await?;
    let numbers: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    let all = Arc::new([
        Expected {
            command: &["sh", "-c", "echo a; echo b >&2; exit 7"],
            times: 500,
            code: 7,
            stdout: b"a\n".into(),
            stderr: b"b\n",
        },
        Expected {
            command: &["seq", "1", "20000"],
            times: 100,
            code: 0,
            stdout: numbers.into_bytes(),
            stderr: b"",
        },
        Expected { command: &["printf", "x"], times: 50, code: 0, stdout: b"x".into(), stderr: b"" },
    ]);
    let runs: Vec<(usize, usize)> =
        all.iter().enumerate().flat_map(|(kind, e)| (0..e.times).map(move |n| (kind, n))).collect();
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (scene, all) = (Arc::clone(&scene), Arc::clone(&all));
        let mine: Vec<_> = runs.iter().copied().skip(worker).step_by(WORKERS).collect();
        workers.spawn(async move {
            for (kind, n) in mine {
                check(&scene, &format!("run-{kind}-{n}"), &all[kind]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Arc::into_inner(scene).context("every worker has ended")?.end().await
}

#[tokio::test]
async fn b078_a_shell_is_only_asked_for_where_there_is_one() -> Result<()> {
    let scene = Scene::new("b078").await?;
    scene.container("alp", &scene.standard_image("alp").await?, json!({})).await?;
    scene.container("nosh", &scene.standard_image("nosh").await?, json!({})).await?;
    let ran =
        scene.plugin(&["run", "ctr/alp", "--script", "echo hi; test -x \"$SHELL\" && echo there"]).await?;
    ensure!(ran.code == Some(0) && ran.text() == "hi\nthere\n", "{ran:?}");
    let ran = scene.plugin(&["run", "ctr/nosh", "--", "/echo", "a b", "c"]).await?;
    ensure!(ran.code == Some(0) && ran.text() == "a b c\n", "{ran:?}");
    let ran = scene.plugin(&["run", "ctr/nosh", "--script", "echo hi"]).await?;
    ensure!(ran.code == Some(127) && ran.stderr.contains("NoShell"), "{ran:?}");
    let ran = scene.plugin(&["run", "ctr/nosh", "--", "/echo", "again"]).await?;
    ensure!(ran.code == Some(0) && ran.text() == "again\n", "{ran:?}");
    scene.end().await
}

#[tokio::test]
async fn b079_each_end_has_its_code_and_says_why() -> Result<()> {
    let scene = Scene::new("b079").await?;
    scene.container("box", scene.image, json!({})).await?;
    let cases: [(&[&str], i32, &str, &str); 9] = [
        (&["--", "/no/such"], 127, "CannotExecute", "No such file or directory"),
        (&["--", "/etc/passwd"], 126, "CannotExecute", "Permission denied"),
        (&["--", "/etc"], 126, "CannotExecute", "Permission denied"),
        (&["--", "sh", "-c", "exit 300"], 44, "NonZeroExit", ""),
        (&["--", "sh", "-c", "kill -9 $$"], 137, "Signalled", "signal 9"),
        (&["--", "sh", "-c", "kill -15 $$"], 143, "Signalled", "signal 15"),
        (&["--", "sh", "-c", "kill -11 $$"], 139, "Signalled", "signal 11"),
        (&["--cwd", "/nowhere", "--", "true"], 126, "CannotExecute", "working directory \"/nowhere\""),
        (&["--", "true"], 0, "Succeeded", ""),
    ];
    for (index, (arguments, code, outcome_, text)) in cases.into_iter().enumerate() {
        let description = format!("case {index}");
        let ran =
            scene.plugin(&[&["run", "ctr/box", "--description", &description], arguments].concat()).await?;
        ensure!(ran.code == Some(code) && ran.stderr.contains(text), "{arguments:?}: {ran:?}");
        let runs = scene.api::<ToolRun>().list(&kube::api::ListParams::default()).await?;
        let run = runs.items.iter().find(|r| r.spec.description.as_deref() == Some(&description));
        let run = run.context("the run is there")?;
        ensure!(outcome(run) == outcome_, "{arguments:?}: {}", outcome(run));
    }
    scene.end().await
}

#[tokio::test]
async fn b081_bytes_come_back_as_they_went() -> Result<()> {
    let scene = Scene::new("b081").await?;
    scene.container("box", scene.image, json!({})).await?;
    let cups = "\u{2615}".repeat(100_000);
    let split = "import sys,time; o=sys.stdout.buffer; o.write(b'\\xe2\\x98'); o.flush(); time.sleep(.4); o.write(b'\\x95')";
    let programs = [
        ("import sys; sys.stdout.buffer.write('\\u2615'.encode()*100000)", cups.into_bytes()),
        (split, "\u{2615}".into()),
        ("import sys; sys.stdout.buffer.write(bytes(range(256))*4000)", {
            let all: Vec<u8> = (0..=255).collect();
            all.repeat(4000)
        }),
        ("import sys; sys.stdout.buffer.write(b'a\\xffb')", b"a\xffb".into()),
        ("import sys; sys.stdout.buffer.write(b'\\0\\0x\\0')", b"\0\0x\0".into()),
        ("import sys; sys.stdout.buffer.write('gr\\u00fc\\u00dfe'.encode('latin-1'))", b"gr\xfc\xdfe".into()),
    ];
    for (index, (program, bytes)) in programs.into_iter().enumerate() {
        let ran = scene.plugin(&["run", "ctr/box", "--", "python3", "-c", program]).await?;
        ensure!(ran.code == Some(0), "{program}: {}", ran.stderr);
        ensure!(ran.stdout == bytes, "{program}: {} of {} bytes", ran.stdout.len(), bytes.len());
        let name = format!("run-{index}");
        let spec = json!({"environment": to("box"), "command": ["python3", "-c", program]});
        let run = scene.run(&name, spec).await?;
        ensure!(stdout(&run)?.sha256.as_deref() == Some(&sha256(&bytes)), "{program}: {:?}", stdout(&run)?);
        let logs = scene.plugin(&["logs", &format!("trun/{name}")]).await?;
        ensure!(logs.stdout == bytes, "{program}: logs has {} bytes", logs.stdout.len());
        // The preview is text: of what is text, no character is cut in two.
        let head = stdout(&run)?.head.clone().unwrap_or_default();
        let is_text = std::str::from_utf8(&bytes).is_ok();
        ensure!(!(is_text && head.contains('\u{fffd}')), "{program}: {head:?}");
    }
    scene.end().await
}

#[tokio::test]
async fn b086_past_the_limit_head_tail_and_counts_are_kept() -> Result<()> {
    let scene = Scene::new("b086").await?;
    scene.container("box", scene.image, json!({})).await?;
    let run = async |name: &str, script: &str, limit: i64, timeout: i64| {
        let spec = json!({"environment": to("box"), "command": ["sh", "-c", script], "outputLimit": limit, "timeoutSeconds": timeout});
        scene.run(name, spec).await
    };
    const MEBIBYTE: i64 = 1 << 20;
    let long = run("long", "head -c 20000000 /dev/zero | tr '\\0' A; echo END; exit 3", MEBIBYTE, 60).await?;
    let out = stdout(&long)?;
    ensure!(exit_code(&long) == Some(3) && out.bytes == 20_000_004 && out.truncated, "{out:?}");
    ensure!(out.head.as_deref().is_some_and(|h| h.starts_with("AAA")), "{out:?}");
    ensure!(out.tail.as_deref().is_some_and(|t| t.ends_with("AEND\n")), "{out:?}");
    let logs = scene.plugin(&["logs", "trun/long"]).await?;
    let kept = i64::try_from(logs.stdout.len())?;
    ensure!(kept <= MEBIBYTE && logs.stdout.ends_with(b"END\n"), "{kept} bytes: {}", logs.stderr);
    ensure!(logs.stderr.contains(&(20_000_004 - kept).to_string()), "{kept} bytes: {}", logs.stderr);

    let endless = run("endless", "yes", MEBIBYTE, 3).await?;
    ensure!(outcome(&endless) == "TimedOut" && stdout(&endless)?.truncated, "{endless:?}");
    ensure!(stdout(&endless)?.tail.as_deref().is_some_and(|t| t.contains("y\ny\n")), "{endless:?}");

    for (name, bytes, truncated) in [("exactly", MEBIBYTE, false), ("one-more", MEBIBYTE + 1, true)] {
        let run = run(name, &format!("head -c {bytes} /dev/zero | tr '\\0' B"), MEBIBYTE, 60).await?;
        let out = stdout(&run)?;
        ensure!(out.bytes == bytes, "{name}: {out:?}");
        let logs = scene.plugin(&["logs", &format!("trun/{name}")]).await?;
        let whole = logs.stdout.len() as i64 == bytes;
        ensure!(whole != truncated, "{name}: {} bytes: {}", logs.stdout.len(), logs.stderr);
    }
    scene.end().await
}
