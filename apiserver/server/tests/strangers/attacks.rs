//! Attacks: each is tried again and again, by several clients at once.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::frames;
use crate::target::{Kind, Target};

/// Time for which a slow client holds a connection.
const HOLD: Duration = Duration::from_secs(1);

/// Longest time until the server has closed a hostile connection.
const CLOSED: Duration = Duration::from_secs(10);

/// Largest number of hostile frames on one connection.
const FRAMES: u32 = 1000;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Number of clients.
    pub(crate) clients: usize,
    /// Pause of a client between two tries. Loopback has no budget of handshakes. All attacks together begin at most 200 in
    /// a second, as many as the budget of one address.
    pub(crate) pause: Duration,
    /// Tries once. Returns true if the server has behaved as it should.
    pub(crate) attempt: for<'a> fn(&'a Target) -> BoxFuture<'a, bool>,
}

/// Returns all attacks.
pub(crate) fn all() -> Vec<Attack> {
    let of = |name, clients, milliseconds, attempt| Attack {
        name,
        clients,
        pause: Duration::from_millis(milliseconds),
        attempt,
    };
    vec![
        of("handshakes without a certificate", 4, 100, |target| Box::pin(handshake(target))),
        of("begun handshakes", 100, 0, |target| Box::pin(begun_handshake(target))),
        of("slow headers", 50, 0, |target| Box::pin(slow_headers(target))),
        of("anonymous requests over HTTP/2", 4, 100, |target| Box::pin(anonymous(target))),
        of("invented tokens", 2, 100, |target| Box::pin(invented_token(target))),
        of("CONTINUATION without an end", 2, 200, |target| Box::pin(continuations(target, 100))),
        of("empty CONTINUATION without an end", 2, 200, |target| Box::pin(continuations(target, 0))),
        of("rapid resets", 2, 200, |target| Box::pin(resets(target))),
        of("huge certificates", 1, 200, |target| Box::pin(certificate(target, Kind::HugeCertificate))),
        of("huge chains of certificates", 1, 200, |target| Box::pin(certificate(target, Kind::HugeChain))),
    ]
}

async fn handshake(target: &Target) -> bool {
    target.tls(Kind::Http2).await.is_some()
}

/// Sends the begin of a handshake, and no more.
async fn begun_handshake(target: &Target) -> bool {
    let Some(mut stream) = target.tcp().await else { return false };
    let sent = stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
    tokio::time::sleep(HOLD).await;
    sent.is_ok()
}

async fn slow_headers(target: &Target) -> bool {
    let Some(mut stream) = target.tls(Kind::Http1).await else { return false };
    let mut sent = stream.write_all(b"GET /api HTTP/1.1\r\nhost: a\r\n").await;
    for _ in 0..6 {
        tokio::time::sleep(HOLD / 6).await;
        sent = sent.and(stream.write_all(b"x-a: b\r\n").await);
    }
    sent.is_ok()
}

/// Sends a request in HTTP/1.1. Returns the begin of the response.
async fn exchange(target: &Target, kind: Kind, headers: &str) -> Option<String> {
    let mut stream = target.tls(kind).await?;
    let request = format!("GET /api/v1/secrets HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = Vec::new();
    tokio::time::timeout(CLOSED, stream.read_to_end(&mut response)).await.ok()?.ok();
    Some(String::from_utf8_lossy(&response).into_owned())
}

async fn invented_token(target: &Target) -> bool {
    let token = format!("authorization: Bearer {}\r\n", uuid::Uuid::new_v4());
    exchange(target, Kind::Http1, &token).await.is_some_and(|it| it.starts_with("HTTP/1.1 401"))
}

/// Shows a certificate of no CA. The server refuses it in the handshake, or with 401.
async fn certificate(target: &Target, kind: Kind) -> bool {
    exchange(target, kind, "").await.is_none_or(|it| it.is_empty() || it.starts_with("HTTP/1.1 401"))
}

/// Writes frames until the server closes the connection. Returns true if it does.
async fn until_closed(target: &Target, frame: impl Fn(u32) -> Vec<u8> + Send) -> bool {
    let Some(stream) = target.tls(Kind::Http2).await else { return false };
    let (reader, mut writer) = tokio::io::split(stream);
    let writing = async {
        let mut sent = writer.write_all(&frames::begin()).await;
        for number in 0..FRAMES {
            if sent.is_err() {
                return;
            }
            sent = writer.write_all(&frame(number)).await;
        }
        let _ = writer.flush().await;
    };
    let both = async { tokio::join!(writing, read(reader)) };
    tokio::time::timeout(CLOSED, both).await.is_ok()
}

/// Reads until the end of a connection.
async fn read(mut reader: impl AsyncRead + Unpin) {
    let mut buffer = [0; 4096];
    while matches!(reader.read(&mut buffer).await, Ok(read) if read > 0) {}
}

async fn continuations(target: &Target, fields: usize) -> bool {
    let more = frames::continuation(1, fields);
    until_closed(target, |number| if number == 0 { frames::open_request(1) } else { more.clone() }).await
}

async fn resets(target: &Target) -> bool {
    until_closed(target, |number| {
        let stream = 2 * number + 1;
        [frames::request(stream), frames::reset(stream)].concat()
    })
    .await
}

/// Sends one request over HTTP/2, and reads until the server closes the connection.
async fn anonymous(target: &Target) -> bool {
    let Some(mut stream) = target.tls(Kind::Http2).await else { return false };
    if send(&mut stream).await.is_err() {
        return false;
    }
    tokio::time::timeout(CLOSED, read(stream)).await.is_ok()
}

async fn send(stream: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.write_all(&[frames::begin(), frames::request(1)].concat()).await?;
    stream.flush().await
}
