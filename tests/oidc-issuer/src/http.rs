//! HTTP/1.1 with one request per connection.

use std::collections::HashMap;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Request.
#[derive(Debug, Default)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Fields of the query and of a form in the body.
    pub fields: HashMap<String, String>,
}

/// Response.
#[derive(Debug, Default)]
pub struct Response {
    pub(crate) code: u16,
    pub(crate) body: String,
    pub(crate) location: Option<String>,
    pub(crate) cache_control: Option<String>,
}

impl Response {
    /// Creates a response with JSON. A text is its own body.
    pub fn json(code: u16, body: &Value) -> Self {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        Self { code, body, ..Self::default() }
    }
}

pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    respond: impl FnOnce(&Request) -> Option<Response>,
) {
    let Some(request) = read(&mut stream).await else { return };
    let Some(response) = respond(&request) else { return };
    let optional = |name: &str, value: Option<String>| {
        value.map(|value| format!("{name}: {value}\r\n")).unwrap_or_default()
    };
    let text = format!(
        "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{}{}\r\n{}",
        response.code,
        response.body.len(),
        optional("Location", response.location),
        optional("Cache-Control", response.cache_control),
        response.body
    );
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            if body.len() >= length.unwrap_or(0_usize) {
                return Some(request(head, body));
            }
        }
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(part.get(..count)?);
    }
}

fn request(head: &str, body: &str) -> Request {
    let mut words = head.lines().next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = |text: &str| form_urlencoded::parse(text.as_bytes()).into_owned().collect::<Vec<_>>();
    let fields = pairs(query).into_iter().chain(pairs(body)).collect();
    Request { method, path: path.to_owned(), fields }
}
