//! A repository on the claim, worked on from outside: what environments can write to (the configuration in `tree/.git`,
//! above all) decides nothing here. Every call that reaches the network, reads the tree's state or writes files goes through
//! a private git folder with a configuration of ours, which shares the objects and the index alone.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use drydock_protocol::checkout::CheckoutReason;
use drydock_protocol::git::{GitUrl, is_object_id};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use super::failure::Failure;
use super::git::{Call, Git};

/// Where the last fetch put what was asked for.
const FETCHED: &str = "refs/drydock/fetched";
/// Bytes of the file of shallow commits, and of the excludes.
const SMALL_FILE_MAX: u64 = 4 * 1024 * 1024;

/// A repository.
#[derive(Debug)]
pub struct Repository {
    git: Git,
    private: PathBuf,
    place: Option<Place>,
}

/// Where a repository is on the claim.
#[derive(Clone, Debug)]
pub struct Place {
    /// `tree/.git`, or a submodule's folder in it.
    pub git_dir: PathBuf,
    /// `tree`.
    pub work_tree: PathBuf,
}

/// What a fetch brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// As asked for, or what the remote's HEAD stands for.
    pub name: String,
    /// Short name, when it is a branch.
    pub branch: Option<String>,
    /// Object id.
    pub commit: String,
    /// Every branch was fetched: what the remote doesn't have any more is known.
    complete: bool,
}

impl Repository {
    /// Opens the repository at `place`; without one its objects are private too. `private` is an empty folder.
    ///
    /// # Errors
    /// Git's.
    pub fn open(git: Git, private: &Path, place: Option<Place>) -> Result<Self, Failure> {
        let private_text = private.to_string_lossy();
        let args = vec!["init", "--quiet", "--bare", "--template=", &private_text];
        git.run(&Call { args, ..Call::default() })?;
        let repository = Self { git, private: private.to_owned(), place };
        repository.seed()?;
        Ok(repository)
    }

    /// The place on the claim.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// How git is called.
    #[must_use]
    pub fn caller(&self) -> &Git {
        &self.git
    }

    /// Runs git on the private folder, with the objects, the index and the files of the place.
    ///
    /// # Errors
    /// Git's.
    pub fn git(&self, args: &[&str], stdin: &[u8]) -> Result<Vec<u8>, Failure> {
        self.git.run(&self.call(args, stdin))
    }

    /// As [`Self::git`]; whether it ended well.
    ///
    /// # Errors
    /// It couldn't be run.
    pub fn git_succeeds(&self, args: &[&str]) -> Result<bool, Failure> {
        self.git.try_run(&self.call(args, &[])).map(|(code, _, _)| code == 0)
    }

    /// As [`Self::git`]; exit code and the end of standard error.
    ///
    /// # Errors
    /// It couldn't be run.
    pub fn try_git(&self, args: &[&str]) -> Result<(i32, String), Failure> {
        self.git.try_run(&self.call(args, &[])).map(|(code, _, stderr)| (code, stderr))
    }

