//! Tests of watches over a WebSocket, as browsers use them.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::time::Duration;

use serde_json::{Value, json};
use server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

/// The next frame: its kind and payload.
async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let reading = async {
        let kind = stream.read_u8().await.unwrap();
        let length = match stream.read_u8().await.unwrap() {
            126 => usize::from(stream.read_u16().await.unwrap()),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.unwrap();
        (kind, payload)
    };
    tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap()
}

async fn connect(server: &Server, query: &str) -> (TcpStream, String) {
    connect_with(server, query, "").await
}

async fn connect_with(server: &Server, query: &str, headers: &str) -> (TcpStream, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.clone().listen(listener));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {GADGETS}?watch=true{query} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn every_event_is_a_message_until_the_watch_ends() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let (mut stream, head) = connect(&server, "&timeoutSeconds=2").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    // Still there?
    stream.write_all(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i']).await.unwrap();
    server.post(GADGETS, &gadget("b")).await;
    let (mut names, mut answered) = (Vec::new(), false);
    loop {
        let (kind, payload) = frame(&mut stream).await;
        match kind {
            0x81 => {
                let event: Value = serde_json::from_slice(&payload).unwrap();
                names.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
            }
            0x8a => answered = payload == b"hi",
            0x88 => break,
            other => panic!("a frame of kind {other}"),
        }
    }
    assert_eq!((names, answered), (vec!["a".to_owned(), "b".to_owned()], true));
}

#[tokio::test]
async fn refusals_are_http_answers_and_a_client_may_close() {
    let server = Server::start().await;
    let (_, head) = connect(&server, "&resourceVersion=abc").await;
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    let (mut stream, head) = connect(&server, "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(frame(&mut stream).await.0, 0x88);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn the_requested_subprotocol_is_returned() {
    let server = Server::start().await;
    let head = async |headers: &str| connect_with(&server, "", headers).await.1.to_lowercase();
    let one = head("Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n").await;
    assert!(one.contains("\r\nsec-websocket-protocol: base64.binary.k8s.io\r\n"), "{one}");
    let none = head("").await;
    assert!(none.starts_with("http/1.1 101 ") && !none.contains("sec-websocket-protocol"), "{none}");
    let several = head("Sec-WebSocket-Protocol: a, b\r\n").await;
    assert!(several.starts_with("http/1.1 400 "), "{several}");
}
