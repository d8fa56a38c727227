//! Frames of the WebSocket protocol, as far as a port-forward needs them.

use base64::Engine;
use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Text that RFC 6455 appends to the client's key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Largest frame that is read.
const FRAME_LIMIT: u64 = 16 << 20;

/// Kinds of frames, by their opcode.
const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Returns the value of `Sec-WebSocket-Accept` for the client's key.
pub(crate) fn accept(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    );
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// Event on a connection.
#[derive(Debug)]
pub(crate) enum Received {
    Binary(Bytes),
    Ping(Bytes),
    Close,
    /// A frame without meaning for a port-forward.
    Other,
}

/// Reads one message. It is not cancel safe: the rest of a frame would be lost.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Received> {
    let mut message = BytesMut::new();
    let mut kind = None;
    loop {
        let (last, opcode, payload) = read_frame(stream).await?;
        match opcode {
            CLOSE => return Ok(Received::Close),
            PING => return Ok(Received::Ping(payload)),
            PONG => return Ok(Received::Other),
            CONTINUATION => {}
            other => kind = Some(other),
        }
        message.put_slice(&payload);
        if last {
            let binary = kind == Some(BINARY);
            return Ok(if binary { Received::Binary(message.freeze()) } else { Received::Other });
        }
    }
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(bool, u8, Bytes)> {
    let first = stream.read_u8().await?;
    let second = stream.read_u8().await?;
    let length = match second & 0x7f {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    if length > FRAME_LIMIT {
        return Err(std::io::Error::other(format!("a frame of {length} bytes is too large")));
    }
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut payload).await?;
    for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    Ok((first & 0x80 != 0, first & 0x0f, Bytes::from(payload)))
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), opcode: u8, parts: &[&[u8]]) -> std::io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = BytesMut::with_capacity(length + 10);
    frame.put_u8(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.put_u8(short),
        (_, Ok(medium)) => {
            frame.put_u8(126);
            frame.put_u16(medium);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(u64::try_from(length).unwrap_or(u64::MAX));
        }
    }
    for part in parts {
        frame.put_slice(part);
    }
    stream.write_all(&frame).await?;
    stream.flush().await
}

/// Writes a binary message on a channel.
pub(crate) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    channel: u8,
    payload: &[u8],
) -> std::io::Result<()> {
    write(stream, BINARY, &[&[channel], payload]).await
}

/// Answers a ping.
pub(crate) async fn pong(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> std::io::Result<()> {
    write(stream, PONG, &[payload]).await
}

/// Announces the end of the connection.
pub(crate) async fn close(stream: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    write(stream, CLOSE, &[&1000_u16.to_be_bytes()]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_value_is_that_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn messages_of_all_sizes_arrive() {
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        for size in [0, 1, 124, 125, 126, 70_000] {
            send(&mut near, 3, &vec![7; size]).await.unwrap();
            let Received::Binary(message) = read(&mut far).await.unwrap() else { panic!("a message") };
            assert_eq!((message[0], message.len()), (3, size + 1));
        }
    }
}
