//! What is no request of HTTP/1 at all is refused below us, by hyper, without a word. Upstream's HTTP
//! library says in the body what is in the status line, for whoever tries by hand.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How a refusal of hyper's own goes on after its status line. No answer of ours does.
const WORDLESS: &[u8] = b"\r\nconnection: close\r\ncontent-length: 0\r\n";

/// A connection on which refusals of what is no request have a body.
#[derive(Debug)]
pub(crate) struct Http1ErrorBody<S> {
    stream: S,
    /// What is to be written before anything else.
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

/// The same refusal with words; none for any other answer. Every write of a body passes here, too: what it begins
/// with decides, and nothing more of it is looked at.
fn worded(written: &[u8]) -> Option<Vec<u8>> {
    let status = written.strip_prefix(b"HTTP/1.1 ").or_else(|| written.strip_prefix(b"HTTP/1.0 "))?;
    if !matches!(status.get(..3), Some(b"400" | b"414" | b"431")) {
        return None;
    }
    let end = status.windows(2).position(|pair| pair == b"\r\n")?;
    let (words, rest) = status.split_at_checked(end)?;
    if !rest.starts_with(WORDLESS) {
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
        if let Some(refusal) = worded(bytes) {
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
        if let Some(refusal) = slices.first().and_then(|first| worded(first)) {
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
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What is answered to these bytes, by a server that has nothing to say to requests.
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
    async fn what_is_no_request_is_refused_in_words_and_what_is_one_is_not() {
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
