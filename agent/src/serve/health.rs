//! The health port: plain HTTP, 200 to whoever asks, as long as this process goes round its loop. Reads a bounded request,
//! says one thing, closes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// For one request.
const BOUND: Duration = Duration::from_secs(5);
const REQUEST_MAX: usize = 4096;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";

/// Answers for ever.
pub async fn answer(listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(tokio::time::timeout(BOUND, answer_one(stream)));
            }
            // No descriptor is left, for instance: the next may have one.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer_one(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 512];
    while request.len() < REQUEST_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
    // A prober that is gone has its answer by that.
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
}
