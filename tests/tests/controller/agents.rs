//! The hub and its sessions, with the real agent reached directly over TLS. (Through `pods/exec` needs a kubelet: see the end-to-end
//! tests.)

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use drydock_controller::agent::Hub;
use drydock_crds::reference::{KeyRef, LocalRef};
use drydock_crds::tool_run::Argument;
use drydock_crds::{ContainerInstance, ToolRun, ToolRunSpec, label};
use drydock_domain::agent::{
    AgentCall, AttemptFact, PodRef, RefusedAttempt, RunRef, SealFact, StartCall, Variable, VariableValue,
    What,
};
use drydock_domain::decision;
use drydock_protocol::agent::RunResult;
use drydock_protocol::agent::run_result::Outcome;
use drydock_protocol::identity::Identity;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::{Controller, NAMESPACE, Server, eventually};
use crate::process::program;

/// An agent that believes itself to be in a pod.
pub(crate) struct Agent {
    folder: tempfile::TempDir,
    supervisor: Child,
    pub(crate) identity: Identity,
}

impl Agent {
    pub(crate) async fn start(client_ca: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The same port after a restart, as in a pod.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let supervisor = Command::new(program("drydock-agent"))
            .arg("--dir")
            .arg(folder.path())
            .args(["supervise", "--port", &port.to_string()])
            .env("DRYDOCK_HEALTH_PORT", "0")
            .env("DRYDOCK_CLIENT_CA", client_ca)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let identity = identity(folder.path()).await;
        Self { folder, supervisor, identity }
    }

    fn serve_pid(&self) -> Pid {
        let pid = self.supervisor.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let serve = children.split_whitespace().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().contains("serve")
        });
        Pid::from_raw(serve.unwrap().parse().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.supervisor.id()).unwrap()), Signal::SIGTERM);
        let _ = self.supervisor.wait();
    }
}

async fn identity(folder: &Path) -> Identity {
    eventually("the agent's identity", || async {
        serde_json::from_slice(&std::fs::read(folder.join("identity.json")).ok()?).ok()
    })
    .await
}

/// A server, a controller without kinds, an agent and its pod.
struct Stage {
    server: Server,
    controller: Controller,
    agent: Agent,
    pod: PodRef,
}

impl Stage {
    async fn set(name: &str) -> Self {
        let server = Server::start(name).await;
        let controller = server.controller(|_| {}).await;
        controller.context.agents.set_epoch(7);
        let agent = Agent::start(&controller.context.installation.client_ca).await;
        let pod = pod(&server, &agent).await;
        controller.context.agents.set_port(agent.identity.port.unwrap());
        eventually("the pod is known", || async {
            let known = controller.context.stores.pods.with_uid(&pod.uid)?;
            known.status.as_ref()?.pod_ip.as_ref()?;
            let instance = controller.context.stores.container_instances.get(NAMESPACE, "env")?;
            instance.status.as_ref()?.agent.clone()
        })
        .await;
        Self { server, controller, agent, pod }
    }

    fn hub(&self) -> &Arc<Hub> {
        &self.controller.context.agents
    }

    /// A run's object, and how its first attempt is sent.
    async fn run(&self, name: &str, script: &str) -> StartCall {
        let spec = ToolRunSpec {
            command: Some(vec![Argument("true".into())]),
            workspace_ref: Some(LocalRef::new("shop")),
            ..ToolRunSpec::default()
        };
        let run: ToolRun =
            self.server.api().create(&PostParams::default(), &ToolRun::new(name, spec)).await.unwrap();
        let claim = json!({"status": {"claim": {"attempt": 1, "podUid": self.pod.uid, "bootId": self.agent.identity.boot_id}}});
        let api: Api<ToolRun> = self.server.api();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(claim)).await.unwrap();
        let uid = run.uid().unwrap();
        eventually("the run is known", || async {
            self.controller.context.stores.tool_runs.with_uid(&uid)?.status.as_ref()?.claim.clone()
        })
        .await;
        StartCall {
            pod: self.pod.clone(),
            boot_id: self.agent.identity.boot_id.clone(),
            run: RunRef { namespace: NAMESPACE.into(), name: name.into(), uid },
            attempt: 1,
            what: What::Script { text: script.into(), args: vec![] },
            env: vec![],
            stdin: vec![],
            user: String::new(),
            working_directory: "/".into(),
            nearest_directory: false,
            timeout_ms: 0,
            output_limit: 0,
            combined: false,
            keep_background: false,
        }
    }

    fn start(&self, call: &StartCall) {
        self.hub().call(AgentCall::Start(Box::new(call.clone())));
    }

    /// Starts a run that makes a file when it is told to end, and waits until it is ready for that.
    async fn trap(&self, name: &str) -> (StartCall, PathBuf) {
        let (ready, marker) =
            (self.agent.folder.path().join("ready"), self.agent.folder.path().join("ended"));
        let script = format!(
            "trap 'touch {}; exit' TERM; touch {}; sleep 600 & wait",
            marker.display(),
            ready.display()
        );
        let call = self.run(name, &script).await;
        self.start(&call);
        eventually("the tool is ready", || async { ready.exists().then_some(()) }).await;
        (call, marker)
    }

    async fn fact(&self, call: &StartCall, is: impl Fn(&AttemptFact) -> bool) -> AttemptFact {
        eventually(&format!("the fact of {}", call.run.name), || async {
            Some(self.hub().attempt(&call.run.uid, 1)).filter(|fact| is(fact))
        })
        .await
    }

    async fn result(&self, call: &StartCall) -> RunResult {
        match self.fact(call, |fact| !matches!(fact, AttemptFact::Unknown | AttemptFact::Running)).await {
            AttemptFact::Finished(result) => *result,
            other => panic!("{other:?}"),
        }
    }

    async fn running(&self, call: &StartCall) {
        self.fact(call, |fact| *fact == AttemptFact::Running).await;
    }
}