    fn call<'a>(&self, args: &[&'a str], stdin: &[u8]) -> Call<'a> {
        let mut call = Call { args: args.to_vec(), stdin: stdin.to_vec(), ..Call::default() };
        call.globals.push(format!("--git-dir={}", self.private.display()));
        if let Some(place) = &self.place {
            call.globals.push(format!("--work-tree={}", place.work_tree.display()));
            call.env.push(("GIT_OBJECT_DIRECTORY", place.git_dir.join("objects")));
            call.env.push(("GIT_INDEX_FILE", place.git_dir.join("index")));
        }
        call
    }

    /// Runs git on the place's own folder: for its refs and its configuration file alone, which run nothing.
    ///
    /// # Errors
    /// Git's; there is no place.
    pub fn git_there(&self, args: &[&str], stdin: &[u8]) -> Result<Vec<u8>, Failure> {
        let no_place = || Failure::new(CheckoutReason::Internal, "the repository has no place on a claim");
        let place = self.place.as_ref().ok_or_else(no_place)?;
        let globals = vec![format!("--git-dir={}", place.git_dir.display())];
        self.git.run(&Call { globals, args: args.to_vec(), stdin: stdin.to_vec(), ..Call::default() })
    }

    /// The commit that a name of the place stands for.
    ///
    /// # Errors
    /// It couldn't be looked up.
    pub fn resolve_there(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let found = self.git_there(&["rev-parse", "--verify", "--quiet", &name], &[]).ok()?;
        let id = String::from_utf8_lossy(&found).trim().to_owned();
        is_object_id(&id).then_some(id)
    }

    fn resolve(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let found = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], &[]).ok()?;
        let id = String::from_utf8_lossy(&found).trim().to_owned();
        is_object_id(&id).then_some(id)
    }

    /// Takes over what the next fetch needs to know of the last one. Refs to missing objects make no harm: then the fetch
    /// is a whole one.
    fn seed(&self) -> Result<(), Failure> {
        let Some(place) = &self.place else { return Ok(()) };
        for file in ["shallow", "info/exclude"] {
            if let Some(bytes) = read_beneath(&place.git_dir, file) {
                let target = self.private.join(file);
                let written = target
                    .parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| fs::write(&target, bytes));
                written.map_err(|error| Failure::io("the private git folder", &error))?;
            }
        }
        let refs =
            refs_of(&self.git_there(&["for-each-ref", REF_FORMAT, "refs/remotes/origin", "refs/tags"], &[])?);
        let create: String = refs.iter().map(|(name, id)| format!("create {name} {id}\n")).collect();
        let _ = self.git(&["update-ref", "--stdin"], create.as_bytes());
        Ok(())
    }

    /// Fetches a revision: with everything beside it, or with `depth` alone.
    ///
    /// # Errors
    /// `RevisionNotFound` and git's.
    pub fn fetch(
        &self,
        url: &GitUrl,
        revision: Option<&str>,
        depth: Option<u32>,
    ) -> Result<Fetched, Failure> {
        let wanted = self.look_up(url, revision)?;
        let url = url.to_string();
        let depth_option = depth.map(|depth| format!("--depth={}", depth.max(1)));
        let fetch = |refspecs: &[String]| {
            let mut args =
                vec!["fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--prune"];
            args.extend(["--no-recurse-submodules", "--no-auto-maintenance"]);
            args.extend(depth_option.as_deref());
            args.extend(["--", &url]);
            args.extend(refspecs.iter().map(String::as_str));
            self.git(&args, &[]).map(drop)
        };
        let mut refspecs = Vec::new();
        let complete = depth.is_none();
        if complete {
            refspecs =
                vec!["+refs/heads/*:refs/remotes/origin/*".to_owned(), "+refs/tags/*:refs/tags/*".to_owned()];
        } else if let Some(branch) = &wanted.branch {
            refspecs.push(format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"));
        }
        if let Some(full) = &wanted.full {
            refspecs.push(format!("+{full}:{FETCHED}"));
        }
        if !refspecs.is_empty() {
            fetch(&refspecs)?;
        }
        let mut commit = self.resolve(wanted.full.as_ref().map_or(wanted.name.as_str(), |_| FETCHED));
        if commit.is_none() && is_object_id(&wanted.name) {
            fetch(&[format!("+{}:{FETCHED}", wanted.name)])?;
            commit = self.resolve(FETCHED);
        }
        let commit = commit.ok_or_else(|| not_found(&wanted.name))?;
        Ok(Fetched { name: wanted.name, branch: wanted.branch, commit, complete })
    }

    fn look_up(&self, url: &GitUrl, revision: Option<&str>) -> Result<Wanted, Failure> {
        let patterns = match revision {
            None => vec!["HEAD".to_owned()],
            Some(name) if name.starts_with("refs/") => vec![name.to_owned()],
            Some(name) => vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")],
        };
        let url = url.to_string();
        let mut args = vec!["ls-remote", "--symref", "--", &url];
        args.extend(patterns.iter().map(String::as_str));
        let answer = self.git(&args, &[])?;
        let answer = String::from_utf8_lossy(&answer);
        let lines: Vec<(&str, &str)> = answer.lines().filter_map(|line| line.split_once('\t')).collect();
        let is_there = |name: &str| lines.iter().any(|(_, found)| *found == name);
        let full = match revision {
            None => {
                let head = lines.iter().find(|(_, name)| *name == "HEAD");
                head.ok_or_else(|| not_found("HEAD (is the repository empty?)"))?;
                let target = lines
                    .iter()
                    .find_map(|(value, name)| value.strip_prefix("ref: ").filter(|_| *name == "HEAD"));
                Some(target.unwrap_or("HEAD").to_owned())
            }
            Some(_) => patterns.iter().find(|pattern| is_there(pattern)).cloned(),
        };
        let branch = full.as_deref().and_then(|full| full.strip_prefix("refs/heads/")).map(str::to_owned);
        let name =
            revision.map(str::to_owned).or_else(|| branch.clone()).unwrap_or_else(|| "HEAD".to_owned());
        let may_be_commit =
            (7..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if full.is_none() && !may_be_commit {
            return Err(not_found(&name));
        }
        Ok(Wanted { name, full, branch })
    }

    /// Shows what was fetched in the place's own refs. Tags that are there already stay as they are.
    ///
    /// # Errors
    /// Git's.
    pub fn publish(&self, fetched: &Fetched) -> Result<(), Failure> {
        let Some(place) = &self.place else { return Ok(()) };
        let spaces = ["for-each-ref", REF_FORMAT, "refs/remotes/origin", "refs/tags"];
        let new = refs_of(&self.git(&spaces, &[])?);
        let old = refs_of(&self.git_there(&spaces, &[])?);
        let known = |name: &str, refs: &[(String, String)]| refs.iter().any(|(each, _)| each == name);
        let mut updates = String::new();
        for (name, id) in &new {
            if name.starts_with("refs/remotes/") || !known(name, &old) {
                updates.push_str(&format!("update {name} {id}\n"));
            }
        }
        for (name, _) in old.iter().filter(|(name, _)| fetched.complete && name.starts_with("refs/remotes/"))
        {
            if !known(name, &new) {
                updates.push_str(&format!("delete {name}\n"));
            }
        }
        // Before the refs: they may lead to commits whose parents aren't there.
        self.publish_shallow(place).map_err(|error| Failure::io("the list of shallow commits", &error))?;
        self.git_there(&["update-ref", "--stdin"], updates.as_bytes()).map(drop)
    }

    fn publish_shallow(&self, place: &Place) -> std::io::Result<()> {
        let target = place.git_dir.join("shallow");
        match fs::read(self.private.join("shallow")) {
            Ok(bytes) => {
                let temporary = place.git_dir.join("shallow.drydock");
                let _ = fs::remove_file(&temporary);
                fs::File::create_new(&temporary)
                    .and_then(|mut file| std::io::Write::write_all(&mut file, &bytes))?;
                fs::rename(temporary, target)
            }
            Err(_) => match fs::remove_file(target) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

struct Wanted {
    name: String,
    full: Option<String>,
    branch: Option<String>,
}

const REF_FORMAT: &str = "--format=%(objectname) %(refname) %(symref)";

fn refs_of(output: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(output);
    let parse = |line: &str| {
        let (id, rest) = line.split_once(' ')?;
        let (name, symref) = rest.split_once(' ')?;
        (is_object_id(id) && symref.is_empty()).then(|| (name.to_owned(), id.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

fn not_found(name: &str) -> Failure {
    Failure::new(CheckoutReason::RevisionNotFound, format!("the remote has no branch, tag or commit {name}"))
}

/// Reads a small file without following any link.
fn read_beneath(folder: &Path, path: &str) -> Option<Vec<u8>> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let file = fs::File::from(openat2(fs::File::open(folder).ok()?, path, how).ok()?);
    let mut bytes = Vec::new();
    file.take(SMALL_FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
