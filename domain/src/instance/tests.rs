//! The state machine, driven pass by pass: what was decided is what the next pass sees.

use drydock_crds::condition::ConditionType;
use drydock_crds::instance::{HandledRequest, RequestResult};
use drydock_crds::label;

use super::*;
use crate::agent::{AgentCall, Hello, PodRef, SealFact};
use crate::pod::{End, PodStage, Trouble};

/// An instance in a world that the test changes.
struct World {
    seen: Observed,
}

impl World {
    fn new() -> Self {
        let blueprint = Blueprint { image: "registry/image:1".into(), ..Blueprint::default() };
        let owner = OwnerReference { uid: "i-1".into(), name: "web".into(), ..OwnerReference::default() };
        Self {
            seen: Observed {
                identity: Identity {
                    kind: InstanceKind::ContainerInstance,
                    namespace: "team".into(),
                    name: "web".into(),
                    uid: "i-1".into(),
                    generation: 1,
                    annotations: BTreeMap::new(),
                    created: Timestamp::UNIX_EPOCH,
                    deleting: false,
                    owner,
                    role: Role::Environment,
                    workspace: None,
                    workspace_deleting_since: None,
                },
                spec: InstanceSpec::default(),
                status: InstanceStatus::default(),
                acceptance: Acceptance::Accepted(Box::new(blueprint)),
                pods: Vec::new(),
                conflict: None,
                volumes: BTreeSet::new(),
                demand: Demand::default(),
                agent: AgentFacts::default(),
                settings: Settings::default(),
                installation: Installation::default(),
                now: Timestamp::from_second(1000).unwrap(),
            },
        }
    }

    /// One pass, whose status is kept.
    fn pass(&mut self) -> Decision<InstanceStatus> {
        let decision = decide(&self.seen);
        if let Some(status) = &decision.status {
            self.seen.status = status.clone();
        }
        decision
    }

    /// Passes until nothing more is to be done at once; the effects of all of them.
    fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..8 {
            let decision = self.pass();
            effects.extend(decision.effects);
            if decision.wake != Wake::Again {
                return effects;
            }
        }
        panic!("it doesn't settle: {:?}", self.seen.status.transitions)
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        self.seen.now = Timestamp::from_second(self.seen.now.as_second() + seconds).unwrap();
        self
    }

    fn pod(&mut self, stage: PodStage) -> &mut Self {
        let inputs = self.seen.status.inputs_digest.clone();
        self.seen.pods = vec![PodFact {
            pod: PodRef { namespace: "team".into(), name: "p".into(), uid: "p-1".into() },
            created: self.seen.now,
            evicted: false,
            deleting_since: None,
            node: Some("node".into()),
            stage,
            container_id: Some("containerd://abc".into()),
            image: None,
            inputs,
        }];
        self
    }

    fn hello(&mut self) -> &mut Self {
        self.seen.agent.hello = Some(Hello { boot_id: "b-1".into(), ..Hello::default() });
        self
    }

    /// Brings it up because a run waits, which then ends.
    fn up(&mut self) -> &mut Self {
        self.seen.demand.waiting = 1;
        self.settle();
        self.pod(PodStage::Running).hello();
        self.settle();
        assert_eq!(self.state(), ProvisioningState::Active);
        self.seen.demand.waiting = 0;
        self
    }

    fn annotate(&mut self, key: &str, token: &str) -> &mut Self {
        self.seen.identity.annotations.insert(key.into(), token.into());
        self
    }

    fn state(&self) -> ProvisioningState {
        self.seen.status.provisioning_state.unwrap_or_default()
    }

    fn states(&self) -> Vec<ProvisioningState> {
        self.seen.status.transitions.iter().map(|t| t.to).collect()
    }

    fn handled(&self, request: &str) -> Option<&HandledRequest> {
        self.seen.status.handled_requests.get(request)
    }

    fn last_reason(&self) -> &str {
        self.seen.status.transitions.last().map_or("", |t| &t.reason)
    }

    fn is(&self, type_: ConditionType) -> bool {
        type_.is_true(&self.seen.status.conditions)
    }
}

