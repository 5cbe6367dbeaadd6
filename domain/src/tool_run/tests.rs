//! A run, driven pass by pass: what was decided is what the next pass sees.

use drydock_crds::instance::{DesiredState, ProvisioningState, Transition};
use drydock_crds::reference::InstanceKind;
use drydock_crds::tool_run::{
    Activate, Activation, Argument, Effective, Outcome, Route, RouteRule, RouteTarget, ToolRunSpec,
};
use drydock_protocol::agent::{Cancelled, Exited, RunResult, Signalled, StreamSummary, TimedOut, run_result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::admission::Destination;
use super::*;
use crate::agent::{AgentCall, Hello, PodRef, RefusedAttempt, SealFact};
use crate::pod::PodStage;

struct World {
    seen: Observed,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn instance() -> InstanceRef {
    InstanceRef { kind: InstanceKind::DevcontainerInstance, name: "shop-api".into() }
}

fn pod() -> PodFact {
    PodFact {
        pod: PodRef { namespace: "team".into(), name: "pod".into(), uid: "p-1".into() },
        created: at(900),
        evicted: false,
        deleting_since: None,
        node: None,
        stage: PodStage::Running,
        container_id: Some("containerd://1".into()),
        image: Some("image@sha256:1".into()),
        inputs: None,
    }
}

fn target(state: ProvisioningState) -> TargetFacts {
    let mut status = InstanceStatus { observed_generation: 1, ..InstanceStatus::default() };
    status.provisioning_state = Some(state);
    TargetFacts {
        instance: instance(),
        uid: "i-1".into(),
        generation: 1,
        spec: InstanceSpec::default(),
        status,
        pod: (state == ProvisioningState::Active).then(pod),
        context: RunContext { workspace_folder: "/workspaces/shop".into(), ..RunContext::default() },
        agent: AgentFacts {
            hello: Some(Hello { boot_id: "b-1".into(), ..Hello::default() }),
            ..AgentFacts::default()
        },
        deleting: false,
        host_image: None,
    }
}

impl World {
    /// A new run that routing sends to an active instance.
    fn new() -> Self {
        let route = Route {
            target: Some(RouteTarget {
                kind: instance().kind,
                name: instance().name,
                uid: Some("i-1".into()),
            }),
            rule: Some(RouteRule::NearestDevcontainer),
            reason: "the nearest".into(),
            considered: Vec::new(),
        };
        let effective = Effective { timeout_seconds: Some(120), output_limit: 1000, ttl_seconds: 3600 };
        let destination = Destination { route, instance: instance(), host: false, effective };
        let run = ToolRun {
            metadata: ObjectMeta {
                name: Some("r".into()),
                namespace: Some("team".into()),
                uid: Some("r-1".into()),
                generation: Some(1),
                creation_timestamp: Some(Time(at(1000))),
                ..ObjectMeta::default()
            },
            spec: ToolRunSpec { command: Some(vec![Argument("true".into())]), ..ToolRunSpec::default() },
            status: None,
        };
        Self {
            seen: Observed {
                run: Arc::new(run),
                admission: Admission::Go(Box::new(destination)),
                tool: None,
                workspace: None,
                cancelled_by: None,
                target: Some(target(ProvisioningState::Active)),
                claimed_pod: ClaimedPod::None,
                attempt: AttemptFact::Unknown,
                queue: Queue::default(),
                settings: Settings::default(),
                installation: Installation::default(),
                now: at(1000),
            },
        }
    }

    fn with(spec: ToolRunSpec) -> Self {
        let mut world = Self::new();
        Arc::make_mut(&mut world.seen.run).spec = spec;
        world
    }

    fn pass(&mut self) -> Decision<ToolRunStatus> {
        let decision = decide(&self.seen);
        Arc::make_mut(&mut self.seen.run).status.clone_from(&decision.status);
        self.seen.admission = Admission::Settled;
        if self.status().claim.is_some() && self.seen.claimed_pod == ClaimedPod::None {
            self.seen.claimed_pod = ClaimedPod::Present(Box::new(pod()));
        }
        decision
    }

    fn claimed() -> Self {
        let mut world = Self::new();
        assert_eq!(world.pass().wake, Wake::Again);
        world
    }

    fn status(&self) -> &ToolRunStatus {
        self.seen.run.status.as_ref().expect("a pass was made")
    }

    fn ready(&self) -> (&str, &str) {
        let ready = ConditionType::Ready.find(&self.status().conditions).expect("Ready is always there");
        (&ready.reason, &ready.message)
    }

    fn outcome(&self) -> Option<Outcome> {
        self.status().outcome
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        self.seen.now = at(self.seen.now.as_second() + seconds);
        self
    }
}

fn starts(decision: &Decision<ToolRunStatus>) -> usize {
    decision.effects.iter().filter(|e| matches!(e, Effect::Agent(AgentCall::Start(_)))).count()
}

fn cancels(decision: &Decision<ToolRunStatus>) -> usize {
    decision.effects.iter().filter(|e| matches!(e, Effect::Agent(AgentCall::Cancel { .. }))).count()
}

fn audits(decision: &Decision<ToolRunStatus>) -> usize {
    decision.effects.iter().filter(|e| matches!(e, Effect::Audit(_))).count()
}

fn result(outcome: run_result::Outcome) -> AttemptFact {
    AttemptFact::Finished(Box::new(RunResult {
        outcome: Some(outcome),
        started_at_ms: 1_000_500,
        exec_time_ms: 7,
        duration_ms: 9,
        stderr: Some(StreamSummary { bytes: 5, head: b"oops\n".to_vec(), ..StreamSummary::default() }),
        ..RunResult::default()
    }))
}

#[test]
fn a_warm_run_is_routed_and_claimed_in_one_write_and_started_after_it() {
    let mut world = World::new();
    let first = world.pass();
    assert_eq!((starts(&first), first.wake), (0, Wake::Again));
    let claim = world.status().claim.clone().unwrap();
    assert_eq!((claim.attempt, claim.pod_uid.as_str(), claim.boot_id.as_str()), (1, "p-1", "b-1"));
    assert_eq!(world.status().route.as_ref().unwrap().rule, Some(RouteRule::NearestDevcontainer));
    let second = world.pass();
    assert_eq!(starts(&second), 1);
    assert_eq!(second.status, Some(world.status().clone()));
    world.seen.attempt = AttemptFact::Running;
    assert_eq!(starts(&world.pass()), 0);
    world.seen.attempt = result(run_result::Outcome::Exited(Exited { code: 0 }));
    let last = world.pass();
    assert_eq!((world.outcome(), audits(&last)), (Some(Outcome::Succeeded), 1));
    let record = world.status().container.clone().unwrap();
    assert_eq!((record.pod_uid.as_str(), record.exec_time_ms, record.exit_code), ("p-1", Some(7), Some(0)));
}

#[test]
fn a_run_that_ended_with_its_pod_was_not_cancelled() {
    let over = |evicted| PodFact { deleting_since: Some(at(1000)), evicted, ..pod() };
    for (pod, asked, outcome) in [
        (pod(), false, Outcome::Cancelled),
        (over(false), false, Outcome::Lost),
        (over(true), false, Outcome::Evicted),
        (over(false), true, Outcome::Cancelled),
    ] {
        let mut world = World::new();
        world.pass();
        world.seen.claimed_pod = ClaimedPod::Present(Box::new(pod));
        world.seen.cancelled_by = asked.then(|| "its plan has ended".into());
        world.seen.attempt = result(run_result::Outcome::Cancelled(Cancelled { end: None }));
        world.pass();
        assert_eq!(world.outcome(), Some(outcome));
    }
}

#[test]
fn each_result_has_its_outcome_and_message() {
    use run_result::Outcome as Said;
    for (said, outcome, message) in [
        (Said::Exited(Exited { code: 0 }), Outcome::Succeeded, "exit code 0"),
        (Said::Exited(Exited { code: 3 }), Outcome::NonZeroExit, "exit code 3: oops"),
        (Said::Signalled(Signalled { signal: 9 }), Outcome::Signalled, "ended by signal 9"),
        (
            Said::TimedOut(TimedOut { timeout_ms: 120_000, end: None }),
            Outcome::TimedOut,
            "timed out after 120s",
        ),
    ] {
        let mut world = World::claimed();
        world.seen.attempt = result(said);
        world.pass();
        assert_eq!((world.outcome(), world.ready().1), (Some(outcome), message));
        assert_eq!(
            ConditionType::Succeeded.is_true(&world.status().conditions),
            outcome == Outcome::Succeeded
        );
    }
}

#[test]
fn an_outcome_never_changes_and_the_run_goes_when_its_time_is_over() {
    let mut world = World::claimed();
    world.seen.attempt = result(run_result::Outcome::Exited(Exited { code: 1 }));
    world.pass();
    let finished = world.status().clone();
    world.seen.attempt = result(run_result::Outcome::Exited(Exited { code: 0 }));
    world.seen.cancelled_by = Some("its plan has ended".into());
    let later = world.after(3599).pass();
    assert_eq!((world.status(), later.effects.len()), (&finished, 0));
    let expired = world.after(1).pass();
    assert!(matches!(expired.effects[..], [Effect::Delete(_)]));
}

#[test]
fn a_restarted_controller_asks_again_and_never_makes_a_second_attempt() {
    let mut world = World::claimed();
    for _ in 0..3 {
        world.seen.attempt = AttemptFact::Unknown;
        assert_eq!(starts(&world.pass()), 1, "the agent starts an attempt once");
        assert_eq!(world.status().claim.as_ref().unwrap().attempt, 1);
    }
    world.seen.attempt = AttemptFact::OtherBoot;
    world.pass();
    assert_eq!(world.outcome(), Some(Outcome::Lost));
}

#[test]
fn only_a_journalled_refusal_leads_to_another_attempt() {
    let mut world = World::claimed();
    world.seen.attempt = AttemptFact::Refused(RefusedAttempt::Sealed);
    world.pass();
    assert_eq!((world.outcome(), world.ready().0), (None, "WaitingForEnvironment"));
    // The environment is stopped: the attempt's fact goes with its pod.
    world.seen.target = Some(target(ProvisioningState::Stopped));
    world.seen.claimed_pod = ClaimedPod::Gone;
    world.seen.attempt = AttemptFact::Unknown;
    world.pass();
    assert_eq!(world.outcome(), None);
    let mut again = target(ProvisioningState::Active);
    again.pod.as_mut().unwrap().pod.uid = "p-2".into();
    world.seen.target = Some(again);
    world.pass();
    let claim = world.status().claim.clone().unwrap();
    assert_eq!((claim.attempt, claim.pod_uid.as_str()), (2, "p-2"));
}

#[test]
fn the_loss_of_the_pod_is_told_apart() {
    let end = |reason| End { reason, message: "why".into(), exit_code: Some(137), at: None };
    for (lost, outcome) in [
        (ClaimedPod::Gone, Outcome::Lost),
        (ClaimedPod::Ended(Box::new(pod()), end(Reason::OutOfMemory)), Outcome::OutOfMemory),
        (ClaimedPod::Ended(Box::new(pod()), end(Reason::Evicted)), Outcome::Evicted),
        (ClaimedPod::Ended(Box::new(pod()), end(Reason::ContainerExited)), Outcome::Lost),
    ] {
        for attempt in [AttemptFact::Unknown, AttemptFact::Running] {
            let mut world = World::claimed();
            (world.seen.claimed_pod, world.seen.attempt) = (lost.clone(), attempt);
            world.pass();
            assert_eq!(world.outcome(), Some(outcome));
        }
        // What the agent said before the pod went is what counts.
        let mut world = World::claimed();
        world.seen.claimed_pod = lost;
        world.seen.attempt = result(run_result::Outcome::Exited(Exited { code: 0 }));
        world.pass();
        assert_eq!(world.outcome(), Some(Outcome::Succeeded));
    }
}

#[test]
fn a_silent_agent_is_waited_for_until_the_time_limit_and_half_a_minute() {
    let mut world = World::claimed();
    world.seen.attempt = AttemptFact::Running;
    let mut silent = target(ProvisioningState::Active);
    silent.agent.unreachable_since = Some(at(1001));
    world.seen.target = Some(silent);
    let decision = world.after(149).pass();
    assert_eq!((world.outcome(), decision.wake), (None, Wake::At(at(1150))));
    world.after(1).pass();
    assert_eq!(world.outcome(), Some(Outcome::Lost));
}

#[test]
fn a_run_is_cancelled_wherever_it_is() {
    let cancel = || ToolRunSpec { cancel: Some(true), ..World::new().seen.run.spec.clone() };
    let mut unrouted = World::with(cancel());
    let decision = unrouted.pass();
    assert_eq!((unrouted.outcome(), audits(&decision)), (Some(Outcome::Cancelled), 1));

    let mut waiting = World::new();
    waiting.seen.target = Some(target(ProvisioningState::Building));
    waiting.pass();
    waiting.seen.cancelled_by = Some("Plan p has ended".into());
    waiting.pass();
    assert_eq!(waiting.outcome(), Some(Outcome::Cancelled));

    let mut running = World::claimed();
    running.seen.attempt = AttemptFact::Running;
    Arc::make_mut(&mut running.seen.run).spec.cancel = Some(true);
    let decision = running.pass();
    assert_eq!((running.outcome(), cancels(&decision)), (None, 1), "the agent says what became of it");
    running.seen.attempt = AttemptFact::Unknown;
    assert_eq!(starts(&running.pass()), 0, "a cancelled attempt isn't sent any more");
    running.seen.attempt = AttemptFact::Refused(RefusedAttempt::CancelledBeforeStart);
    running.pass();
    assert_eq!(running.outcome(), Some(Outcome::Cancelled));
}

#[test]
fn runs_of_one_environment_take_turns() {
    let mut world = World::new();
    world.seen.queue = Queue { active: 10, ahead: 6 };
    world.pass();
    assert_eq!((world.ready().0, world.status().claim.is_none()), ("Queued", true));
    world.seen.queue = Queue { active: 10, ahead: 5 };
    world.pass();
    assert!(world.status().claim.is_some());

    let mut narrow = World::new();
    let mut one = target(ProvisioningState::Active);
    one.spec.max_concurrent_runs = Some(1);
    narrow.seen.target = Some(one);
    narrow.seen.queue = Queue { active: 1, ahead: 0 };
    narrow.pass();
    assert_eq!(narrow.ready().0, "Queued");
}

#[test]
fn it_waits_for_its_environment_and_says_what_for() {
    for state in [
        ProvisioningState::Discovered,
        ProvisioningState::Building,
        ProvisioningState::Stopping,
        ProvisioningState::Stopped,
    ] {
        let mut world = World::new();
        world.seen.target = Some(target(state));
        world.pass();
        assert_eq!((world.outcome(), world.ready().0), (None, "WaitingForEnvironment"), "{state}");
        assert!(world.ready().1.contains("shop-api"), "{}", world.ready().1);
        assert!(super::waiting::waits_for_start(&world.seen.run));
    }
    let mut sealed = World::new();
    let mut stopping = target(ProvisioningState::Active);
    stopping.agent.seal = SealFact::Sealed;
    sealed.seen.target = Some(stopping);
    sealed.pass();
    assert!(sealed.status().claim.is_none());
}

#[test]
fn a_run_that_may_not_start_it_ends_where_it_isnt_active() {
    let spec = || ToolRunSpec { activation: Some(Activation::Never), ..World::new().seen.run.spec.clone() };
    let mut world = World::with(spec());
    world.seen.target = Some(target(ProvisioningState::Stopped));
    world.pass();
    assert_eq!((world.outcome(), world.ready().0), (Some(Outcome::NoEnvironment), "NotActive"));
    let mut warm = World::with(spec());
    warm.pass();
    assert!(warm.status().claim.is_some());
}

#[test]
fn a_stopped_wish_is_no_environment() {
    let mut world = World::new();
    let mut stopped = target(ProvisioningState::Stopped);
    stopped.spec.desired_state = Some(DesiredState::Stopped);
    world.seen.target = Some(stopped);
    world.pass();
    assert_eq!((world.outcome(), world.ready().0), (Some(Outcome::NoEnvironment), "DesiredStopped"));
}

#[test]
fn a_failure_is_the_runs_too_unless_a_retry_is_due() {
    let failed = |reason: Reason| {
        let mut target = target(ProvisioningState::Failed);
        target.status.transitions.push(Transition {
            from: ProvisioningState::Building,
            to: ProvisioningState::Failed,
            reason: reason.to_string(),
            message: "because".into(),
            time: Time(at(995)),
        });
        target
    };
    for (reason, outcome) in [
        (Reason::BuildUnavailable, Outcome::BuildFailed),
        (Reason::ImagePullFailed, Outcome::StartFailed),
        (Reason::StartTimeout, Outcome::StartFailed),
    ] {
        let mut world = World::new();
        world.seen.target = Some(failed(reason));
        world.pass();
        assert_eq!((world.outcome(), world.ready().0), (Some(outcome), reason.as_str()));
        assert!(world.ready().1.contains("because"));
    }
    // The failure was 5 s before the run; a transient one may be retried after 10 s.
    let mut later = World::new();
    Arc::make_mut(&mut later.seen.run).metadata.creation_timestamp = Some(Time(at(1005)));
    later.seen.target = Some(failed(Reason::ImagePullFailed));
    later.after(5).pass();
    assert_eq!(later.outcome(), None);
    // The spec changed, and the instance hasn't looked at it yet.
    let mut changed = World::new();
    changed.seen.target = Some(TargetFacts { generation: 2, ..failed(Reason::BuildUnavailable) });
    changed.pass();
    assert_eq!(changed.outcome(), None);
}

#[test]
fn an_activating_run_ends_when_the_environment_is_ready_and_claims_nothing() {
    let spec = ToolRunSpec { activate: Some(Activate {}), ..ToolRunSpec::default() };
    let mut world = World::with(spec);
    world.seen.target = Some(target(ProvisioningState::Building));
    world.pass();
    assert_eq!(world.outcome(), None);
    world.seen.target = Some(target(ProvisioningState::Active));
    world.pass();
    assert_eq!((world.outcome(), world.status().claim.is_none()), (Some(Outcome::Succeeded), true));
}

#[test]
fn a_target_that_never_comes_is_no_environment() {
    let mut world = World::new();
    world.seen.target = None;
    let decision = world.pass();
    assert_eq!((world.outcome(), decision.wake), (None, Wake::At(at(1030))));
    world.after(30).pass();
    assert_eq!(world.outcome(), Some(Outcome::NoEnvironment));
}

/// A run that routing sends to the host runner of the workspace.
fn on_host() -> World {
    let mut world = World::new();
    let Admission::Go(destination) = &mut world.seen.admission else { panic!("a route is expected") };
    destination.host = true;
    world.seen.installation.tools_image = "tools:2".into();
    let metadata = ObjectMeta {
        name: Some("shop".into()),
        namespace: Some("team".into()),
        uid: Some("w-1".into()),
        ..ObjectMeta::default()
    };
    world.seen.workspace = Some(Arc::new(Workspace { metadata, ..Workspace::default() }));
    world
}

#[test]
fn the_host_runner_is_made_where_it_isnt_there_and_follows_its_image() {
    let applied = |decision: &Decision<ToolRunStatus>| match &decision.effects[..] {
        [Effect::Apply(object)] => Some(object.json["spec"]["image"].clone()),
        _ => None,
    };
    let mut absent = on_host();
    absent.seen.target = None;
    assert_eq!(applied(&absent.pass()), Some("tools:2".into()));
    assert_eq!(absent.outcome(), None);
    let mut old = on_host();
    old.seen.target.as_mut().unwrap().host_image = Some("tools:1".into());
    assert_eq!(applied(&old.pass()), Some("tools:2".into()));
    let mut right = on_host();
    right.seen.target.as_mut().unwrap().host_image = Some("tools:2".into());
    assert_eq!(applied(&right.pass()), None);
    assert!(right.status().claim.is_some());
}

#[test]
fn what_has_the_name_of_the_host_runner_and_isnt_one_is_never_used() {
    let mut world = on_host();
    let decision = world.pass();
    assert_eq!((world.outcome(), world.ready().0), (Some(Outcome::NoEnvironment), "NameConflict"));
    assert_eq!(audits(&decision), decision.effects.len());
}

#[test]
fn an_unsendable_run_is_rejected() {
    let mut world = World::claimed();
    world.seen.attempt = AttemptFact::Unsendable("Secret s has no key k".into());
    world.pass();
    assert_eq!((world.outcome(), world.ready().1), (Some(Outcome::Rejected), "Secret s has no key k"));
}

#[test]
fn a_run_that_is_being_deleted_is_left_alone() {
    let mut world = World::new();
    Arc::make_mut(&mut world.seen.run).metadata.deletion_timestamp = Some(Time(at(1000)));
    assert_eq!(decide(&world.seen), Decision::nothing());
}
