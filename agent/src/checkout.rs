//! `checkout`: the git side of a Workspace, in a pod of its own. It fetches, moves `tree/` where that is allowed, finds
//! configurations, sweeps, and prints one JSON document. It runs no code of the repository, and nothing that an environment
//! wrote to the claim decides what it runs or where its credential goes.

pub mod credentials;
pub mod failure;
pub mod findings;
pub mod git;
pub mod layout;
pub mod listing;
pub mod repository;
pub mod submodules;
pub mod tree;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use devcontainer::discover::{Exclusions, Options, discover};
use drydock_protocol::PROTOCOL_VERSION;
use drydock_protocol::checkout::{
    CheckoutReason, CheckoutReport, CheckoutSource, CheckoutSpec, FetchedRevision, GitSource, Owner,
    SPEC_ENV, Submodules,
};
use drydock_protocol::git::{GitUrl, check_revision};
use nix::sys::stat::{Mode, umask};

use credentials::Credentials;
use failure::Failure;
use git::Git;
use listing::{Listing, Source};
use repository::{Place, Repository};

/// Entry of the subcommand: a report whatever happens; the exit code says whether it has an error.
#[must_use]
pub fn main(spec: Option<&Path>) -> ExitCode {
    let mut report = CheckoutReport { protocol_version: PROTOCOL_VERSION, ..CheckoutReport::default() };
    let mut secrets = Vec::new();
    let done = read_spec(spec).and_then(|spec| carry_out(&spec, &mut report, &mut secrets));
    if let Err(failure) = &done {
        report.error = Some(failure.to_report(&secrets));
    }
    let printed = findings::to_document(&mut report)
        .map_err(io::Error::other)
        .and_then(|document| writeln!(io::stdout(), "{document}"));
    if done.is_ok() && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_spec(file: Option<&Path>) -> Result<CheckoutSpec, Failure> {
    let invalid =
        |error: String| Failure::new(CheckoutReason::InvalidSpec, format!("the specification: {error}"));
    let text = match file {
        Some(file) => fs::read_to_string(file).map_err(|error| invalid(error.to_string()))?,
        None => std::env::var(SPEC_ENV).map_err(|error| invalid(format!("{SPEC_ENV}: {error}")))?,
    };
    serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))
}

fn carry_out(
    spec: &CheckoutSpec,
    report: &mut CheckoutReport,
    secrets: &mut Vec<String>,
) -> Result<(), Failure> {
    umask(Mode::S_IWOTH);
    let deadline = Instant::now() + Duration::from_secs(spec.timeout_seconds.clamp(1, 24 * 3600));
    let options = discovery_options(spec)?;
    let root = Path::new(&spec.root);
    let writes = match &spec.source {
        CheckoutSource::Git(source) => !source.remote_only,
        CheckoutSource::Upload {} => true,
        CheckoutSource::Directory {} => false,
    };
    if writes {
        if !root.is_absolute() || !root.is_dir() {
            return Err(Failure::new(CheckoutReason::InvalidSpec, "root is not a folder"));
        }
        layout::make(root, spec.owner)?;
        if let Some(living) = &spec.living {
            report.swept = layout::sweep(root, living)?;
        }
    }
    match &spec.source {
        CheckoutSource::Directory {} => find_in_folder(root, &options, spec, report),
        CheckoutSource::Upload {} => find_in_folder(&root.join(layout::TREE), &options, spec, report),
        CheckoutSource::Git(source) => check_out(spec, source, &options, deadline, report, secrets),
    }
}

fn discovery_options(spec: &CheckoutSpec) -> Result<Options, Failure> {
    let invalid =
        |error: String| Failure::new(CheckoutReason::InvalidSpec, format!("discovery.exclude: {error}"));
    let exclusions = Exclusions::new(&spec.discovery.exclude).map_err(|error| invalid(error.to_string()))?;
    let max_depth = spec.discovery.max_depth.map_or(Options::default().max_depth, |depth| depth as usize);
    Ok(Options { exclusions, max_depth })
}

fn find_in_folder(
    folder: &Path,
    options: &Options,
    spec: &CheckoutSpec,
    report: &mut CheckoutReport,
) -> Result<(), Failure> {
    if spec.discovery.disabled {
        return Ok(());
    }
    let listing = Listing::of_folder(folder, options)?;
    find(&listing, &Source::Folder(folder), options, report);
    Ok(())
}

fn find(listing: &Listing, source: &Source<'_>, options: &Options, report: &mut CheckoutReport) {
    let discovery = discover(listing.entries(), options);
    report.devcontainers = findings::read(&discovery, source);
    report.discovered = true;
    report.notes.extend(listing.notes.iter().cloned());
    if discovery.omitted > 0 {
        report.notes.push(format!("{} configurations more than are listed", discovery.omitted));
    }
}

