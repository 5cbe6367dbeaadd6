//! The pump alone, and through a server on loopback that answers as an API server with one instance and its agent does.

use std::pin::Pin;

use drydock_protocol::agent::agent_server::{Agent, AgentServer};
use drydock_protocol::agent::*;
use futures::{SinkExt as _, Stream, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tonic::{Status, Streaming};

use super::*;

fn chunk(stream: StreamName, offset: u64, data: &[u8]) -> Option<Event> {
    Some(Event::Chunk(Chunk { stream: stream.into(), offset, data: data.to_vec() }))
}

fn sinks() -> Sinks<Vec<u8>, Vec<u8>> {
    Sinks { stdout: Some(Vec::new()), stderr: Some(Vec::new()), on_gap: |_| {} }
}

#[tokio::test]
async fn bytes_are_written_once_and_apart() {
    let (offsets, mut sinks) = (Offsets::default(), sinks());
    let gap = Gap { stream: StreamName::Stdout.into(), from: 5, to: 9 };
    for event in [
        chunk(StreamName::Stdout, 0, b"ab\0"),
        chunk(StreamName::Stderr, 0, b"\xff"),
        chunk(StreamName::Stdout, 1, b"b\0cd"),
        chunk(StreamName::Stdout, 0, b"ab"),
        Some(Event::Gap(gap)),
        chunk(StreamName::Stdout, 9, b"e"),
        None,
    ] {
        assert_eq!(take(event, &offsets, &mut sinks).await, None);
    }
    let end = Some(Event::End(RunResult::default()));
    assert_eq!(take(end, &offsets, &mut sinks).await, Some(Pumped::All));
    assert_eq!((sinks.stdout.unwrap(), sinks.stderr.unwrap()), (b"ab\0cde".to_vec(), b"\xff".to_vec()));
    assert_eq!((offsets.get(StreamName::Stdout), offsets.get(StreamName::Stderr)), (10, 1));
}

#[tokio::test]
async fn a_closed_reader_is_noticed() {
    let (near, far) = tokio::io::duplex(1);
    drop(far);
    let mut sinks: Sinks<_, Vec<u8>> = Sinks { stdout: Some(near), stderr: None, on_gap: |_| {} };
    let event = chunk(StreamName::Stdout, 0, b"abc");
    assert_eq!(take(event, &Offsets::default(), &mut sinks).await, Some(Pumped::Closed));
}

/// An agent that breaks off after the first piece, and gives the rest to whoever attaches at its end.
struct BreaksOff;

type Attaching = Pin<Box<dyn Stream<Item = Result<AttachResponse, Status>> + Send>>;
type Sent = Pin<Box<dyn Stream<Item = Result<FilesResponse, Status>> + Send>>;

macro_rules! agent {
    ($($name:ident($request:ty) -> $response:ty;)*) => {
        #[tonic::async_trait]
        impl Agent for BreaksOff {
            type AttachStream = Attaching;
            type FilesStream = Sent;

            async fn attach(&self, request: tonic::Request<AttachRequest>) -> Result<tonic::Response<Attaching>, Status> {
                let asked = request.into_inner();
                assert_eq!((asked.epoch, asked.run_uid.as_str(), asked.attempt), (0, "run-uid", 2));
                let events = match (asked.stdout_offset, asked.stderr_offset) {
                    (0, 0) => vec![
                        Some(Event::Attached(Attached { attempt: 2 })),
                        chunk(StreamName::Stdout, 0, b"one\n"),
                        chunk(StreamName::Stderr, 0, b"err"),
                    ],
                    (4, 3) => vec![chunk(StreamName::Stdout, 4, b"two\n"), Some(Event::End(RunResult::default()))],
                    other => panic!("attached at {other:?}"),
                };
                let events = events.into_iter().map(|event| Ok(AttachResponse { event }));
                Ok(tonic::Response::new(Box::pin(futures::stream::iter(events))))
            }

            $(async fn $name(&self, _: tonic::Request<$request>) -> Result<tonic::Response<$response>, Status> {
                Err(Status::unimplemented(stringify!($name)))
            })*
        }
    };
}
agent! {
    hello(HelloRequest) -> HelloResponse;
    start(StartRequest) -> StartResponse;
    wait(WaitRequest) -> WaitResponse;
    read_output(ReadOutputRequest) -> ReadOutputResponse;
    input(Streaming<InputRequest>) -> InputResponse;
    resize(ResizeRequest) -> ResizeResponse;
    signal(SignalRequest) -> SignalResponse;
    cancel(CancelRequest) -> CancelResponse;
    run_hooks(RunHooksRequest) -> RunHooksResponse;
    seal(SealRequest) -> SealResponse;
    unseal(UnsealRequest) -> UnsealResponse;
    save(SaveRequest) -> SaveResponse;
    restore(RestoreRequest) -> RestoreResponse;
    files(Streaming<FilesRequest>) -> Sent;
}

/// Answers one connection: the instance by HTTP, or the exec by a WebSocket with the agent behind it.
async fn serve(mut tcp: TcpStream) {
    let mut start = [0; 64];
    let count = tcp.peek(&mut start).await.unwrap();
    let is_exec = start[..count].starts_with(b"GET /api/v1/namespaces/ns/pods/pod-1/exec?");
    if !is_exec {
        let mut request = vec![0; 8192];
        let _ = tcp.read(&mut request).await.unwrap();
        let body = json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "DevcontainerInstance", "metadata": {"name": "dc"},
            "spec": {"workspaceRef": {"name": "shop"}}, "status": {"podName": "pod-1", "podUid": "pod-uid"}
        })
        .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        return;
    }
    #[expect(clippy::result_large_err, reason = "the callback's type is the library's")]
    let agree = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap();
        assert!(query.ends_with("command=%2F.drydock%2Fbin%2Fdrydock-agent&command=session"), "{query}");
        let protocol = "v5.channel.k8s.io".parse().unwrap();
        response.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(tcp, agree).await.unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(far)).chain(futures::stream::pending());
    let serving = tonic::transport::Server::builder().add_service(AgentServer::new(BreaksOff));
    tokio::select! {
        _ = serving.serve_with_incoming(incoming) => {}
        () = join(socket, near) => {}
    }
}

