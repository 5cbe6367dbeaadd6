//! A claim, and `checkout` on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use drydock_protocol::checkout::{
    CheckoutReport, CheckoutSource, CheckoutSpec, DiscoverySpec, GitSource, Owner, SPEC_ENV, Submodules,
};

use crate::git_server::run;

const OWNER: Owner = Owner { uid: 1000, gid: 1000 };

pub(crate) struct Claim {
    folder: tempfile::TempDir,
    pub(crate) spec: CheckoutSpec,
}

impl Claim {
    /// Nothing is on it; the branch that the remote's HEAD stands for is wanted.
    pub(crate) fn new(url: &str) -> Self {
        let source = CheckoutSource::Git(GitSource {
            url: url.to_owned(),
            revision: None,
            submodules: Submodules::None,
            depth: None,
            remote_only: false,
            credentials: None,
        });
        Self::with_source(source)
    }

    pub(crate) fn with_source(source: CheckoutSource) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Others go through it, as they go through a mount.
        run(&["chmod", "755", folder.path().to_str().unwrap()], Path::new("/"));
        let spec = CheckoutSpec {
            source,
            root: folder.path().to_str().unwrap().to_owned(),
            owner: OWNER,
            hold: None,
            discovery: DiscoverySpec::default(),
            living: None,
            timeout_seconds: 60,
        };
        Self { folder, spec }
    }

    pub(crate) fn source(&mut self) -> &mut GitSource {
        match &mut self.spec.source {
            CheckoutSource::Git(source) => source,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// git in the tree, as a tool of an environment would.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let all: Vec<&str> = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "git"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        run(&all, &self.path("tree"))
    }

    pub(crate) fn output(&self) -> Output {
        let mut checkout = Command::new(env!("CARGO_BIN_EXE_drydock-agent"));
        checkout.arg("checkout").env(SPEC_ENV, serde_json::to_string(&self.spec).unwrap()).output().unwrap()
    }

    /// Runs; the report, with or without an error.
    pub(crate) fn try_checkout(&self) -> CheckoutReport {
        let output = self.output();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text} {}", String::from_utf8_lossy(&output.stderr));
        let report: CheckoutReport = serde_json::from_str(&text).unwrap();
        assert_eq!(output.status.success(), report.error.is_none());
        report
    }

    /// Runs; there must be no error.
    pub(crate) fn checkout(&self) -> CheckoutReport {
        let report = self.try_checkout();
        assert_eq!(report.error, None, "{report:?}");
        report
    }
}
