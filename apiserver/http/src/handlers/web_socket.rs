//! Watch over a WebSocket (RFC 6455), for browsers: each event is one text message.
//!
//! Of the client's frames only pings and the close matter; other frames are read and discarded.

use apiserver_executor::{spawn_detached, spawn_joined};
use apiserver_machinery::status::{ApiError, ApiResult};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::idle_release::LONGEST_IDLE;
use crate::response::HttpResponse;
use crate::response::body::{Events, ResponseBody};
use crate::response::encoding::Encoding;

/// GUID that the protocol appends to the key.
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Frame types of RFC 6455, section 5.2. All frames of the server are whole messages.
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const WHOLE: u8 = 0x80;

/// Length prefix of an event in protobuf. Unit: bytes.
const LENGTH: usize = 4;

/// Code of a normal close.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// Largest payload of a control frame. Unit: bytes.
const LARGEST_CONTROL: u64 = 125;

/// Returns the key of a WebSocket handshake.
pub(super) fn key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let says = |name, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    let wanted =
        says(CONNECTION, "upgrade") && says(UPGRADE, "websocket") && says(SEC_WEBSOCKET_VERSION, "13");
    headers.get(SEC_WEBSOCKET_KEY).filter(|_| wanted)
}

/// Returns the subprotocol that the client has named; `None` if it has not. The server treats all alike, but a browser
/// closes the connection if the response does not repeat it.
///
/// # Errors
/// 400 if the client names several, as upstream.
pub(super) fn protocol(headers: &HeaderMap) -> ApiResult<Option<HeaderValue>> {
    let named = headers.get(SEC_WEBSOCKET_PROTOCOL).map(HeaderValue::as_bytes).unwrap_or_default();
    let named = named.trim_ascii();
    if named.contains(&b',') {
        return Err(ApiError::bad_request("name one Sec-WebSocket-Protocol, not several"));
    }
    Ok(Some(named).filter(|named| !named.is_empty()).and_then(|named| HeaderValue::from_bytes(named).ok()))
}

/// Responds to the handshake, and sends `events` once the connection is a WebSocket.
pub(super) fn answer(
    key: &HeaderValue,
    protocol: Option<HeaderValue>,
    upgrade: OnUpgrade,
    events: Events,
    encoding: Encoding,
) -> HttpResponse {
    spawn_detached("web socket", async move {
        match upgrade.await {
            Ok(upgraded) => serve(upgraded, events, encoding).await,
            Err(error) => tracing::debug!(%error, "cannot upgrade a connection to a WebSocket"),
        }
    });
    let mut answer = Response::new(ResponseBody::full(Bytes::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept(key.as_bytes())) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    answer
}

fn accept(key: &[u8]) -> String {
    let salted = [key, SALT.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted))
}

async fn serve(upgraded: Upgraded, mut events: Events, encoding: Encoding) {
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
    let (received, mut frames) = mpsc::channel(1);
    let reading = async move {
        while let Some((kind, payload)) = read_frame(&mut from).await {
            if received.send((kind, payload)).await.is_err() || kind == CLOSE {
                return;
            }
        }
    };
    let sending_all = async {
        loop {
            let sent = tokio::select! {
                event = events.next() => match event {
                    Some(event) => in_time(send_event(&mut to, &event, encoding)).await,
                    None => break,
                },
                received = frames.recv() => match received {
                    Some((PING, payload)) => in_time(send(&mut to, PONG, &payload)).await,
                    Some((CLOSE, _)) | None => break,
                    Some(_) => Ok(()),
                },
            };
            if sent.is_err() {
                return;
            }
        }
        let _ = in_time(send(&mut to, CLOSE, &NORMAL)).await;
        let _ = to.shutdown().await;
    };
    let _reading = AbortOnDropHandle::new(spawn_joined(reading));
    sending_all.await;
}

/// Limits the time of a write: a client that reads nothing for so long is disconnected.
async fn in_time(sending: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::time::timeout(LONGEST_IDLE, sending).await?
}