fn created(effects: &[Effect], kind: &str) -> usize {
    effects.iter().filter(|e| matches!(e, Effect::Create(o) if o.resource.kind == kind)).count()
}

fn deletes(effects: &[Effect]) -> usize {
    effects.iter().filter(|e| matches!(e, Effect::Delete(_))).count()
}

fn seals(effects: &[Effect]) -> usize {
    effects.iter().filter(|e| matches!(e, Effect::Agent(AgentCall::Seal { .. }))).count()
}

#[test]
fn nothing_starts_before_it_is_needed() {
    let mut world = World::new();
    let effects = world.settle();
    assert!(effects.is_empty());
    assert_eq!(world.state(), ProvisioningState::Discovered);
    assert!(world.is(ConditionType::Ready));
    assert!(!world.is(ConditionType::Active));
}

#[test]
fn the_state_is_written_before_the_pod_is_made() {
    let mut world = World::new();
    world.seen.demand.waiting = 1;
    let first = world.pass();
    assert_eq!((first.effects.len(), first.wake), (0, Wake::Again));
    assert_eq!(world.state(), ProvisioningState::Building);
    let second = world.pass();
    assert_eq!(created(&second.effects, "Pod"), 1);
    world.pod(PodStage::Starting(None));
    assert_eq!(created(&world.settle(), "Pod"), 0);
    world.pod(PodStage::Running);
    assert!(matches!(world.settle()[..], [Effect::Agent(AgentCall::Connect(_))]));
    world.hello();
    world.settle();
    assert_eq!(world.state(), ProvisioningState::Active);
    assert_eq!(world.seen.status.pod_uid.as_deref(), Some("p-1"));
    assert_eq!(world.seen.status.engine_type.as_deref(), Some("containerd"));
    assert!(world.is(ConditionType::UpToDate));
}

#[test]
fn it_is_stopped_when_idle_and_only_once_the_agent_has_sealed() {
    let mut world = World::new();
    world.up();
    let idle = world.after(1799).pass();
    assert_eq!(seals(&idle.effects), 0);
    assert!(matches!(idle.wake, Wake::At(_)));
    let due = world.after(2).pass();
    assert_eq!((seals(&due.effects), world.state()), (1, ProvisioningState::Active));
    world.seen.agent.seal = SealFact::RunsActive { at: world.seen.now };
    world.pass();
    assert_eq!(world.state(), ProvisioningState::Active);
    world.seen.agent.seal = SealFact::Sealed;
    let effects = world.settle();
    assert_eq!((deletes(&effects), world.state()), (1, ProvisioningState::Stopping));
    world.seen.pods.clear();
    world.seen.agent = AgentFacts::default();
    world.settle();
    assert_eq!(world.state(), ProvisioningState::Stopped);
    assert_eq!(world.last_reason(), "StateDiscarded");
    assert!(world.is(ConditionType::Ready));
}

#[test]
fn a_run_keeps_it_from_being_idle() {
    let mut world = World::new();
    world.up();
    world.seen.demand.active = 1;
    assert_eq!(seals(&world.after(100_000).settle()), 0);
    world.seen.demand.active = 0;
    world.seen.demand.last_finished = Some(world.seen.now);
    assert_eq!(seals(&world.after(1799).settle()), 0);
    assert_eq!(seals(&world.after(1).settle()), 1);
}

#[test]
fn the_last_use_is_written_at_most_once_a_minute() {
    let mut world = World::new();
    world.up();
    world.seen.demand.active = 1;
    world.seen.now = Timestamp::from_second(6000).unwrap();
    world.settle();
    let written = world.seen.status.clone();
    world.after(59).settle();
    assert_eq!(world.seen.status, written);
    world.after(1).settle();
    assert_ne!(world.seen.status.last_activity_time, written.last_activity_time);
}

