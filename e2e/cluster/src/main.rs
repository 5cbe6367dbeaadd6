//! `drydock-cluster`: a real Kubernetes cluster on a bare machine, from pinned sources.

#![allow(clippy::print_stdout, reason = "a command line answers on standard output")]

use std::error::Error as _;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use drydock_cluster::{Cluster, Error, Options, Profile, Result, tools};

/// A real Kubernetes cluster on this machine, from pinned sources.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a cluster, building its programs first where they are missing
    Up {
        #[command(flatten)]
        which: Which,
        /// `node` is a whole cluster and needs root; `api` is etcd and an API server only
        #[arg(long, value_enum, default_value = "node")]
        profile: Profile,
        /// One or two
        #[arg(long, default_value_t = 1)]
        nodes: u8,
    },
    /// Take a cluster down and remove whatever is left of it
    Down {
        #[command(flatten)]
        which: Which,
        /// Every cluster of this machine's user
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show every cluster and its components
    Status,
    /// Print the path of a cluster's kubeconfig
    Kubeconfig(Which),
    /// Push a standard image by its name, or the image of an OCI archive, to a cluster's registry
    Load {
        #[command(flatten)]
        which: Which,
        /// A name of `drydock-cluster images`, or the path of an archive
        image: String,
    },
    /// Make and push every standard image and print what to call them
    Images(Which),
    /// Deploy the git server and print its addresses
    GitServer(Which),
    /// Make a folder's content the one commit of a repository of the git server, and print the commit
    GitPush {
        #[command(flatten)]
        which: Which,
        /// The repository, such as `shop.git` or `private/shop.git`
        repository: String,
        /// The folder
        folder: std::path::PathBuf,
    },
    /// Build every program and print the folders they are in
    Tools,
}

#[derive(Args)]
struct Which {
    /// The cluster's name
    #[arg(long, default_value = "default")]
    name: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(CommandLine::parse().verb).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drydock-cluster: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Up { which, profile, nodes } => up(which.name, profile, nodes).await,
        Verb::Down { which, all } => {
            let names = if all { drydock_cluster::names()? } else { vec![which.name] };
            for name in names {
                drydock_cluster::down(&name).await?;
                println!("{name}: down");
            }
            Ok(())
        }
        Verb::Status => status(),
        Verb::Kubeconfig(which) => {
            println!("{}", Cluster::attach(&which.name)?.kubeconfig().display());
            Ok(())
        }
        Verb::Load { which, image } => load(&which.name, &image).await,
        Verb::Images(which) => {
            let cluster = Cluster::attach(&which.name)?;
            for name in drydock_cluster::standard_images() {
                println!("{name:12} {}", cluster.image(name).await?.tagged);
            }
            Ok(())
        }
        Verb::GitServer(which) => {
            let server = Cluster::attach(&which.name)?.git_server().await?;
            println!(
                "pods: {} {}\nhost: {} {}",
                server.url, server.ssh_url, server.host_url, server.host_ssh_url
            );
            Ok(())
        }
        Verb::GitPush { which, repository, folder } => {
            let server = Cluster::attach(&which.name)?.git_server().await?;
            println!("{}", server.push_folder(&repository, &folder).await?);
            Ok(())
        }
        Verb::Tools => build_tools().await,
    }
}

async fn build_tools() -> Result<()> {
    tools::build(tools::NODE_TOOLS).await?;
    let mut folders = Vec::new();
    for tool in tools::NODE_TOOLS {
        folders.extend(tool.path()?.parent().map(|folder| folder.display().to_string()));
    }
    folders.dedup();
    println!("{}", folders.join("\n"));
    Ok(())
}

async fn up(name: String, profile: Profile, nodes: u8) -> Result<()> {
    if let Ok(cluster) = Cluster::attach(&name) {
        let ended: Vec<String> = cluster
            .components()
            .into_iter()
            .filter(|(_, alive)| !alive)
            .map(|(component, _)| component)
            .collect();
        if !ended.is_empty() {
            let ended = ended.join(", ");
            let reason = format!(
                "{name} runs without {ended}; take it down first: drydock-cluster down --name {name}"
            );
            return Err(Error::Invalid { reason });
        }
        println!("{name}: runs already\nexport KUBECONFIG={}", cluster.kubeconfig().display());
        return Ok(());
    }
    let started = std::time::Instant::now();
    let options = Options { profile, nodes, ..Options::node(&name) };
    let cluster = Cluster::start_kept(options).await?;
    println!("{name}: up after {:.1} s", started.elapsed().as_secs_f32());
    println!("export KUBECONFIG={}", cluster.kubeconfig().display());
    Ok(())
}

async fn load(cluster: &str, image: &str) -> Result<()> {
    let cluster = Cluster::attach(cluster)?;
    let reference = if drydock_cluster::standard_images().contains(&image) {
        cluster.image(image).await?
    } else {
        cluster.load_image(image.as_ref()).await?
    };
    println!("{}\n{}", reference.tagged, reference.node);
    Ok(())
}

fn status() -> Result<()> {
    for name in drydock_cluster::names()? {
        match Cluster::attach(&name) {
            Ok(cluster) => {
                println!("{name}: up, kubeconfig {}", cluster.kubeconfig().display());
                for (component, alive) in cluster.components() {
                    println!("  {component:26} {}", if alive { "runs" } else { "ended" });
                }
            }
            Err(Error::NotRunning { .. }) => println!("{name}: not running; `down` removes what is left"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