/// Sends an event. An event in protobuf has a length prefix, which a message does not need.
async fn send_event(
    to: &mut (impl AsyncWrite + Unpin),
    event: &[u8],
    encoding: Encoding,
) -> std::io::Result<()> {
    match encoding {
        Encoding::Protobuf => send(to, BINARY, event.get(LENGTH..).unwrap_or_default()).await,
        Encoding::Json | Encoding::PrettyJson | Encoding::Yaml => send(to, TEXT, event).await,
    }
}

/// Writes one frame. WatchEncoder of a server are not masked.
async fn send(to: &mut (impl AsyncWrite + Unpin), kind: u8, payload: &[u8]) -> std::io::Result<()> {
    let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
    let mut head = vec![WHOLE | kind];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if length <= LARGEST_CONTROL => head.push(short),
        (_, Ok(medium)) => {
            head.push(126);
            head.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&length.to_be_bytes());
        }
    }
    to.write_all(&head).await?;
    to.write_all(payload).await?;
    to.flush().await
}

/// Reads the next frame: its type, and the payload of a control frame. `None` if the client has closed the connection
/// or violates the protocol.
async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let (kind, second) = (from.read_u8().await.ok()? & 0x0f, from.read_u8().await.ok()?);
    let length = match second & 0x7f {
        126 => u64::from(from.read_u16().await.ok()?),
        127 => from.read_u64().await.ok()?,
        short => u64::from(short),
    };
    if second & 0x80 == 0 {
        // WatchEncoder of a client must be masked.
        return None;
    }
    let mut mask = [0; 4];
    from.read_exact(&mut mask).await.ok()?;
    if kind < CLOSE {
        tokio::io::copy(&mut from.take(length), &mut tokio::io::sink()).await.ok()?;
        return Some((kind, Vec::new()));
    }
    if length > LARGEST_CONTROL {
        return None;
    }
    let mut payload = vec![0; usize::try_from(length).ok()?];
    from.read_exact(&mut payload).await.ok()?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_matches_the_example_of_the_rfc() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn frames_of_any_length_are_encoded_as_the_rfc_requires() {
        for (length, head) in [
            (5, vec![0x81, 5]),
            (300, vec![0x81, 126, 1, 44]),
            (70_000, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 17, 112]),
        ] {
            let mut written = Vec::new();
            send(&mut written, TEXT, &vec![b'x'; length]).await.unwrap();
            assert_eq!((&written[..head.len()], written.len()), (head.as_slice(), head.len() + length));
        }
    }

    #[tokio::test]
    async fn protobuf_is_sent_in_binary_frames_without_a_length_prefix() {
        let mut written = Vec::new();
        send_event(&mut written, &[0, 0, 0, 2, 7, 8], Encoding::Protobuf).await.unwrap();
        assert_eq!(written, [0x82, 2, 7, 8]);
    }

    #[tokio::test]
    async fn client_frames_are_parsed_or_refused() {
        let masked = |kind: u8, payload: &[u8]| {
            let mask = [1, 2, 3, 4];
            let hidden = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
            let length = u8::try_from(payload.len()).unwrap();
            [vec![WHOLE | kind, 0x80 | length], mask.to_vec(), hidden.collect()].concat()
        };
        let received = [masked(TEXT, b"hello"), masked(PING, b"there?"), masked(CLOSE, b"")].concat();
        let mut from = received.as_slice();
        assert_eq!(read_frame(&mut from).await, Some((TEXT, Vec::new())));
        assert_eq!(read_frame(&mut from).await, Some((PING, b"there?".to_vec())));
        assert_eq!(read_frame(&mut from).await, Some((CLOSE, Vec::new())));
        assert_eq!(read_frame(&mut from).await, None);
        for broken in [vec![0x81, 1, b'x'], vec![0x89, 0xfe, 0xff, 0xff, 0, 0, 0, 0], vec![0x81]] {
            assert_eq!(read_frame(&mut broken.as_slice()).await, None, "{broken:?}");
        }
    }
}
