//! Bodies for HTTP/1 error responses of hyper: it refuses a malformed request below the chain, without a body.
//! Upstream's HTTP library repeats the status line in the body, for people who test by hand.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Headers after the status line of a refusal by hyper. No response of this server has them.
const WITHOUT_BODY: &[u8] = b"\r\nconnection: close\r\ncontent-length: 0\r\n";

/// Connection that adds a body to hyper's refusals.
#[derive(Debug)]
pub(crate) struct Http1ErrorBody<S> {
    stream: S,
    /// Rest of a refusal, to be written before anything else.
    refusal: Vec<u8>,
}

impl<S: AsyncWrite + Unpin> Http1ErrorBody<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, refusal: Vec::new() }
    }

    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.refusal))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the same refusal with a body; `None` for any other response. Every write of a response body passes here
/// too, and only its first bytes are compared.
fn with_body(written: &[u8]) -> Option<Vec<u8>> {
    let status = written.strip_prefix(b"HTTP/1.1 ").or_else(|| written.strip_prefix(b"HTTP/1.0 "))?;
    if !matches!(status.get(..3), Some(b"400" | b"414" | b"431")) {
        return None;
    }
    let end = status.windows(2).position(|pair| pair == b"\r\n")?;
    let (words, rest) = status.split_at_checked(end)?;
    if !rest.starts_with(WITHOUT_BODY) {
        return None;
    }
    let head = b"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n";
    Some([b"HTTP/1.1 ", words, head, words].concat())
}

impl<S: AsyncRead + Unpin> AsyncRead for Http1ErrorBody<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Http1ErrorBody<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_refusal(context))?;
        if let Some(refusal) = with_body(bytes) {
            self.refusal = refusal;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_refusal(context))?;
        if let Some(refusal) = slices.first().and_then(|first| with_body(first)) {
            self.refusal = refusal;
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends these bytes to a server without routes, and returns the response.
    async fn answer(sent: &str) -> String {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let service = service_fn(async |request: Request<hyper::body::Incoming>| {
            assert_eq!(request.uri().path(), "/");
            let answer =
                Response::builder().status(400).header("audit-id", "a").header("connection", "close");
            answer.body(Empty::<Bytes>::new())
        });
        let mut builder = http1::Builder::new();
        builder.max_headers(2);
        let serving = builder.serve_connection(TokioIo::new(Http1ErrorBody::new(server)), service);
        let serving = tokio::spawn(serving);
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        drop(serving.await.unwrap());
        heard
    }

    #[tokio::test]
    async fn malformed_requests_get_a_text_body_and_valid_ones_do_not() {
        let refusal = |words: &str| {
            format!(
                "HTTP/1.1 {words}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{words}"
            )
        };
        let table = [
            ("GARBAGE\r\n\r\n".to_owned(), "400 Bad Request"),
            ("GET / HTTP/1.1\r\nno header\r\n\r\n".to_owned(), "400 Bad Request"),
            ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_owned(), "400 Bad Request"),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000)), "414 URI Too Long"),
            (
                "GET / HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\n\r\n".to_owned(),
                "431 Request Header Fields Too Large",
            ),
        ];
        for (sent, words) in table {
            assert_eq!(answer(&sent).await, refusal(words), "{:.40}", sent);
        }
        let own = answer("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(own.starts_with("HTTP/1.1 400") && own.ends_with("\r\n\r\n"), "{own}");
    }
}
