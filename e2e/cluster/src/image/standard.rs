//! The images that tests and the cluster itself use; each is made once and cached by what goes into it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::command::{command, report, run};
use crate::{Error, Result, layout, tools};

use super::layer::{Entry, Layer};
use super::{Image, Settings, debian, hex};

/// The tag of every standard image.
pub(crate) const TAG: &str = "1";

const INIT_SOURCE: &str = include_str!("../../images/init.c");
const ECHO_SOURCE: &str = include_str!("../../images/echo.c");
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A standard image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    /// The sandbox of every pod: waits and reaps.
    Pause,
    /// busybox: `sh` and its commands, no bash, no git.
    Alp,
    /// Debian with bash, git, python3, curl, ssh; a user `dev` with uid 1000; runs as root.
    Deb,
    /// A static binary `/echo` and nothing else: no shell, no `/etc/passwd`.
    Nosh,
    /// `deb` run as uid 12345, which has no entry in `/etc/passwd`.
    Num,
    /// `deb` by another name: an image that names no user.
    Root,
    /// The cluster's DNS.
    CoreDns,
    /// `deb` with the git server.
    GitServer,
}

/// All of them.
pub(crate) const ALL: &[Standard] = &[
    Standard::Pause,
    Standard::Alp,
    Standard::Nosh,
    Standard::CoreDns,
    Standard::Deb,
    Standard::Num,
    Standard::Root,
    Standard::GitServer,
];

impl Standard {
    /// The repository's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Alp => "alp",
            Self::Deb => "deb",
            Self::Nosh => "nosh",
            Self::Num => "num",
            Self::Root => "root",
            Self::CoreDns => "coredns",
            Self::GitServer => "git-server",
        }
    }

    /// The image of that name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        ALL.iter().copied().find(|image| image.name() == name).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|image| image.name()).collect();
            Error::invalid(format!("there is no standard image `{name}`; there are {}", names.join(", ")))
        })
    }

    /// The image, made if the cache lacks it. Two processes never make one image at once.
    pub(crate) async fn image(self) -> Result<Image> {
        let layers = match self.layer_source() {
            Some(source) => vec![source.layer().await?],
            None => vec![Source::Debian.layer().await?, Source::GitServer.layer().await?],
        };
        Ok(Image::new(layers, self.settings()))
    }

    fn layer_source(self) -> Option<Source> {
        Some(match self {
            Self::Pause => Source::Compiled("pause", INIT_SOURCE),
            Self::Nosh => Source::Compiled("echo", ECHO_SOURCE),
            Self::Alp => Source::Busybox,
            Self::CoreDns => Source::CoreDns,
            Self::Deb | Self::Num | Self::Root => Source::Debian,
            Self::GitServer => return None,
        })
    }

    fn settings(self) -> Settings {
        let one = |word: &str| vec![word.to_owned()];
        let mut settings = Settings { env: one(PATH), ..Settings::default() };
        match self {
            Self::Pause => settings.entrypoint = one("/pause"),
            Self::Nosh => settings.entrypoint = one("/echo"),
            Self::Alp => settings.cmd = one("sh"),
            Self::CoreDns => settings.entrypoint = one("/coredns"),
            Self::Deb | Self::Root => settings.cmd = one("bash"),
            Self::Num => {
                settings.cmd = one("bash");
                settings.user = Some("12345".to_owned());
            }
            Self::GitServer => settings.entrypoint = one("/usr/local/bin/git-server"),
        }
        settings
    }
}

/// What a layer is made of.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A C program of that name, linked statically.
    Compiled(&'static str, &'static str),
    Busybox,
    CoreDns,
    Debian,
    GitServer,
}

