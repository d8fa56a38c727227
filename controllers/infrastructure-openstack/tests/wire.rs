//! Tests of the HTTP requests that the provider sends, and of its handling of responses and of missing ones.
#![allow(clippy::unwrap_used, reason = "a test panics; its helpers are no tests to clippy")]

mod endpoints;
mod logins;
mod network;
mod passes;
mod shares;
mod stub;

use std::{sync::Arc, time::Duration};

use controllers_infrastructure::{Cloud, CloudConnector, ErrorClass, NewServer, PortQuery, RebootKind};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use stub::{Answer, Stub};

const SERVERS: &str = "GET /compute/v2.1/servers/detail";
const CREATE: &str = "POST /compute/v2.1/servers";
const LOGIN: &str = "POST /identity/v3/auth/tokens";

async fn connected() -> (Stub, Arc<dyn Cloud>) {
    let stub = Stub::start().await;
    let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&stub.credentials())
        .await
        .unwrap();
    (stub, cloud)
}

fn response(status: u16, body: &str) -> Answer {
    Answer::Respond(status, "", body.to_owned())
}

fn server(id: &str) -> String {
    format!(r#"{{"id":"{id}","name":"m","status":"ACTIVE","created":"2026-01-01T00:00:00Z"}}"#)
}

#[tokio::test]
async fn the_newest_common_microversion_of_nova_is_used() {
    let (stub, cloud) = connected().await;
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    let received = stub.received(SERVERS).remove(0);
    assert!(received.headers.contains("openstack-api-version: compute 2.79\r\n"), "{}", received.headers);
    assert!(received.headers.contains("x-auth-token: secret-token\r\n"));
    assert_eq!(stub.received("GET /compute/v2.1/ ").len(), 1);
}

#[tokio::test]
async fn a_nova_that_is_too_old_is_an_error() {
    let (stub, cloud) = connected().await;
    stub.enqueue("GET /compute/v2.1/ ", response(200, r#"{"version":{"version":"2.42"}}"#));
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::TooOld);
    assert!(error.message.contains("2.42, and Capstan needs 2.58"), "{error}");
}

#[tokio::test]
async fn a_version_of_octavia_that_was_not_read_says_nothing_about_its_attributes() {
    const VERSIONS: &str = "GET /load-balancer/ ";
    let of = async |answers: Vec<Answer>| {
        let (stub, cloud) = connected().await;
        answers.into_iter().for_each(|answer| stub.enqueue(VERSIONS, answer));
        let found = cloud.load_balancer_limits().await;
        found.map(|it| (it.lacks_tags, it.lacks_allowed_cidrs)).map_err(|error| error.class)
    };
    let old = || response(200, r#"{"versions":[{"id":"v2.4"},{"id":"v2.0"}]}"#);
    assert_eq!(of(vec![old()]).await, Ok((true, true)));
    assert_eq!(of(vec![response(200, r#"{"versions":[{"id":"v2.26"}]}"#)]).await, Ok((false, false)));
    // Some clouds do not show the versions. The others fail for a time.
    assert_eq!(of(vec![response(404, "{}")]).await, Ok((false, false)));
    let (stub, cloud) = connected().await;
    stub.enqueue(VERSIONS, response(503, "{}"));
    assert!(cloud.load_balancer_limits().await.is_err());
    stub.enqueue(VERSIONS, old());
    assert!(cloud.load_balancer_limits().await.unwrap().lacks_tags, "the next call reads again");
}

#[tokio::test]
async fn every_page_is_read() {
    let (stub, cloud) = connected().await;
    let page = |id: &str, next: &str| {
        let links = format!(r#"[{{"rel":"next","href":"http://unknown.example/servers/detail?{next}"}}]"#);
        response(200, &format!(r#"{{"servers":[{}],"servers_links":{links}}}"#, server(id)))
    };
    stub.enqueue(SERVERS, page("1", "marker=1"));
    stub.enqueue("GET /compute/v2.1/servers/detail?marker=1", page("2", "marker=2"));
    stub.enqueue("GET /compute/v2.1/servers/detail?marker=2", response(200, r#"{"servers":[]}"#));
    let ids: Vec<_> = cloud.servers().await.unwrap().into_iter().map(|server| server.id).collect();
    assert_eq!(ids, ["1", "2"]);
}

#[tokio::test]
async fn an_expired_token_is_renewed_and_the_call_repeated() {
    let (stub, cloud) = connected().await;
    let refusal = r#"{"error":{"code":401,"message":"The request you have made requires authentication."}}"#;
    stub.enqueue(SERVERS, response(401, refusal));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert_eq!(stub.received(SERVERS).len(), 2);
    assert!(stub.received(LOGIN).len() > 1);
}

#[tokio::test]
async fn a_session_that_stays_unauthorized_is_replaced() {
    let stub = Stub::start().await;
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    for _ in 0..4 {
        stub.enqueue(SERVERS, response(401, r#"{"error":{"message":"no"}}"#));
    }
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    let fresh = connector.connect(&stub.credentials()).await.unwrap();
    assert!(!Arc::ptr_eq(&cloud, &fresh));
}

#[tokio::test]
async fn a_create_on_a_closed_connection_has_an_unknown_outcome_and_is_not_retried() {
    let (stub, cloud) = connected().await;
    stub.enqueue(CREATE, Answer::Disconnect);
    let error = cloud.create_server(&NewServer::default()).await.unwrap_err();
    assert_eq!((error.class, error.operation.as_str()), (ErrorClass::Unknown, "POST /servers"));
    assert_eq!(stub.received(CREATE).len(), 1);
}

#[tokio::test]
async fn a_read_on_a_closed_connection_is_retried() {
    let (stub, cloud) = connected().await;
    stub.enqueue(SERVERS, Answer::Disconnect);
    stub.enqueue(SERVERS, response(502, "<html><body><h1>502 Bad Gateway</h1></body></html>"));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert_eq!(stub.received(SERVERS).len(), 3);
}

#[tokio::test]
async fn too_many_requests_is_reported_and_retry_after_is_respected() {
    let (stub, cloud) = connected().await;
    stub.enqueue("GET /network/v2.0/ports", Answer::Respond(429, "retry-after: 1\r\n", String::new()));
    stub.enqueue("GET /network/v2.0/ports", response(200, r#"{"ports":[]}"#));
    let error = cloud.ports(&PortQuery::default()).await.unwrap_err();
    assert_eq!((error.class, error.retry_after), (ErrorClass::Throttled, Some(Duration::from_secs(1))));
    let started = tokio::time::Instant::now();
    cloud.ports(&PortQuery::default()).await.unwrap();
    assert!(started.elapsed() > Duration::from_millis(800), "the cloud wished for a second of silence");
}

#[tokio::test]
async fn responses_that_are_not_from_the_api_have_class_broken() {
    let (stub, cloud) = connected().await;
    for body in ["<html>hello</html>", r#"{"servers":"none"}"#, r#"{"other":[]}"#, ""] {
        stub.enqueue(SERVERS, response(200, body));
        let error = cloud.servers().await.unwrap_err();
        assert_eq!((error.class, error.status), (ErrorClass::Broken, Some(200)), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_reboot_returns_the_request_id_of_its_call() {
    let (stub, cloud) = connected().await;
    stub.enqueue("POST /compute/v2.1/servers/1/action", Answer::Respond(202, "", String::new()));
    let id = cloud.reboot_server("1", RebootKind::Hard).await.unwrap();
    assert_eq!(id.as_deref(), Some("req-stub"));
    let received = stub.received("POST /compute/v2.1/servers/1/action").remove(0);
    assert_eq!(received.body, r#"{"reboot":{"type":"HARD"}}"#);
}

#[tokio::test]
async fn r4_7_a_service_the_cloud_does_not_have_is_named() {
    let (_stub, cloud) = connected().await;
    let error = cloud.volumes_named("x").await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Broken);
    assert!(error.message.contains(r#"no "block-storage" service"#), "{error}");
}

#[tokio::test]
async fn r13_2_a_nova_whose_flavors_lack_extra_specs_shows_those_of_one_flavor() {
    let (stub, cloud) = connected().await;
    assert!(cloud.flavor_extra_specs("f").await.unwrap().is_empty(), "2.79: the list of flavors has them");
    let (old, cloud) = connected().await;
    old.enqueue("GET /compute/v2.1/ ", response(200, r#"{"version":{"version":"2.60"}}"#));
    let call = "GET /compute/v2.1/flavors/f/os-extra_specs";
    old.enqueue(call, response(200, r#"{"extra_specs":{"resources:VGPU":"1"}}"#));
    let found = cloud.flavor_extra_specs("f").await.unwrap();
    assert_eq!(found["resources:VGPU"], "1");
    assert_eq!((old.received(call).len(), stub.received(call).len()), (1, 0));
}