fn check_out(
    spec: &CheckoutSpec,
    source: &GitSource,
    options: &Options,
    deadline: Instant,
    report: &mut CheckoutReport,
    secrets: &mut Vec<String>,
) -> Result<(), Failure> {
    let url = GitUrl::parse(&source.url)
        .map_err(|error| Failure::new(CheckoutReason::InvalidUrl, error.to_string()))?;
    if let Some(revision) = &source.revision {
        let invalid = |error| Failure::new(CheckoutReason::InvalidRevision, format!("{error}"));
        check_revision(revision).map_err(invalid)?;
    }
    let mounted = source.credentials.as_deref().map(Path::new);
    let credentials = Credentials::take_over(mounted, &url, spec.owner)?;
    secrets.extend_from_slice(credentials.secrets());
    become_owner(spec.owner)?;
    let scratch = Scratch::make()?;
    let binary = std::env::current_exe().map_err(|error| Failure::io("this binary", &error))?;
    let git = Git::new(credentials.folder(), deadline)
        .with_access(credentials.options(&url, &binary), credentials.ssh_command());
    let place = (!source.remote_only).then(|| {
        let work_tree = Path::new(&spec.root).join(layout::TREE);
        Place { git_dir: work_tree.join(".git"), work_tree }
    });
    if let Some(place) = &place {
        tree::prepare(&git, place)?;
    }
    let repository = Repository::open(git, &scratch.folder("main"), place)?;
    let depth = if source.remote_only { Some(1) } else { source.depth };
    let fetched = repository.fetch(&url, source.revision.as_deref(), depth);
    let mut at = fetched.as_ref().map(|fetched| fetched.commit.clone()).ok();
    if let Ok(fetched) = &fetched {
        report.revision =
            Some(FetchedRevision { name: fetched.name.clone(), commit: fetched.commit.clone() });
    }
    let mut after = Ok(());
    if repository.place().is_some() {
        // What there was is still there when the remote can't be reached.
        report.tree = tree::state(&repository);
        if let Ok(fetched) = &fetched {
            repository.publish(fetched)?;
            report.tree = Some(tree::follow(&repository, fetched, &url, spec.hold.as_deref())?);
            let stays = report.tree.as_ref().is_some_and(|tree| tree.behind.is_some());
            if source.submodules == Submodules::Recursive && !stays {
                let mut notes = Vec::new();
                after = submodules::follow(&repository, &fetched.commit, &url, &scratch, &mut notes);
                report.notes.append(&mut notes);
            }
        }
        at = report.tree.as_ref().map(|tree| tree.commit.clone());
    }
    if let Some(commit) = at.filter(|_| !spec.discovery.disabled) {
        let listing = Listing::of_commit(&repository, &commit)?;
        find(&listing, &Source::Commit(&repository, &commit), options, report);
    }
    fetched.map(drop).and(after)
}

/// From here on everything is done as the owner of the tree, git first of all.
fn become_owner(owner: Owner) -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() || owner.uid == 0 {
        return Ok(());
    }
    make_known(owner);
    let (uid, gid) = (nix::unistd::Uid::from_raw(owner.uid), nix::unistd::Gid::from_raw(owner.gid));
    nix::unistd::setgroups(&[gid])
        .and_then(|()| nix::unistd::setresgid(gid, gid, gid))
        .and_then(|()| nix::unistd::setresuid(uid, uid, uid))
        .map_err(|errno| Failure::io("becoming the owner of the tree", &errno.into()))
}

/// ssh refuses to run as a user without an entry; this container is only ours.
fn make_known(owner: Owner) {
    let accounts = crate::user::Accounts::read(Path::new("/"));
    if accounts.resolve(&owner.uid.to_string()).is_ok_and(|user| user.name != owner.uid.to_string()) {
        return;
    }
    let entry = format!("drydock-owner:x:{}:{}::/nonexistent:/bin/false\n", owner.uid, owner.gid);
    let appended = fs::File::options()
        .append(true)
        .open("/etc/passwd")
        .and_then(|mut file| file.write_all(entry.as_bytes()));
    if let Err(error) = appended {
        // Only ssh needs it, and says so itself.
        tracing::warn!(%error, "the owner of the tree has no entry in /etc/passwd");
    }
}

/// A temporary folder; removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self, Failure> {
        unique_folder(&std::env::temp_dir(), "drydock-checkout")
            .map(Self)
            .map_err(|error| Failure::io("a temporary folder", &error))
    }

    /// A folder in it.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The container is about to end.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder that nobody has made before.
fn unique_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut random)?;
    let folder = parent.join(format!("{name}-{}", crate::shim::capture::to_hex(&random)));
    fs::create_dir(&folder)?;
    Ok(folder)
}