impl Source {
    async fn layer(self) -> Result<Layer> {
        let folder = layout::cache("images")?;
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let recipe = folder.join(format!("{}.json", self.recipe()?));
        if let Some(layer) = cached(&recipe) {
            return Ok(layer);
        }
        let _lock = lock(recipe.with_extension("lock")).await?;
        if let Some(layer) = cached(&recipe) {
            return Ok(layer);
        }
        let layer = self.make(&folder).await?;
        let text = serde_json::to_vec(&layer).expect("a layer's description is plain data");
        fs::write(&recipe, text).map_err(Error::file("write", &recipe))?;
        Ok(layer)
    }

    /// The digest of everything that the layer depends on.
    fn recipe(self) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update(std::env::consts::ARCH);
        match self {
            Self::Compiled(name, source) => hash.update(format!("compiled {name} {source}")),
            Self::Busybox => {
                hash.update("busybox");
                hash.update(fs::read(BUSYBOX).map_err(Error::file("read", BUSYBOX))?);
            }
            Self::CoreDns => hash.update(tools::COREDNS.path()?.display().to_string()),
            Self::Debian => hash.update(debian::recipe()),
            Self::GitServer => hash.update(tools::GIT_SERVER.path()?.display().to_string()),
        }
        Ok(hex(&hash.finalize()[..12]))
    }

    async fn make(self, folder: &Path) -> Result<Layer> {
        match self {
            Self::Compiled(name, source) => {
                let work = tempfile::tempdir_in(folder).map_err(Error::file("make a folder in", folder))?;
                let program = compile(source, work.path()).await?;
                Layer::write(&[Entry::file(&format!("/{name}"), 0o755, program)], folder)
            }
            Self::Busybox => Layer::write(&busybox().await?, folder),
            Self::CoreDns => {
                tools::build(&[tools::COREDNS]).await?;
                Layer::write(&[Entry::file("/coredns", 0o755, tools::COREDNS.path()?)], folder)
            }
            Self::Debian => debian::root_layer(folder).await,
            Self::GitServer => {
                tools::build(&[tools::GIT_SERVER]).await?;
                let program = Entry::file("/usr/local/bin/git-server", 0o755, tools::GIT_SERVER.path()?);
                Layer::write(&[program], folder)
            }
        }
    }
}

const BUSYBOX: &str = "/bin/busybox";

async fn busybox() -> Result<Vec<Entry>> {
    let mut entries = vec![
        Entry::folder("/tmp", 0o1777),
        Entry::folder("/root", 0o700),
        Entry::text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        Entry::text("/etc/group", "root:x:0:\n"),
        Entry::file("/bin/busybox", 0o755, PathBuf::from(BUSYBOX)),
    ];
    let printed = run(command([BUSYBOX, "--list-full"]), Duration::from_secs(10)).await?;
    let names = printed.lines().filter(|line| *line != "bin/busybox");
    entries.extend(names.map(|name| Entry::link(&format!("/{name}"), "/bin/busybox")));
    Ok(entries)
}

async fn compile(source: &str, work: &Path) -> Result<PathBuf> {
    let (text, program) = (work.join("program.c"), work.join("program"));
    fs::write(&text, source).map_err(Error::file("write", &text))?;
    let mut gcc = command(["gcc", "-static", "-Os", "-Wall", "-Werror", "-s", "-o"]);
    gcc.arg(&program).arg(&text);
    run(gcc, Duration::from_secs(60)).await?;
    Ok(program)
}

fn cached(recipe: &Path) -> Option<Layer> {
    let layer: Layer = serde_json::from_slice(&fs::read(recipe).ok()?).ok()?;
    let size = fs::metadata(&layer.path).ok()?.len();
    (size == layer.size).then_some(layer)
}

async fn lock(path: PathBuf) -> Result<File> {
    let file = File::create(&path).map_err(Error::file("make", &path))?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    tokio::pin!(locked);
    loop {
        tokio::select! {
            joined = &mut locked => {
                let locked = joined.map_err(std::io::Error::other).and_then(|result| result);
                return locked.map_err(Error::file("lock", &path));
            }
            () = tokio::time::sleep(Duration::from_secs(10)) => report("waiting for another run that makes an image"),
        }
    }
}
