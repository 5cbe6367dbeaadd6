//! Informers against a scripted API server, and stores by themselves.

use std::collections::VecDeque;
use std::sync::Mutex;

use drydock_crds::{Tool, ToolSpec};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;

fn tool(name: &str, version: u64) -> Tool {
    let mut tool = Tool::new(name, ToolSpec::default());
    tool.metadata.namespace = Some("ns".into());
    tool.metadata.uid = Some(format!("uid-{name}"));
    tool.metadata.resource_version = Some(version.to_string());
    tool
}

fn names(store: &Store<Tool>) -> Vec<String> {
    let mut names: Vec<String> = store.in_namespace("ns").iter().map(|t| t.name_any()).collect();
    names.sort();
    names
}

fn item(name: &str, version: u64) -> Value {
    let mut item = serde_json::to_value(tool(name, version)).unwrap();
    item["apiVersion"] = "drydock.dev/v1alpha1".into();
    item["kind"] = "Tool".into();
    item
}

fn list(version: u64, next: &str, items: &[Value]) -> String {
    json!({
        "kind": "ToolList", "apiVersion": "drydock.dev/v1alpha1",
        "metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items,
    })
    .to_string()
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn too_old() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old", "reason": "Expired", "code": 410})
}

type Asked = Arc<Mutex<Vec<String>>>;

/// Answers the requests for tools in order, each with its body; then, and for other kinds, nothing comes for ever.
fn scripted(answers: Vec<(u16, String)>) -> (Client, Asked) {
    let asked: Asked = Arc::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let log = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let answer = uri.contains("/tools").then(|| {
            log.lock().unwrap().push(uri);
            answers.lock().unwrap().pop_front()
        });
        async move {
            let Some((code, body)) = answer.flatten() else {
                return std::future::pending().await;
            };
            let response = Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    (Client::new(service, "default"), asked)
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_followed_by_a_watch_and_a_watch_that_fell_behind_by_a_list() {
    let mut bad = item("bad", 3);
    bad["spec"]["timeoutSeconds"] = "soon".into();
    let watched = [
        event("MODIFIED", &item("a", 11)),
        event(
            "BOOKMARK",
            &json!({"kind": "Tool", "apiVersion": "drydock.dev/v1alpha1", "metadata": {"resourceVersion": "20"}}),
        ),
    ];
    let (client, asked) = scripted(vec![
        (200, list(10, "more", &[item("a", 1), bad])),
        (200, list(10, "", &[item("b", 2)])),
        (200, watched.concat()),
        (200, event("ERROR", &too_old())),
        (200, list(40, "", &[item("a", 11), item("c", 30)])),
        (410, too_old().to_string()),
        (200, list(50, "", &[item("c", 30)])),
    ]);
    let stores = Arc::new(Stores::new(Scope::Cluster));
    let mut informers = JoinSet::new();
    stores.start(&client, &mut informers);
    let tools = &stores.tools;
    until("the first list", || tools.is_ready()).await;
    until("the last list", || names(tools) == ["c"]).await;
    until("the last watch", || asked.lock().unwrap().len() == 8).await;
    let asked = asked.lock().unwrap();
    assert!(asked[1].contains("continue=more"), "{asked:?}");
    assert!(asked[2].contains("watch=true") && asked[2].contains("resourceVersion=10"), "{asked:?}");
    assert!(asked[3].contains("resourceVersion=20"), "a bookmark is where the next watch begins: {asked:?}");
    assert!(!asked[4].contains("watch=true") && !asked[6].contains("watch=true"), "{asked:?}");
    assert_eq!(tools.health().errors(), 0, "falling behind is no error");
    assert!(!stores.are_ready(), "no other kind was listed");
}

#[tokio::test]
async fn an_older_object_never_replaces_a_newer_one_and_places_stay() {
    let store = Store::<Tool>::default();
    assert!(store.put(tool("a", 5)) && store.put(tool("b", 3)));
    assert!(!store.put(tool("a", 4)) && !store.put(tool("a", 5)));
    assert!(store.put(tool("a", 9)), "versions are numbers");
    assert!(store.put(tool("a", 10)));
    let order: Vec<String> = store.in_namespace("ns").iter().map(|t| t.name_any()).collect();
    assert_eq!(order, ["a", "b"], "an update keeps the place");
    let at = |name: &str| store.read().position(index_name::NAMESPACE, "", &ObjectRef::new("ns", name));
    assert_eq!((at("a"), at("b"), at("c")), (Some(0), Some(1), None));
}

#[tokio::test]
async fn what_a_deletion_removed_does_not_come_back_by_a_late_event() {
    let store = Store::<Tool>::default();
    store.put(tool("a", 5));
    store.forget(&ObjectRef::new("ns", "a"), "uid-a");
    assert!(!store.put(tool("a", 6)), "an event from before the deletion");
    let mut another = tool("a", 8);
    another.metadata.uid = Some("uid-other".into());
    assert!(store.put(another), "another object of that name is another");
    store.remove(&ObjectRef::new("ns", "a"), &tool("a", 7).metadata);
    assert_eq!(store.len(), 1, "the end of the first isn't the end of the second");
    assert!(!store.put_if_there(tool("b", 9)), "the answer to a write brings nothing back");
}

#[tokio::test]
async fn a_list_takes_away_what_is_older_than_itself_alone() {
    let store = Store::<Tool>::default();
    for (name, version) in [("old", 3), ("written", 12)] {
        store.put(tool(name, version));
    }
    store.replace("", vec![tool("listed", 4)], 10);
    assert_eq!(
        names(&store),
        ["listed", "written"],
        "what was written after the list was made is still there"
    );
    store.replace("elsewhere", vec![], 99);
    assert_eq!(names(&store), ["listed", "written"], "a list of another namespace says nothing");
}

#[test]
fn the_last_of_an_index_is_the_run_that_ended_last() {
    use drydock_crds::reference::InstanceKind;
    use drydock_crds::tool_run::{Outcome, Route, RouteTarget};
    use drydock_crds::{ToolRun, ToolRunSpec, ToolRunStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    let run = |name: &str, version: u64, ended: Option<i64>| {
        let mut run = ToolRun::new(name, ToolRunSpec::default());
        run.metadata.namespace = Some("ns".into());
        run.metadata.uid = Some(format!("uid-{name}"));
        run.metadata.resource_version = Some(version.to_string());
        let target = RouteTarget { kind: InstanceKind::ContainerInstance, name: "box".into(), uid: None };
        run.status = Some(ToolRunStatus {
            route: Some(Route { target: Some(target), ..Route::default() }),
            outcome: ended.map(|_| Outcome::Succeeded),
            finished_at: ended.map(|t| Time(jiff::Timestamp::from_second(t).unwrap())),
            ..ToolRunStatus::default()
        });
        run
    };
    let store = Store::<ToolRun>::default();
    let last = || store.read().last(index_name::TARGET, "ns", "ContainerInstance/box").map(|r| r.name_any());
    assert_eq!(last(), None);
    for (name, version) in [("long", 1), ("short", 2), ("open", 3)] {
        store.put(run(name, version, None));
    }
    store.put(run("short", 4, Some(100)));
    assert_eq!(last().as_deref(), Some("short"));
    store.put(run("long", 5, Some(200)));
    assert_eq!(last().as_deref(), Some("long"), "it arrived first and ended last");
    store.forget(&ObjectRef::new("ns", "long"), "uid-long");
    assert_eq!(last().as_deref(), Some("short"));
}
