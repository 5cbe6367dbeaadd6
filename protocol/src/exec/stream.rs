//! One `pods/exec` as a byte stream: the channel protocol of Kubernetes (`v5.channel.k8s.io`, `v4`) over a WebSocket.
//!
//! Reading ends well only when the server said that the command ended with 0; every other end is an error.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Bytes, Message};

/// Channels of the protocol: the first byte of each message.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// (v5) The channel in the second byte is closed.
const CLOSE: u8 = 255;
/// Bytes of one message to stdin.
const WRITE_MAX: usize = 32 * 1024;
/// Bytes of stderr that are kept for the error.
const STDERR_MAX: usize = 1024;

/// How a command ended that didn't end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It ended with another code than 0.
    #[error("exit code {code}{}", said(.stderr))]
    Exit {
        /// The code.
        code: i32,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It couldn't be started, or the server says so in another way.
    #[error("{message}{}", said(.stderr))]
    Status {
        /// What the server says.
        message: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The stream ended, and nobody said how the command did.
    #[error("the stream ended without a status: {0}")]
    Unknown(String),
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

impl Failure {
    /// The failure in an error of [`ExecStream`].
    pub(super) fn from_io(error: io::Error) -> Self {
        let text = error.to_string();
        match error.into_inner().and_then(|inner| inner.downcast::<Self>().ok()) {
            Some(failure) => *failure,
            None => Self::Unknown(text),
        }
    }
}

/// Where the reading side stands.
#[derive(Debug)]
enum End {
    /// The command runs, as far as is known.
    Open,
    /// The server said how it ended; nothing else comes.
    Said(Result<(), Failure>),
}

/// Stdin and stdout of a command in a container.
///
/// Dropping it drops the connection, which ends the command where it reads its stdin.
#[derive(Debug)]
pub struct ExecStream<S = hyper_util::rt::TokioIo<hyper::upgrade::Upgraded>> {
    socket: WebSocketStream<S>,
    /// Received and not yet read.
    unread: Bytes,
    stderr: Vec<u8>,
    end: End,
    /// How it failed, for whoever holds the channel that was made of the stream.
    failure: Arc<OnceLock<Failure>>,
    /// The server understands [`CLOSE`].
    can_close: bool,
    closed: bool,
}

impl<S> ExecStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    pub(super) fn new(socket: WebSocketStream<S>, can_close: bool) -> Self {
        Self {
            socket,
            unread: Bytes::new(),
            stderr: Vec::new(),
            end: End::Open,
            failure: Arc::default(),
            can_close,
            closed: false,
        }
    }

    /// Set once the stream has failed; outlives the stream.
    pub(super) fn failure(&self) -> Arc<OnceLock<Failure>> {
        Arc::clone(&self.failure)
    }

    /// Takes one message in.
    fn receive(&mut self, message: Bytes) {
        let Some(channel) = message.first().copied() else {
            return;
        };
        let data = message.slice(1..);
        match channel {
            STDOUT => self.unread = data,
            STDERR => {
                self.stderr.extend_from_slice(&data);
                let excess = self.stderr.len().saturating_sub(STDERR_MAX);
                self.stderr.drain(..excess);
            }
            STATUS => self.end = End::Said(status(&data, &self.stderr)),
            _ => {}
        }
    }

    fn unknown(&self, why: impl Into<String>) -> io::Error {
        let stderr = printable(&self.stderr);
        self.failed(Failure::Unknown(format!("{}{}", why.into(), said(&stderr))))
    }

    fn failed(&self, failure: Failure) -> io::Error {
        io::Error::other(self.failure.get_or_init(|| failure).clone())
    }
}

/// What the server says at the end: a `metav1.Status`.
fn status(data: &[u8], stderr: &[u8]) -> Result<(), Failure> {
    let stderr = printable(stderr);
    let Ok(status) = serde_json::from_slice::<serde_json::Value>(data) else {
        return Err(Failure::Status { message: printable(data), stderr });
    };
    if status["status"] == "Success" {
        return Ok(());
    }
    let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let code = causes
        .iter()
        .find(|cause| cause["reason"] == "ExitCode")
        .and_then(|cause| cause["message"].as_str()?.parse().ok());
    Err(match code {
        Some(code) => Failure::Exit { code, stderr },
        None => Failure::Status {
            message: printable(status["message"].as_str().unwrap_or("no message").as_bytes()),
            stderr,
        },
    })
}

/// At most [`STDERR_MAX`] bytes as one line of text without control characters.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(STDERR_MAX)]).trim().to_owned();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn broken(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::BrokenPipe, other),
    }
}

impl<S> AsyncRead for ExecStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.unread.is_empty() {
                let count = this.unread.len().min(buf.remaining());
                buf.put_slice(&this.unread.split_to(count));
                return Poll::Ready(Ok(()));
            }
            if let End::Said(said) = &this.end {
                return Poll::Ready(said.clone().map_err(|failure| this.failed(failure)));
            }
            match ready!(Pin::new(&mut this.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(data))) => this.receive(data),
                Some(Ok(Message::Close(frame))) => {
                    let why = frame.map(|f| printable(f.reason.as_bytes())).filter(|r| !r.is_empty());
                    return Poll::Ready(Err(this.unknown(why.unwrap_or_else(|| "closed".to_owned()))));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(this.unknown(error.to_string()))),
                None => return Poll::Ready(Err(this.unknown("cut off"))),
            }
        }
    }
}

impl<S> AsyncWrite for ExecStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(Pin::new(&mut this.socket).poll_ready(cx)).map_err(broken)?;
        let count = buf.len().min(WRITE_MAX);
        let mut message = Vec::with_capacity(count + 1);
        message.push(STDIN);
        message.extend_from_slice(&buf[..count]);
        Pin::new(&mut this.socket).start_send(Message::binary(message)).map_err(broken)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx).map_err(broken)
    }

    /// Closes stdin where the protocol can; reading goes on.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closed {
            ready!(Pin::new(&mut this.socket).poll_ready(cx)).map_err(broken)?;
            this.closed = true;
            let close =
                if this.can_close { Message::binary(vec![CLOSE, STDIN]) } else { Message::Close(None) };
            Pin::new(&mut this.socket).start_send(close).map_err(broken)?;
        }
        match ready!(Pin::new(&mut this.socket).poll_flush(cx)) {
            Err(tungstenite::Error::ConnectionClosed) => Poll::Ready(Ok(())),
            other => Poll::Ready(other.map_err(broken)),
        }
    }
}