#[test]
fn an_image_that_cant_be_pulled_is_said_and_ends_with_the_start_timeout() {
    let mut world = World::new();
    world.seen.demand.waiting = 1;
    world.settle();
    let trouble =
        |permanent| Trouble { reason: Reason::ImagePullFailed, message: "no such image".into(), permanent };
    world.pod(PodStage::Starting(Some(trouble(false))));
    world.after(5).settle();
    assert_eq!(world.state(), ProvisioningState::Building);
    let ready = ConditionType::Ready.find(&world.seen.status.conditions).unwrap();
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("ImagePullFailed", "no such image"));
    let effects = world.after(600).settle();
    assert_eq!((world.state(), deletes(&effects)), (ProvisioningState::Failed, 1));
    assert!(world.is(ConditionType::Stalled));

    let mut hopeless = World::new();
    hopeless.seen.demand.waiting = 1;
    hopeless.settle();
    hopeless.pod(PodStage::Starting(Some(trouble(true))));
    hopeless.settle();
    assert_eq!(hopeless.state(), ProvisioningState::Failed);
}

#[test]
fn a_failed_start_is_tried_again_for_a_new_run_and_waits_longer_each_time() {
    let mut world = World::new();
    world.seen.demand.waiting = 1;
    for wait in [10, 20, 40] {
        world.settle();
        world.pod(PodStage::Ended(End {
            reason: Reason::ContainerExited,
            message: "it ended".into(),
            exit_code: Some(1),
            at: None,
        }));
        world.settle();
        world.seen.pods.clear();
        world.after(wait - 1).settle();
        assert_eq!(world.state(), ProvisioningState::Failed, "before {wait} s");
        world.after(1).settle();
        assert_eq!(world.state(), ProvisioningState::Building, "after {wait} s");
    }
}

#[test]
fn what_needs_a_build_fails_at_once_and_isnt_retried_by_itself() {
    let mut world = World::new();
    let build = Blueprint { needs_build: Some("it has features".into()), ..Blueprint::default() };
    world.seen.acceptance = Acceptance::Accepted(Box::new(build));
    world.seen.demand.waiting = 1;
    world.settle();
    assert_eq!(world.states(), [ProvisioningState::Building, ProvisioningState::Failed]);
    assert_eq!(world.last_reason(), "BuildUnavailable");
    world.after(100_000).settle();
    assert_eq!(world.state(), ProvisioningState::Failed);
    // Another image lifts it.
    let plain = Blueprint { image: "other".into(), ..Blueprint::default() };
    world.seen.acceptance = Acceptance::Accepted(Box::new(plain));
    world.settle();
    assert_eq!(world.state(), ProvisioningState::Building);
}

#[test]
fn a_pod_that_is_lost_is_told_with_what_is_lost() {
    let mut world = World::new();
    world.up();
    world.seen.pods.clear();
    world.settle();
    assert_eq!((world.state(), world.last_reason()), (ProvisioningState::Stopped, "PodLost"));
    world.seen.demand.waiting = 1;
    assert_eq!(created(&world.settle(), "Pod"), 1);

    let mut evicted = World::new();
    evicted.up();
    let end = End { reason: Reason::Evicted, message: "disk pressure".into(), exit_code: None, at: None };
    evicted.pod(PodStage::Ended(end));
    let effects = evicted.settle();
    assert_eq!((evicted.last_reason(), deletes(&effects)), ("Evicted", 1));
}

#[test]
fn a_new_pod_isnt_made_beside_an_old_one() {
    let mut world = World::new();
    world.up();
    world.seen.pods[0].deleting_since = Some(world.seen.now);
    world.seen.demand.waiting = 1;
    let effects = world.settle();
    assert_eq!((world.state(), created(&effects, "Pod")), (ProvisioningState::Stopping, 0));
    world.seen.pods.clear();
    assert_eq!(created(&world.settle(), "Pod"), 1);
}

#[test]
fn a_pod_on_a_silent_node_stays_stopping_and_says_so() {
    let mut world = World::new();
    world.up();
    world.seen.pods[0].deleting_since = Some(world.seen.now);
    world.settle();
    world.after(120).settle();
    let ready = ConditionType::Ready.find(&world.seen.status.conditions).unwrap();
    assert_eq!((world.state(), ready.reason.as_str()), (ProvisioningState::Stopping, "NodeUnreachable"));
}

