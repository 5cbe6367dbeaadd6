//! Against a server that speaks the channel protocol on loopback, well and badly.

use std::future::Future;
use std::pin::Pin;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tonic::{Code, Status, Streaming};

use super::*;
use crate::agent::agent_client::AgentClient;
use crate::agent::agent_server::{Agent, AgentServer};
use crate::agent::*;

type Socket = WebSocketStream<TcpStream>;

/// Serves one `pods/exec` by `behave`, and gives a client of it.
async fn server<F, B>(behave: B) -> kube::Client
where
    F: Future<Output = ()> + Send,
    B: FnOnce(Socket) -> F + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the callback's type is the library's")]
        let agree = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/ns/pods/pod/exec");
            let query = request.uri().query().unwrap();
            assert!(query.contains("container=tool") && query.contains("command=a&command=b+c"), "{query}");
            let protocol = "v5.channel.k8s.io".parse().unwrap();
            response.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(tcp, agree).await.unwrap();
        behave(socket).await;
    });
    client(&format!("http://{address}"))
}

fn client(url: &str) -> kube::Client {
    kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap()
}

fn on(channel: u8, data: &[u8]) -> Message {
    Message::binary([&[channel], data].concat())
}

fn success() -> Message {
    on(3, br#"{"metadata":{},"status":"Success"}"#)
}

const COMMAND: [&str; 2] = ["a", "b c"];

async fn output(client: &kube::Client, limit: usize, deadlines: Deadlines) -> Result<Vec<u8>, ExecError> {
    exec_output(client, "ns", "pod", "tool", &COMMAND, limit, deadlines).await
}

/// The output of a command for which the server sends these messages and then closes.
async fn after(messages: Vec<Message>) -> Result<Vec<u8>, ExecError> {
    let client = server(|mut socket| async move {
        for message in messages {
            socket.send(message).await.unwrap();
        }
        let _ = socket.close(None).await;
        while socket.next().await.is_some_and(|m| m.is_ok()) {}
    })
    .await;
    output(&client, 64, Deadlines::default()).await
}

fn failure(result: Result<Vec<u8>, ExecError>) -> Failure {
    match result {
        Err(ExecError::Command(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn output_is_given_when_the_command_is_known_to_have_ended_well() {
    let messages = vec![on(1, b""), on(1, b"one "), on(2, b"noise"), on(1, &[0, 255]), success()];
    assert_eq!(after(messages).await.unwrap(), b"one \x00\xff");
}

#[tokio::test]
async fn a_failed_command_gives_its_code_and_the_end_of_its_stderr() {
    let status = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"m","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    let failed = failure(after(vec![on(1, b"x"), on(2, b"bad \x1b[31m\n"), on(3, status)]).await);
    assert_eq!(failed, Failure::Exit { code: 3, stderr: "bad  [31m".to_owned() });
    assert_eq!(failed.to_string(), "exit code 3: bad  [31m");
    let failed = failure(after(vec![on(3, br#"{"status":"Failure","message":"no such container"}"#)]).await);
    assert_eq!(failed.to_string(), "no such container");
    let failed = failure(after(vec![on(3, b"garbage")]).await);
    assert_eq!(failed.to_string(), "garbage");
}

#[tokio::test]
async fn an_end_without_a_status_is_never_success() {
    let failed = failure(after(vec![on(1, b"whole?"), on(2, b"why")]).await);
    assert_eq!(failed, Failure::Unknown("closed: why".to_owned()));
    let client = server(|mut socket| async move {
        socket.send(on(1, b"whole?")).await.unwrap();
        drop(socket);
    })
    .await;
    assert!(matches!(failure(output(&client, 64, Deadlines::default()).await), Failure::Unknown(_)));
}

#[tokio::test]
async fn more_than_the_limit_is_an_error() {
    assert_eq!(after(vec![on(1, &[7; 64]), success()]).await.unwrap(), [7; 64]);
    assert!(matches!(after(vec![on(1, &[7; 65]), success()]).await, Err(ExecError::TooLong(64))));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let short = Deadlines { dial: Duration::from_millis(50), ..Deadlines::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = client(&format!("http://{}", listener.local_addr().unwrap()));
    assert!(matches!(output(&silent, 64, short).await, Err(ExecError::Deadline(_))));
    let stalled = server(|socket| async move {
        let _held = socket;
        std::future::pending::<()>().await;
    })
    .await;
    let patient_dial =
        exec_stream(&stalled, "ns", "pod", "tool", &COMMAND, Deadlines::default()).await.unwrap();
    assert!(timeout(short.dial, collect(patient_dial, 64)).await.is_err());
}

#[tokio::test]
async fn a_refusal_of_the_api_server_keeps_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = client(&format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = tcp.read(&mut request).await.unwrap();
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}"#;
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        tcp.flush().await.unwrap();
        std::future::pending::<()>().await;
    });
    match output(&refused, 64, Deadlines::default()).await {
        Err(ExecError::Kube(error)) => {
            assert!(matches!(*error, kube::Error::Api(ref s) if s.code == 403), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// Joins a WebSocket to a byte stream, as the kubelet joins it to a process, until either ends.
async fn join(socket: Socket, process: tokio::io::DuplexStream) {
    let (mut sink, mut source) = socket.split();
    let (mut stdout, mut stdin) = tokio::io::split(process);
    let out = async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
            if sink.send(on(1, &buffer[..count])).await.is_err() {
                break;
            }
        }
    };
    let in_ = async move {
        while let Some(Ok(message)) = source.next().await {
            let Message::Binary(data) = message else {
                continue;
            };
            let over = match data.first() {
                Some(0) => stdin.write_all(&data[1..]).await.is_err(),
                Some(255) => true,
                _ => false,
            };
            if over {
                break;
            }
        }
    };
    tokio::select! { () = out => {}, () = in_ => {} }
}

/// An agent that knows one run, whose stdout is `bytes` long.
struct OneRun {
    bytes: usize,
}

type Attaching = Pin<Box<dyn futures::Stream<Item = Result<AttachResponse, Status>> + Send>>;
type Sent = Pin<Box<dyn futures::Stream<Item = Result<FilesResponse, Status>> + Send>>;

macro_rules! unimplemented_calls {
    ($($name:ident($request:ty) -> $response:ty;)*) => {
        #[tonic::async_trait]
        impl Agent for OneRun {
            type AttachStream = Attaching;
            type FilesStream = Sent;

            async fn hello(&self, _: tonic::Request<HelloRequest>) -> Result<tonic::Response<HelloResponse>, Status> {
                Ok(tonic::Response::new(HelloResponse { boot_id: "boot".into(), ..HelloResponse::default() }))
            }

            async fn attach(&self, _: tonic::Request<AttachRequest>) -> Result<tonic::Response<Attaching>, Status> {
                let total = self.bytes;
                let chunks = (0..total).step_by(crate::limits::CHUNK).map(move |offset| {
                    let data = vec![u8::try_from(offset % 251).unwrap(); crate::limits::CHUNK.min(total - offset)];
                    let chunk = Chunk { stream: StreamName::Stdout.into(), offset: offset as u64, data };
                    Ok(AttachResponse { event: Some(attach_response::Event::Chunk(chunk)) })
                });
                Ok(tonic::Response::new(Box::pin(futures::stream::iter(chunks))))
            }

            $(async fn $name(&self, _: tonic::Request<$request>) -> Result<tonic::Response<$response>, Status> {
                Err(Status::unimplemented(stringify!($name)))
            })*
        }
    };
}
unimplemented_calls! {
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

async fn agent(bytes: usize, deadlines: Deadlines) -> AgentClient<Channel> {
    let client = server(move |socket| async move {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let incoming = tokio_stream::once(Ok::<_, std::io::Error>(far)).chain(futures::stream::pending());
        let serving = tonic::transport::Server::builder().add_service(AgentServer::new(OneRun { bytes }));
        tokio::select! {
            _ = serving.serve_with_incoming(incoming) => {}
            () = join(socket, near) => {}
        }
    })
    .await;
    let channel = exec_channel(client, "ns", "pod", "tool", &COMMAND, deadlines).await.unwrap();
    AgentClient::new(channel)
}

#[tokio::test]
async fn calls_go_side_by_side_and_a_long_stream_comes_whole() {
    const BYTES: usize = 64 * 1024 * 1024;
    let client = agent(BYTES, Deadlines::default()).await;
    let mut stalled = client.clone().attach(AttachRequest::default()).await.unwrap().into_inner();
    assert!(stalled.next().await.is_some(), "begun, and not read any further");
    let mut read = client.clone().attach(AttachRequest::default()).await.unwrap().into_inner();
    let mut next = 0;
    while let Some(message) = read.next().await {
        let Some(attach_response::Event::Chunk(chunk)) = message.unwrap().event else {
            panic!("not a chunk");
        };
        assert_eq!(chunk.offset, next as u64);
        assert_eq!(usize::from(chunk.data[0]), next % 251);
        next += chunk.data.len();
    }
    assert_eq!(next, BYTES);
    let hello = client.clone().hello(HelloRequest::default()).await.unwrap().into_inner();
    assert_eq!(hello.boot_id, "boot");
}

#[tokio::test]
async fn a_command_that_fails_is_the_source_of_the_calls_error() {
    let client = server(|mut socket| async move {
        let status = br#"{"status":"Failure","message":"executable file not found"}"#;
        socket.send(on(3, status)).await.unwrap();
        while socket.next().await.is_some_and(|m| m.is_ok()) {}
    })
    .await;
    let channel = exec_channel(client, "ns", "pod", "tool", &COMMAND, Deadlines::default()).await.unwrap();
    let status = AgentClient::new(channel).hello(HelloRequest::default()).await.unwrap_err();
    let mut texts = vec![status.to_string()];
    let mut source = std::error::Error::source(&status);
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    assert!(texts.iter().any(|t| t.contains("executable file not found")), "{texts:?}");
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_noticed_and_never_dialled_again() {
    let short = Duration::from_millis(100);
    let deadlines = Deadlines { ping: short, pong: short, ..Deadlines::default() };
    let client = server(|socket| async move {
        let _held = socket;
        std::future::pending::<()>().await;
    })
    .await;
    let channel = exec_channel(client, "ns", "pod", "tool", &COMMAND, deadlines).await.unwrap();
    let mut agent = AgentClient::new(channel);
    for _ in 0..2 {
        let waited = timeout(Duration::from_secs(20), agent.hello(HelloRequest::default())).await;
        let code = waited.expect("noticed").unwrap_err().code();
        assert!(matches!(code, Code::Unavailable | Code::Unknown | Code::Internal), "{code:?}");
    }
}
