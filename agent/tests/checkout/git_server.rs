//! Smart HTTP over loopback: `git http-backend` behind a few lines of HTTP, with basic auth where asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What a request is answered with before git is asked.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// `Basic …`, base64 of it.
    pub(crate) authorization: Option<String>,
    /// Everything is redirected there.
    pub(crate) redirect: Option<String>,
}

/// A server; its thread ends with the test process.
pub(crate) struct GitServer {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    /// `Authorization` headers that came.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

impl GitServer {
    pub(crate) fn start(rules: Rules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (root, log) = (folder.path().to_owned(), seen.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (root, rules, log) = (root.clone(), rules.clone(), log.clone());
                std::thread::spawn(move || answer(&stream.unwrap(), &root, &rules, &log));
            }
        });
        Self { folder, port, seen }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}.git", self.port)
    }

    /// A repository that the server serves.
    pub(crate) fn repository(&self, name: &str) -> Repository {
        Repository::create(self.folder.path().join(format!("{name}.git")))
    }
}

fn answer(stream: &TcpStream, root: &Path, rules: &Rules, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    if !header("authorization").is_empty() {
        log.lock().unwrap().push(header("authorization"));
    }
    let plain = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n")
    };
    let mut to = stream;
    if let Some(place) = &rules.redirect {
        let location = format!("location: {place}{target}\r\n");
        return to.write_all(plain("302 Found", &location).as_bytes()).ok();
    }
    if rules.authorization.as_ref().is_some_and(|wanted| header("authorization") != format!("Basic {wanted}"))
    {
        return to
            .write_all(plain("401 Unauthorized", "www-authenticate: Basic realm=\"git\"\r\n").as_bytes())
            .ok();
    }
    let length = header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", length.to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = backend.stdin.take()?;
    let writer = std::thread::spawn(move || input.write_all(&body));
    let mut output = Vec::new();
    backend.stdout.take()?.read_to_end(&mut output).ok()?;
    let _ = writer.join();
    backend.wait().ok()?;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&output[..end]);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let kept: String =
        head.lines().filter(|line| !line.starts_with("Status: ")).map(|line| format!("{line}\r\n")).collect();
    let body = &output[end + 4..];
    let head =
        format!("HTTP/1.1 {status}\r\n{kept}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    to.write_all(head.as_bytes()).and_then(|()| to.write_all(body)).ok()
}

/// A bare repository with a working copy to fill it from.
pub(crate) struct Repository {
    pub(crate) bare: PathBuf,
    work: tempfile::TempDir,
}

impl Repository {
    pub(crate) fn create(bare: PathBuf) -> Self {
        let repository = Self { bare, work: tempfile::tempdir().unwrap() };
        let bare = repository.bare.to_str().unwrap().to_owned();
        run(&["git", "init", "--quiet", "--bare", "--initial-branch=main", &bare], Path::new("/"));
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["remote", "add", "origin", &bare]);
        repository
    }

    pub(crate) fn path(&self) -> &Path {
        self.work.path()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let all: Vec<&str> = ["git"].iter().chain(args).copied().collect();
        run(&all, self.work.path())
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.work.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Commits everything and pushes all branches; the commit.
    pub(crate) fn push(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(&["push", "--quiet", "--force", "--all", "origin"]);
        self.git(&["push", "--quiet", "--force", "--tags", "origin"]);
        self.git(&["rev-parse", "HEAD"])
    }
}

/// Runs a command; its trimmed output.
pub(crate) fn run(args: &[&str], folder: &Path) -> String {
    let output = Command::new(args[0])
        .args(&args[1..])
        .current_dir(folder)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
        .envs([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