#[test]
fn requests_are_answered_by_token_once() {
    let mut world = World::new();
    world.annotate(label::STOP, "1").settle();
    assert_eq!(world.handled("stop").unwrap().reason, "NothingToDo");
    world.up();
    world.settle();
    assert_eq!(world.state(), ProvisioningState::Active, "a handled token asks for nothing");
    world.seen.demand.active = 1;
    world.annotate(label::STOP, "2").settle();
    let refused = world.handled("stop").unwrap();
    assert_eq!((refused.token.as_str(), refused.result), ("2", RequestResult::Refused));
    assert_eq!(refused.reason, "RunsActive");
    world.seen.demand.active = 0;
    assert_eq!(seals(&world.annotate(label::STOP, "3").settle()), 1);
    assert_eq!(world.handled("stop").unwrap().token, "2", "not done before it is done");
    world.seen.agent.seal = SealFact::Sealed;
    world.settle();
    world.seen.pods.clear();
    world.settle();
    let done = world.handled("stop").unwrap();
    assert_eq!((done.token.as_str(), done.result), ("3", RequestResult::Done));
}

#[test]
fn what_isnt_implemented_is_refused() {
    let mut world = World::new();
    for request in [label::REBUILD, label::REBUILD_NO_CACHE, label::RESTORE] {
        world.annotate(request, "x");
    }
    world.settle();
    for request in ["rebuild", "rebuild-no-cache", "restore"] {
        let handled = world.handled(request).unwrap();
        assert_eq!((handled.result, handled.reason.as_str()), (RequestResult::Refused, "NotImplemented"));
    }
}

#[test]
fn stop_is_refused_where_it_is_kept_running() {
    let mut world = World::new();
    world.seen.spec.desired_state = Some(DesiredState::Active);
    world.settle();
    world.pod(PodStage::Running).hello();
    world.settle();
    world.annotate(label::STOP_FORCE, "1").settle();
    assert_eq!(world.handled("stop-force").unwrap().reason, "DesiredStateConflict");
    assert_eq!(seals(&world.after(1_000_000).settle()), 0, "it isn't idle");
}

#[test]
fn a_silent_agent_holds_up_a_stop_for_a_minute_and_no_longer() {
    let mut world = World::new();
    world.up();
    world.seen.agent.unreachable_since = Some(world.seen.now);
    world.annotate(label::STOP, "1").settle();
    assert_eq!(world.state(), ProvisioningState::Active);
    world.after(60).settle();
    assert_eq!(world.state(), ProvisioningState::Stopping);
}

#[test]
fn an_environment_ends_with_its_workspace_once_its_runs_are_cancelled() {
    let mut world = World::new();
    world.up();
    world.seen.demand.active = 1;
    world.seen.identity.workspace_deleting_since = Some(world.seen.now);
    world.settle();
    assert_eq!(world.state(), ProvisioningState::Active);
    world.seen.demand.active = 0;
    world.seen.agent.seal = SealFact::Sealed;
    world.settle();
    assert_eq!((world.state(), world.last_reason()), (ProvisioningState::Stopping, "OwnerDeleted"));
}

#[test]
fn what_isnt_accepted_is_stalled_and_never_started() {
    let mut world = World::new();
    world.seen.acceptance =
        Acceptance::Refused(crate::blueprint::Objection::new(Reason::InvalidConfig, "line 1"));
    world.seen.demand.waiting = 1;
    assert!(world.settle().is_empty());
    assert_eq!(world.state(), ProvisioningState::Discovered);
    assert!(world.is(ConditionType::Stalled));
}

#[test]
fn a_second_pass_on_the_same_view_plans_nothing_new() {
    let mut world = World::new();
    world.up();
    let before = world.seen.status.clone();
    let decision = world.pass();
    assert_eq!(world.seen.status, before);
    assert!(decision.effects.iter().all(|e| matches!(e, Effect::Agent(AgentCall::Connect(_)))));
}
