//! The main job on a real cluster: from a git repository to a recorded tool run.

#![expect(clippy::print_stdout, reason = "a demonstration answers on standard output")]

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use drydock_cluster::{Cluster, Options};
use drydock_e2e::Drydock;
use drydock_e2e::binaries::repository;
use drydock_e2e::step::Steps;

/// The namespace that the demonstration works in.
const NAMESPACE: &str = "default";

#[tokio::main]
async fn main() -> ExitCode {
    match demonstrate().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            eprintln!("demo: {}", causes.join(": "));
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate() -> Result<()> {
    let mut steps = Steps::default();
    let cluster = steps.step("a Kubernetes cluster", "kubectl get nodes", cluster()).await?;
    let drydock = steps
        .step("the chart", "kubectl -n drydock-system get pods", Drydock::install(&cluster, &[]))
        .await?;
    steps.step("a monorepo on a git server", "examples/quickstart/shop", serve(&cluster)).await?;
    let demo = Demo { drydock };
    steps.step("discovery, building nothing", "kubectl get ws,dc", demo.discover()).await?;
    steps.step("a tool run in services/api", "kubectl get trun -o wide", demo.run_in_api()).await?;
    steps.step("a second run, warm", "kubectl drydock logs trun/NAME", demo.run_warm()).await?;
    steps
        .step("a run where no dev container is", "kubectl drydock explain ws/shop/docs", demo.run_on_host())
        .await?;
    steps.step("everything applied again", "kubectl get ws,dc,proj,xenv", demo.apply_again()).await?;
    steps.table();
    println!("\nthe cluster stays: KUBECONFIG={}", cluster.kubeconfig().display());
    println!("make clean takes it down");
    Ok(())
}

/// The cluster, which stays whatever becomes of the demonstration: to look at, and for the next one.
async fn cluster() -> Result<Cluster> {
    let mut cluster = Cluster::from_environment(Options::node("demo")).await?;
    cluster.keep()?;
    Ok(cluster)
}

async fn serve(cluster: &Cluster) -> Result<()> {
    let image = cluster.image("deb").await?;
    println!("   image of the dev containers: {}", image.tagged);
    let server = cluster.git_server().await?;
    let commit = server.push_folder("shop.git", &repository().join("examples/quickstart/shop")).await?;
    println!("   {}/shop.git at {commit}", server.url);
    Ok(())
}

struct Demo {
    drydock: Drydock,
}

impl Demo {
    async fn show(&self, arguments: &[&str]) -> Result<String> {
        let printed = self.drydock.kubectl(&[&["-n", NAMESPACE], arguments].concat()).await?;
        println!("$ kubectl {}", arguments.join(" "));
        print!("{printed}");
        Ok(printed)
    }

    /// Runs the plugin, shows what it printed, and answers its stdout, exit code and duration in milliseconds.
    async fn run(&self, arguments: &[&str]) -> Result<(String, i32, u128)> {
        println!("$ kubectl drydock {}", arguments.join(" "));
        let start = Instant::now();
        let output = self.drydock.plugin(&[&["-n", NAMESPACE], arguments].concat()).await?;
        let took = start.elapsed().as_millis();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{}{stdout}", String::from_utf8_lossy(&output.stderr));
        let code = output.status.code().context("the plugin was ended by a signal")?;
        println!("   exit code {code} after {took} ms");
        Ok((stdout, code, took))
    }

    async fn discover(&self) -> Result<()> {
        self.show(&["apply", "-f", "examples/quickstart/"]).await?;
        self.show(&["wait", "--for=condition=Ready", "workspace/shop", "--timeout=120s"]).await?;
        let listed = self.show(&["get", "dc"]).await?;
        ensure!(
            listed.lines().filter(|line| line.contains("Discovered")).count() == 2,
            "two dev containers should be Discovered"
        );
        let pods = self.show(&["get", "pods", "-l", "drydock.dev/role in (environment,host)"]).await?;
        ensure!(!pods.contains("drydock-"), "no environment should run");
        Ok(())
    }

    async fn run_in_api(&self) -> Result<()> {
        let program = "import prices, sys; print('total', prices.total([1, 2, 3])); sys.exit(3)";
        let (stdout, code, _) =
            self.run(&["run", "ws/shop/services/api", "--", "python3", "-c", program]).await?;
        ensure!(stdout.contains("total") && code == 3, "the tool's output and exit code should come through");
        let runs = self.show(&["get", "trun", "-o", "wide"]).await?;
        ensure!(runs.contains("NearestDevcontainer"), "the nearest dev container should have been chosen");
        self.show(&["get", "dc"]).await?;
        let considered = "jsonpath={range .items[*].status.route.considered[*]}{.source}: {.target} {.verdict}{\"\\n\"}{end}";
        self.show(&["get", "trun", "-o", considered]).await?;
        Ok(())
    }

    async fn run_warm(&self) -> Result<()> {
        let (_, code, _) = self.run(&["run", "ws/shop/services/api", "--", "true"]).await?;
        ensure!(code == 0, "true should end with code 0");
        let last = "jsonpath={.items[-1:].status.durationMs} ms in all, {.items[-1:].status.container.execTimeMs} ms of them the tool";
        println!(
            "   {}",
            self.drydock
                .kubectl(&[
                    "-n",
                    NAMESPACE,
                    "get",
                    "trun",
                    "--sort-by=.metadata.creationTimestamp",
                    "-o",
                    last
                ])
                .await?
        );
        Ok(())
    }

    async fn run_on_host(&self) -> Result<()> {
        let (stdout, code, _) =
            self.run(&["run", "ws/shop/docs", "--", "sh", "-c", "cat guide.md | head -1"]).await?;
        ensure!(code == 0 && !stdout.is_empty(), "the host runner should see the docs folder");
        self.run(&["explain", "ws/shop/docs"]).await?;
        Ok(())
    }

    async fn apply_again(&self) -> Result<()> {
        let versions = [
            "get",
            "ws,dc,proj,xenv",
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation} {.metadata.resourceVersion}{\"\\n\"}{end}",
        ];
        let before = self.drydock.kubectl(&versions).await?;
        self.show(&["apply", "-f", "examples/quickstart/"]).await?;
        let after = self.drydock.kubectl(&versions).await?;
        ensure!(before == after, "nothing should change:\n{before}\n{after}");
        println!("   no resourceVersion moved");
        Ok(())
    }
}
