//! Stores and informers while the network breaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use drydock_controller::store::Stored;
use drydock_crds::ContainerInstance;
use kube::Api;
use kube::api::DeleteParams;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{Controller, NAMESPACE, Server, client, eventually};

/// A way to the API server that can be cut.
struct Wire {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Wire {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(watch::Sender::new(true));
        let gate = open.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut cut, target) = (gate.subscribe(), target.clone());
                tokio::spawn(async move {
                    if !*cut.borrow() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(target).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.wait_for(|open| !*open) => {}
                    }
                });
            }
        });
        Self { address, open }
    }
}

async fn through(server: &Server) -> (Wire, kube::Client) {
    let file = kube::config::Kubeconfig::read_from(server.cluster.kubeconfig()).unwrap();
    let url: http::Uri = file.clusters[0].cluster.as_ref().unwrap().server.as_ref().unwrap().parse().unwrap();
    let target = format!("{}:{}", url.host().unwrap(), url.port_u16().unwrap());
    let wire = Wire::to(target).await;
    let address = format!("https://{}", wire.address);
    let client = client(server.cluster.kubeconfig(), Some(&address)).await;
    (wire, client)
}

#[tokio::test]
async fn what_changed_while_the_wire_was_cut_is_known_afterwards() {
    let server = Server::start("wire").await;
    let (wire, watches) = through(&server).await;
    for name in ["stays", "goes"] {
        server.instance(name, "").await;
    }
    let controller = Controller::start(server.client.clone(), watches, |_| {}).await;
    let store = ContainerInstance::store(&controller.context.stores);
    assert_eq!(store.len(), 2);
    let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
    store.subscribe(move |change| {
        let _ = sender.send((change.reference.name.clone(), change.new.is_some()));
    });
    wire.open.send_replace(false);
    let api: Api<ContainerInstance> = server.api();
    api.delete("goes", &DeleteParams::default()).await.unwrap();
    server.instance("comes", "").await;
    let health = store.health();
    eventually("a failed watch", || async { (health.errors() > 0).then_some(()) }).await;
    assert_eq!(store.len(), 2, "nothing is known yet");
    wire.open.send_replace(true);
    eventually("the store is right", || async {
        let right = store.get(NAMESPACE, "goes").is_none() && store.get(NAMESPACE, "comes").is_some();
        (right && store.len() == 2).then_some(())
    })
    .await;
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        told.push(change);
    }
    told.sort();
    assert_eq!(told, [("comes".to_owned(), true), ("goes".to_owned(), false)]);
    assert!(health.silence() < Duration::from_secs(10));
}

#[tokio::test]
async fn thousands_of_objects_are_listed_in_pages_and_found_by_index() {
    let server = Server::start("pages").await;
    let mut documents = String::new();
    for n in 0..1200 {
        documents.push_str(&format!(
            "apiVersion: drydock.dev/v1alpha1\nkind: Tool\nmetadata: {{name: tool-{n}, namespace: {NAMESPACE}}}\nspec: {{command: [\"true\"]}}\n---\n"
        ));
    }
    server.cluster.apply(&documents).await.unwrap();
    let controller = Controller::start(server.client.clone(), server.client.clone(), |_| {}).await;
    let tools = &controller.context.stores.tools;
    assert_eq!(tools.in_namespace(NAMESPACE).len(), 1200);
    let one = tools.get(NAMESPACE, "tool-777").unwrap();
    let uid = one.metadata.uid.clone().unwrap();
    assert_eq!(tools.with_uid(&uid).unwrap().metadata.name.as_deref(), Some("tool-777"));
    assert!(one.metadata.managed_fields.is_none(), "what nobody reads isn't kept");
}
