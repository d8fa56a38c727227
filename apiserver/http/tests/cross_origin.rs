//! Tests of requests that web pages of other origins send.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_http::{AuditFile, AuditLog, Connection, Settings};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use server::{Server, Setup};

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

/// The code and the message of the answer to a request from outside the process, without credentials.
async fn answer(server: &Server, version: Version, request: http::request::Builder) -> (u16, String) {
    let request = request.version(version).body(Full::new(Bytes::new())).unwrap();
    let answer = apiserver_http::handle(&server.server, request, &Connection::default()).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    (code, status["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_on_every_route_before_authentication() {
    let server = Server::start().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for path in [GADGETS, "/livez", "/version", "/apis", "/metrics", "/openapi/v2", "/nope"] {
            let form = Request::post(path)
                .header("content-type", "application/x-www-form-urlencoded")
                .header("host", "capstan:6443")
                .header("origin", "https://evil.example")
                .header("sec-fetch-site", "cross-site");
            let (code, message) = answer(&server, version, form).await;
            assert_eq!(code, 403, "{version:?} {path}");
            let expected =
                "forbidden: a web page of another origin sent this request (Sec-Fetch-Site: \"cross-site\")";
            assert!(message.starts_with(expected), "{version:?} {path}: {message}");
        }
    }
}

#[tokio::test]
async fn a_web_socket_of_another_origin_is_refused_and_navigation_is_not() {
    let server = Server::start().await;
    let watch = || {
        Request::get(format!("{GADGETS}?watch=true"))
            .header("host", "capstan:6443")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    let (code, message) =
        answer(&server, Version::HTTP_11, watch().header("origin", "https://evil.example")).await;
    assert!(code == 403 && message.contains("(Origin: \"https://evil.example\")"), "{code} {message}");
    // These are refused by authorization alone: they have no credentials.
    for own in [watch(), watch().header("origin", "https://capstan:6443")] {
        let (code, message) = answer(&server, Version::HTTP_11, own).await;
        assert!(
            code == 403 && message.contains("User \"system:anonymous\" cannot watch"),
            "{code} {message}"
        );
    }
    let navigation =
        Request::get("/livez").header("host", "capstan:6443").header("sec-fetch-site", "cross-site");
    assert_eq!(answer(&server, Version::HTTP_2, navigation).await.0, 200);
}

#[tokio::test]
async fn a_refused_page_is_in_the_audit_log() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = AuditLog::to_file(AuditFile::open(&file, 1_000_000, 1).unwrap(), Vec::new()).unwrap();
    let settings = Settings { audit: Some(audit.clone()), ..Settings::default() };
    let server = Server::start_with(Setup { settings, ..Setup::default() }).await;
    let form = Request::post(GADGETS).header("host", "capstan:6443").header("origin", "null");
    assert_eq!(answer(&server, Version::HTTP_2, form).await.0, 403);
    audit.flush();
    let events = std::fs::read_to_string(&file).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found: Vec<Value> = events.filter(|event| event["requestURI"] == GADGETS).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["responseStatus"]["code"], json!(403));
    let message = found[0]["responseStatus"]["message"].as_str().unwrap();
    assert!(message.contains("(Origin: \"null\")"), "{message}");
}