async fn join(socket: tokio_tungstenite::WebSocketStream<TcpStream>, process: DuplexStream) {
    let (mut sink, mut source) = socket.split();
    let (mut stdout, mut stdin) = tokio::io::split(process);
    let out = async move {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
            let message = Message::binary([&[1], &buffer[..count]].concat());
            if sink.send(message).await.is_err() {
                break;
            }
        }
    };
    let into = async move {
        while let Some(Ok(message)) = source.next().await {
            let data = message.into_data();
            if data.first() != Some(&0) || stdin.write_all(&data[1..]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = out => {}, () = into => {} }
}

#[tokio::test]
async fn output_that_breaks_off_goes_on_where_it_was() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp));
        }
    });
    let connection = Connection {
        client: kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap(),
        namespace: "ns".into(),
        request_timeout: Duration::from_secs(10),
    };
    let run = |pod_uid: &str| -> ToolRun {
        serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ToolRun", "metadata": {"name": "r", "uid": "run-uid"},
            "spec": {"command": ["x"]},
            "status": {
                "claim": {"attempt": 2, "podUid": pod_uid, "bootId": "b"},
                "route": {"reason": "r", "target": {"kind": "DevcontainerInstance", "name": "dc"}}
            }
        }))
        .unwrap()
    };
    let (_keep, stop) = tokio::sync::watch::channel(false);
    let (offsets, mut sinks) = (Arc::new(Offsets::default()), sinks());
    let patience = Duration::from_secs(30);
    let end = pump_on(&connection, &run("pod-uid"), &offsets, &mut sinks, &stop, patience).await;
    assert_eq!(end, Pumped::All);
    assert_eq!(sinks.stdout.as_deref(), Some(&b"one\ntwo\n"[..]));
    assert_eq!(sinks.stderr.as_deref(), Some(&b"err"[..]));

    let end = pump_on(&connection, &run("another"), &offsets, &mut sinks, &stop, patience).await;
    let stopped = Unreachable::NoPod("the environment that it ran in was stopped".into());
    assert_eq!(end, Pumped::Unreachable(stopped));
}