/// The pod of an instance, whose status says which certificate its agent has.
async fn pod(server: &Server, agent: &Agent) -> PodRef {
    let instance = server.instance("env", "").await;
    let pods: Api<Pod> = server.api();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "env-pod",
            "labels": {label::MANAGED_BY: label::MANAGER},
            "ownerReferences": decision::owner_reference(&instance).map(|o| vec![o]),
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "automountServiceAccountToken": false},
    }))
    .unwrap();
    let uid = pods.create(&PostParams::default(), &pod).await.unwrap().uid().unwrap();
    let status =
        json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    pods.patch_status("env-pod", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let status = json!({"status": {"podUid": uid, "agent": {"fingerprint": agent.identity.fingerprint}}});
    let instances: Api<ContainerInstance> = server.api();
    instances.patch_status("env", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    PodRef { namespace: NAMESPACE.into(), name: "env-pod".into(), uid }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_started_waited_for_and_measured() {
    let stage = Stage::set("attempt").await;
    stage.hub().call(AgentCall::Connect(stage.pod.clone()));
    let hello = eventually("a hello", || async { stage.hub().agent(&stage.pod.uid).hello }).await;
    assert_eq!(hello.boot_id, stage.agent.identity.boot_id);
    assert_eq!(hello.fingerprint.as_ref(), Some(&stage.agent.identity.fingerprint));

    let call = stage.run("echo", "echo hello; exit 3").await;
    stage.start(&call);
    stage.start(&call);
    let result = stage.result(&call).await;
    assert!(matches!(result.outcome, Some(Outcome::Exited(ref e)) if e.code == 3), "{result:?}");
    assert_eq!(result.stdout.unwrap().head, b"hello\n");

    let mut times = Vec::new();
    for n in 0..100 {
        let call = stage.run(&format!("fast-{n}"), "exit 0").await;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let sender = std::sync::Mutex::new(Some(sender));
        let (uid, hub) = (call.run.uid.clone(), Arc::downgrade(stage.hub()));
        stage.hub().subscribe(move |_| {
            let ended = hub.upgrade().is_some_and(|h| matches!(h.attempt(&uid, 1), AttemptFact::Finished(_)));
            if ended && let Some(sender) = sender.lock().unwrap().take() {
                let _ = sender.send(());
            }
        });
        let began = Instant::now();
        stage.start(&call);
        receiver.await.unwrap();
        times.push(began.elapsed());
    }
    times.sort();
    println!("start to result of `exit 0`: p50 {:?}, p99 {:?}", times[50], times[98]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_read_when_a_run_is_sent_and_missing_ones_are_said() {
    let stage = Stage::set("values").await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("tokens".into());
    secret.string_data = Some(
        [("TOKEN".to_owned(), "s3cret".to_owned()), ("no variable".replace(' ', "."), "x".into())].into(),
    );
    stage.server.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let key = |key: &str| VariableValue::Secret(KeyRef { name: "tokens".into(), key: key.into() });
    let mut call = stage.run("good", "printf %s \"$GIVEN$TOKEN\"").await;
    call.env = vec![
        Variable { name: "GIVEN".into(), value: key("TOKEN") },
        Variable { name: String::new(), value: VariableValue::WholeSecret("tokens".into()) },
    ];
    stage.start(&call);
    assert_eq!(stage.result(&call).await.stdout.unwrap().head, b"s3crets3cret");

    let mut call = stage.run("bad", "true").await;
    call.env = vec![Variable { name: "A".into(), value: key("missing") }];
    stage.start(&call);
    let fact = stage.fact(&call, |fact| *fact != AttemptFact::Unknown).await;
    assert_eq!(fact, AttemptFact::Unsendable("the Secret tokens has no key missing".into()));
    let mut call = stage.run("other-boot", "true").await;
    call.boot_id = "another".into();
    stage.start(&call);
    stage.fact(&call, |fact| *fact == AttemptFact::OtherBoot).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_agent_is_found_again_and_no_result_is_lost() {
    let stage = Stage::set("killed").await;
    let gate = stage.agent.folder.path().join("gate");
    let call = stage
        .run("long", &format!("while [ ! -e {} ]; do sleep 0.02; done; echo done", gate.display()))
        .await;
    stage.start(&call);
    stage.running(&call).await;
    kill(stage.agent.serve_pid(), Signal::SIGKILL).unwrap();
    eventually("it isn't reached", || async { stage.hub().agent(&stage.pod.uid).unreachable_since }).await;
    std::fs::write(&gate, "").unwrap();
    assert_eq!(stage.result(&call).await.stdout.unwrap().head, b"done\n");
    let facts = stage.hub().agent(&stage.pod.uid);
    assert_eq!((facts.unreachable_since, facts.last_error), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_cancelled_by_call_and_when_their_object_is_gone() {
    let stage = Stage::set("cancel").await;
    let call = stage.run("cancelled", "sleep 600").await;
    stage.start(&call);
    stage.running(&call).await;
    let cancel = AgentCall::Cancel { pod: stage.pod.clone(), run_uid: call.run.uid.clone(), attempt: 1 };
    stage.hub().call(cancel);
    let result = stage.result(&call).await;
    assert!(matches!(result.outcome, Some(Outcome::Cancelled(_))), "{result:?}");

    let never = stage.run("never-sent", "true").await;
    stage.hub().call(AgentCall::Cancel {
        pod: stage.pod.clone(),
        run_uid: never.run.uid.clone(),
        attempt: 1,
    });
    let refused = AttemptFact::Refused(RefusedAttempt::CancelledBeforeStart);
    stage.fact(&never, |fact| *fact == refused).await;
    stage.start(&never);

    let (call, marker) = stage.trap("deleted").await;
    stage.server.api::<ToolRun>().delete("deleted", &DeleteParams::default()).await.unwrap();
    eventually("the tool got its signal", || async { marker.exists().then_some(()) }).await;
    assert_eq!(stage.hub().attempt(&call.run.uid, 1), AttemptFact::Unknown, "nothing is kept of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_object_went_while_nobody_led_is_cancelled_on_the_next_contact() {
    let stage = Stage::set("orphan").await;
    let (_, marker) = stage.trap("orphan").await;
    let Stage { server, controller, agent, pod } = stage;
    drop(controller);
    server.api::<ToolRun>().delete("orphan", &DeleteParams::default()).await.unwrap();
    let next = server.controller(|_| {}).await;
    next.context.agents.set_epoch(8);
    next.context.agents.set_port(agent.identity.port.unwrap());
    next.context.agents.call(AgentCall::Connect(pod));
    eventually("the tool got its signal", || async { marker.exists().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_is_refused_under_a_run_and_an_older_leader_is_not_heard() {
    let stage = Stage::set("seal").await;
    let boot_id = stage.agent.identity.boot_id.clone();
    let gate = stage.agent.folder.path().join("gate");
    let call = stage.run("busy", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display())).await;
    stage.start(&call);
    stage.running(&call).await;
    let seal = || AgentCall::Seal { pod: stage.pod.clone(), boot_id: boot_id.clone() };
    let fact = || stage.hub().agent(&stage.pod.uid).seal;
    stage.hub().call(seal());
    eventually("refused", || async { matches!(fact(), SealFact::RunsActive { .. }).then_some(()) }).await;
    std::fs::write(&gate, "").unwrap();
    stage.result(&call).await;
    stage.hub().call(seal());
    eventually("sealed", || async { (fact() == SealFact::Sealed).then_some(()) }).await;
    let late = stage.run("late", "true").await;
    stage.start(&late);
    stage.fact(&late, |fact| *fact == AttemptFact::Refused(RefusedAttempt::Sealed)).await;
    stage.hub().call(AgentCall::Unseal { pod: stage.pod.clone(), boot_id: boot_id.clone() });
    eventually("open", || async { (fact() == SealFact::Open).then_some(()) }).await;

    stage.hub().set_epoch(6);
    let stale = stage.run("stale", "true").await;
    stage.start(&stale);
    eventually("an older epoch", || async {
        stage.hub().agent(&stage.pod.uid).last_error.filter(|e| e.contains("higher epoch"))
    })
    .await;
    assert_eq!(stage.hub().attempt(&stale.run.uid, 1), AttemptFact::Unknown);
}
