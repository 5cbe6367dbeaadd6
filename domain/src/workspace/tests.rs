//! A workspace, driven pass by pass: what was decided is what the next pass sees.

use drydock_crds::workspace::{ClaimTree, GitSource, Reclaim, ReclaimPolicy, Source, Storage, WorkspaceSpec};
use drydock_protocol::checkout::{
    Behind, BehindReason, CheckoutError, CheckoutReason, FetchedRevision, FoundConfiguration, TreeState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;
use crate::agent::PodRef;
use crate::pod::{End, PodStage};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

struct World {
    seen: Observed,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl World {
    fn new() -> Self {
        let git = GitSource { url: "https://git.example/shop.git".into(), ..GitSource::default() };
        let spec = WorkspaceSpec {
            source: Source { git: Some(git), ..Source::default() },
            ..WorkspaceSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some("shop".into()),
            namespace: Some("team".into()),
            uid: Some("w-1".into()),
            generation: Some(1),
            finalizers: Some(vec![label::WORKSPACE_FINALIZER.into()]),
            ..ObjectMeta::default()
        };
        Self {
            seen: Observed {
                workspace: Arc::new(Workspace { metadata, spec, status: None }),
                claim: None,
                checkout: None,
                secret: SecretFact::NotNeeded,
                kept_files: None,
                instances: Vec::new(),
                mounted_by: Vec::new(),
                pods: 0,
                living: Living::default(),
                conflict: None,
                settings: Settings::default(),
                installation: Installation::default(),
                now: at(1000),
            },
        }
    }

    fn spec(&mut self) -> &mut WorkspaceSpec {
        &mut Arc::make_mut(&mut self.seen.workspace).spec
    }

    fn pass(&mut self) -> Decision<WorkspaceStatus> {
        let decision = decide(&self.seen);
        if decision.status.is_some() {
            Arc::make_mut(&mut self.seen.workspace).status.clone_from(&decision.status);
        }
        decision
    }

    fn status(&self) -> WorkspaceStatus {
        self.seen.workspace.status.clone().unwrap_or_default()
    }

    fn ready(&self) -> (String, String) {
        let status = self.status();
        let ready = ConditionType::Ready.find(&status.conditions).expect("Ready is always there");
        (ready.status.clone(), ready.reason.clone())
    }

    fn is(&self, type_: ConditionType) -> bool {
        type_.is_true(&self.status().conditions)
    }

    fn claim(&mut self) -> &mut Self {
        self.seen.claim = Some(ClaimSeen {
            claim: SharedClaim {
                name: crate::name::workspace_claim("w-1"),
                uid: "c-1".into(),
                single_node: true,
            },
            deleting: false,
            workspace_uid: Some("w-1".into()),
            workspace_alive: true,
            origin: Some("https://git.example/shop.git".into()),
            expires_at: None,
        });
        self
    }

    /// The checkout pod that was asked for ends with this report.
    fn reports(&mut self, uid: &str, report: CheckoutReport) -> Decision<WorkspaceStatus> {
        let decision = self.pass();
        let ask = decision.effects.iter().find_map(|e| match e {
            Effect::Create(o) if o.resource.kind == "Pod" => {
                o.json["metadata"]["labels"][label::INPUTS].as_str().map(str::to_owned)
            }
            _ => None,
        });
        let end =
            End { reason: Reason::ContainerExited, message: "exit 0".into(), exit_code: Some(0), at: None };
        let pod = PodFact {
            pod: PodRef { namespace: "team".into(), name: "checkout".into(), uid: uid.into() },
            created: self.seen.now,
            evicted: false,
            deleting_since: None,
            node: None,
            stage: PodStage::Ended(end),
            container_id: None,
            image: None,
            inputs: Some(ask.expect("a checkout pod is made")),
        };
        self.seen.checkout = Some(CheckoutPod { pod, report: Some(Ok(report)) });
        self.pass()
    }

    /// Checked out and scanned, the pod gone again.
    fn scanned(files: &[(&str, &str)]) -> (Self, Vec<Effect>) {
        let mut world = Self::new();
        world.claim();
        let mut effects = world.reports("k-1", report(files)).effects;
        let second = world.pass();
        assert!(
            second.effects.iter().any(|e| matches!(e, Effect::Delete(_))),
            "the pod goes once it is recorded"
        );
        effects.extend(second.effects);
        world.seen.checkout = None;
        world.pass();
        (world, effects)
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        self.seen.now = at(self.seen.now.as_second() + seconds);
        self
    }
}

fn report(files: &[(&str, &str)]) -> CheckoutReport {
    let found = |(path, text): &(&str, &str)| FoundConfiguration {
        config_path: (*path).to_owned(),
        bytes: text.len() as u64,
        sha256: crate::name::digest(text, 64),
        content: Some((*text).to_owned()),
        omitted: None,
        message: None,
        link_target: None,
        source_digest: None,
    };
    CheckoutReport {
        revision: Some(FetchedRevision { name: "main".into(), commit: COMMIT.into() }),
        tree: Some(TreeState { commit: COMMIT.into(), moved: true, behind: None }),
        devcontainers: files.iter().map(found).collect(),
        discovered: true,
        ..CheckoutReport::default()
    }
}

fn kinds(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .map(|e| match e {
            Effect::Apply(o) | Effect::Create(o) => o.resource.kind.as_str(),
            Effect::Delete(_) => "delete",
            Effect::AddFinalizer(_) => "add finalizer",
            Effect::ReleaseFinalizer(_) => "release finalizer",
            Effect::Agent(_) | Effect::Audit(_) => "other",
        })
        .collect()
}

#[test]
fn finalizer_claim_and_checkout_come_one_after_the_other() {
    let mut world = World::new();
    Arc::make_mut(&mut world.seen.workspace).metadata.finalizers = None;
    assert_eq!(kinds(&world.pass().effects), ["add finalizer"]);
    Arc::make_mut(&mut world.seen.workspace).metadata.finalizers =
        Some(vec![label::WORKSPACE_FINALIZER.into()]);
    assert_eq!(kinds(&world.pass().effects), ["PersistentVolumeClaim"]);
    world.claim();
    assert_eq!(kinds(&world.pass().effects), ["Pod"]);
    assert!(world.is(ConditionType::Reconciling));
}

#[test]
fn every_configuration_is_listed_and_each_valid_one_gets_an_instance() {
    let files = [
        (".devcontainer.json", r#"{"image": "a"}"#),
        ("web/.devcontainer/devcontainer.json", "{ // no image\n \"features\": {} }"),
        ("api/.devcontainer/devcontainer.json", r#"{"image": "b"}"#),
        ("api/.devcontainer/gpu/devcontainer.json", r#"{"image": "c"}"#),
    ];
    let (world, effects) = World::scanned(&files);
    let status = world.status();
    let names: Vec<&str> = status.devcontainers.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["shop", "shop-api", "shop-api-gpu", "shop-web"]);
    let web = status.devcontainers.iter().find(|d| d.name == "shop-web").unwrap();
    let problem = web.problem.as_ref().expect("a configuration without a source is a problem");
    assert_eq!(
        (problem.file.as_deref(), problem.line),
        (Some("web/.devcontainer/devcontainer.json"), Some(1))
    );
    assert_eq!(status.devcontainers[0].directory, ".");
    assert_eq!(kinds(&effects).iter().filter(|k| **k == "DevcontainerInstance").count(), 2 * 3);
    assert_eq!(world.ready().0, "True");
    assert_eq!(status.tree_revision.as_deref(), Some(COMMIT));
}

#[test]
fn an_instance_that_is_right_is_left_alone_and_one_that_vanished_goes_when_unused() {
    let (mut world, effects) = World::scanned(&[(".devcontainer.json", r#"{"image": "a"}"#)]);
    let applied = effects.iter().find_map(|e| match e {
        Effect::Apply(o) if o.resource.kind == "DevcontainerInstance" => Some(o.json.clone()),
        _ => None,
    });
    let applied = applied.unwrap();
    assert_eq!(applied["metadata"]["ownerReferences"][0]["uid"], "w-1");
    let labels = serde_json::from_value(applied["metadata"]["labels"].clone()).unwrap();
    let own = InstanceSeen {
        name: "shop".into(),
        uid: "i-1".into(),
        automatic: true,
        workspace: "shop".into(),
        config_path: Some(".devcontainer.json".into()),
        labels,
        in_use: false,
        deleting: false,
    };
    let gone = InstanceSeen {
        name: "shop-old".into(),
        config_path: Some("old/.devcontainer.json".into()),
        ..own.clone()
    };
    world.seen.instances = vec![own, InstanceSeen { in_use: true, ..gone.clone() }];
    assert!(world.pass().effects.is_empty());
    world.seen.instances[1] = InstanceSeen { automatic: false, ..gone.clone() };
    assert!(world.pass().effects.is_empty(), "what was made by hand is never deleted");
    world.seen.instances[1] = gone;
    assert_eq!(kinds(&world.pass().effects), ["delete"]);
}

#[test]
fn an_instance_made_by_hand_is_shared_and_not_taken_over() {
    let (mut world, _) = World::scanned(&[(".devcontainer.json", r#"{"image": "a"}"#)]);
    world.seen.instances = vec![InstanceSeen {
        name: "shop".into(),
        uid: "i-1".into(),
        automatic: false,
        workspace: "shop".into(),
        config_path: None,
        labels: BTreeMap::new(),
        in_use: false,
        deleting: false,
    }];
    let decision = world.pass();
    let [Effect::Apply(applied)] = &decision.effects[..] else { panic!("one apply expected") };
    assert!(applied.json["metadata"].get("ownerReferences").is_none());
    assert_eq!(applied.json["spec"]["configPath"], ".devcontainer.json");
}

#[test]
fn a_name_that_another_workspace_has_is_a_problem_until_it_is_free() {
    let (mut world, _) = World::scanned(&[(".devcontainer.json", r#"{"image": "a"}"#)]);
    world.seen.instances = vec![InstanceSeen {
        name: "shop".into(),
        uid: "i-1".into(),
        automatic: false,
        workspace: "other".into(),
        config_path: None,
        labels: BTreeMap::new(),
        in_use: false,
        deleting: false,
    }];
    assert!(world.pass().effects.is_empty(), "what is another's is never taken over");
    assert_eq!(world.status().devcontainers[0].problem.as_ref().unwrap().reason, "NameConflict");
    world.seen.instances.clear();
    assert_eq!(kinds(&world.pass().effects), ["DevcontainerInstance"]);
    assert_eq!(world.status().devcontainers[0].problem, None);
}

#[test]
fn a_failed_checkout_is_tried_again_with_growing_waits_and_a_persons_fault_is_stalled() {
    let failure = |reason| CheckoutReport {
        error: Some(CheckoutError { reason, message: "no".into() }),
        ..CheckoutReport::default()
    };
    let mut world = World::new();
    world.claim();
    world.reports("k-1", failure(CheckoutReason::SourceUnreachable));
    assert!(world.is(ConditionType::Reconciling), "{:?}", world.ready());
    world.seen.checkout = None;
    let waiting = world.pass();
    assert_eq!((kinds(&waiting.effects).len(), waiting.wake), (0, Wake::At(at(1005))));
    assert_eq!(kinds(&world.after(5).pass().effects), ["Pod"]);

    let mut refused = World::new();
    refused.claim();
    refused.reports("k-1", failure(CheckoutReason::AuthenticationFailed));
    assert_eq!(refused.ready(), ("False".into(), "AuthenticationFailed".into()));
    assert!(refused.is(ConditionType::Stalled));
    let status = refused.status();
    let said = &ConditionType::Ready.find(&status.conditions).unwrap().message;
    assert_eq!(said, "no: name a Secret with valid credentials in spec.source.git.secretRef");
}

#[test]
fn a_scanned_workspace_stays_ready_while_its_remote_is_away() {
    let (mut world, _) = World::scanned(&[]);
    Arc::make_mut(&mut world.seen.workspace).metadata.annotations =
        Some([(label::RESCAN.to_owned(), "1".to_owned())].into());
    let away = CheckoutReport {
        error: Some(CheckoutError { reason: CheckoutReason::SourceUnreachable, message: "no route".into() }),
        ..CheckoutReport::default()
    };
    world.reports("k-2", away);
    assert_eq!(world.ready().0, "True");
    assert_eq!(world.status().handled_requests["rescan"].token, "1");
    assert!(world.status().handled_requests["rescan"].message.contains("no route"));
}

#[test]
fn the_remote_is_asked_again_by_interval_and_on_request_only() {
    let (mut world, _) = World::scanned(&[]);
    assert_eq!(world.after(1_000_000).pass().wake, Wake::OnChange);
    let (mut world, _) = World::scanned(&[]);
    world.spec().source.git.as_mut().unwrap().interval = Some("1m".parse().unwrap());
    let early = world.after(59).pass();
    assert_eq!((kinds(&early.effects).len(), early.wake), (0, Wake::At(at(1060))));
    let due = world.after(1).pass();
    assert_eq!(kinds(&due.effects), ["Pod"]);
    assert_eq!(world.ready().0, "True", "a look at the remote is no change");
}

#[test]
fn a_held_tree_follows_when_nobody_mounts_it() {
    let mut world = World::new();
    world.claim();
    let mut held = report(&[]);
    held.tree = Some(TreeState {
        commit: COMMIT.into(),
        moved: false,
        behind: Some(Behind { reason: BehindReason::Held, message: "shop-api mounts it".into() }),
    });
    world.reports("k-1", held);
    world.seen.checkout = None;
    let status = world.status();
    let up_to_date = ConditionType::UpToDate.find(&status.conditions).unwrap();
    assert_eq!(
        (up_to_date.reason.as_str(), up_to_date.message.as_str()),
        ("TreeInUse", "shop-api mounts it")
    );
    world.seen.mounted_by = vec![InstanceRef {
        kind: drydock_crds::reference::InstanceKind::DevcontainerInstance,
        name: "shop-api".into(),
    }];
    assert!(world.after(3600).pass().effects.is_empty());
    world.seen.mounted_by.clear();
    assert_eq!(kinds(&world.pass().effects), ["Pod"]);
}

#[test]
fn a_left_claim_is_taken_over_only_for_the_same_repository() {
    let claimed = |uid: Option<&str>, alive, origin: Option<&str>| {
        let mut world = World::new();
        world.spec().storage = Some(Storage { claim_name: Some("left".into()), ..Storage::default() });
        world.claim();
        let claim = world.seen.claim.as_mut().unwrap();
        claim.claim.name = "left".into();
        claim.workspace_uid = uid.map(str::to_owned);
        claim.workspace_alive = alive;
        claim.origin = origin.map(str::to_owned);
        claim.expires_at = Some("2026-01-01T00:00:00Z".into());
        world
    };
    let same = Some("https://git.example/shop.git");
    let mut taken = claimed(Some("w-0"), false, same);
    let decision = taken.pass();
    let [Effect::Apply(applied)] = &decision.effects[..] else { panic!("one apply expected") };
    assert_eq!(applied.json["metadata"]["annotations"][label::WORKSPACE_UID], "w-1");
    assert!(applied.json["metadata"]["annotations"].get(label::EXPIRES_AT).is_none());
    for mut refused in [
        claimed(Some("w-0"), true, same),
        claimed(Some("w-0"), false, Some("https://git.example/other.git")),
        claimed(None, false, None),
    ] {
        assert!(refused.pass().effects.is_empty());
        assert_eq!(refused.ready().1, "ClaimRefused");
        assert!(refused.is(ConditionType::Stalled));
    }
}

#[test]
fn its_end_waits_for_its_pods_keeps_the_claim_and_never_holds_longer_than_a_minute() {
    let deleted = |policy: Option<ReclaimPolicy>| {
        let (mut world, _) = World::scanned(&[]);
        world.claim();
        world.spec().storage =
            Some(Storage { reclaim: Some(Reclaim { policy, after: None }), ..Storage::default() });
        Arc::make_mut(&mut world.seen.workspace).metadata.deletion_timestamp = Some(Time(at(1000)));
        world
    };
    let mut kept = deleted(None);
    kept.seen.pods = 1;
    let waiting = kept.pass();
    assert_eq!((kinds(&waiting.effects).len(), waiting.wake), (0, Wake::At(at(1060))));
    kept.seen.pods = 0;
    let decision = kept.pass();
    let [Effect::Apply(applied), Effect::ReleaseFinalizer(_)] = &decision.effects[..] else {
        panic!("{:?}", decision.effects)
    };
    let expiry = applied.json["metadata"]["annotations"][label::EXPIRES_AT].as_str().unwrap();
    assert_eq!(expiry.parse::<Timestamp>().unwrap(), at(1000 + 168 * 3600));

    let mut dropped = deleted(Some(ReclaimPolicy::Delete));
    assert_eq!(kinds(&dropped.pass().effects), ["delete", "release finalizer"]);

    let mut stuck = deleted(None);
    stuck.seen.pods = 1;
    let gives_up = stuck.after(60).pass();
    assert!(kinds(&gives_up.effects).contains(&"release finalizer"));
    assert_eq!(gives_up.notices.len(), 1);
}

#[test]
fn a_borrowed_claim_is_mounted_read_only_and_never_deleted() {
    let mut world = World::new();
    world.spec().source = Source {
        persistent_volume_claim: Some(ClaimTree { claim_name: "data".into(), sub_path: Some("src".into()) }),
        ..Source::default()
    };
    world.claim();
    let claim = world.seen.claim.as_mut().unwrap();
    (claim.claim.name, claim.workspace_uid) = ("data".into(), None);
    let decision = world.pass();
    let [Effect::Create(pod)] = &decision.effects[..] else { panic!("{:?}", decision.effects) };
    let mounts = pod.json["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|m| m["name"] == "claim").unwrap();
    assert_eq!((mount["readOnly"].as_bool(), mount["subPath"].as_str()), (Some(true), Some("src")));
    Arc::make_mut(&mut world.seen.workspace).metadata.deletion_timestamp = Some(Time(at(1000)));
    assert_eq!(kinds(&world.pass().effects), ["release finalizer"]);
}

#[test]
fn a_source_that_policy_or_this_version_refuses_is_stalled() {
    let mut denied = World::new();
    denied.seen.settings.sources.allowed_sources = vec!["https://git.other/".into()];
    assert!(denied.pass().effects.is_empty());
    assert_eq!(denied.ready().1, "PolicyDenied");
    let mut upload = World::new();
    upload.spec().source =
        Source { upload: Some(drydock_crds::workspace::UploadSource {}), ..Source::default() };
    assert!(upload.pass().effects.is_empty());
    assert_eq!(upload.ready().1, "NotImplemented");
}

#[test]
fn a_missing_secret_is_waited_for_by_name() {
    let mut world = World::new();
    world.claim();
    world.spec().source.git.as_mut().unwrap().secret_ref =
        Some(drydock_crds::reference::SecretRef { name: "creds".into() });
    for (fact, part) in [
        (SecretFact::Missing, "Secret creds isn't there"),
        (SecretFact::Present { keys: ["username".to_owned()].into() }, "lacks password"),
    ] {
        world.seen.secret = fact;
        let decision = world.pass();
        assert!(decision.effects.is_empty());
        assert_eq!(decision.wake, Wake::At(at(1010)));
        let status = world.status();
        assert!(ConditionType::Ready.find(&status.conditions).unwrap().message.contains(part));
    }
}

#[test]
fn a_pod_that_asks_for_what_is_no_longer_asked_is_replaced() {
    let mut world = World::new();
    world.claim();
    world.reports("k-1", report(&[]));
    world.seen.checkout.as_mut().unwrap().pod.pod.uid = "k-2".into();
    world.spec().source.git.as_mut().unwrap().revision = Some("next".into());
    assert_eq!(kinds(&world.pass().effects), ["delete"]);
}
