//! Tests of the HTTP requests that the provider sends, and of its handling of responses and of missing ones.
#![allow(clippy::unwrap_used, reason = "a test panics; its helpers are no tests to clippy")]

mod endpoints;
mod stub;

use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use controllers_infrastructure::{
    CallPermit, CallScope, Cloud, CloudConnector, Credentials, ErrorClass, NewRouter, NewServer, PortQuery,
    RebootKind, TaggedKind,
};
use controllers_infrastructure_openstack::{AllowedEndpoints, CloudMetrics, OpenStackConnector};
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
async fn a_hundred_callers_share_one_login() {
    let stub = Stub::start().await;
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let credentials = stub.credentials();
    let all = futures::future::join_all((0..100).map(|_| connector.connect(&credentials))).await;
    assert!(all.into_iter().all(|cloud| cloud.is_ok_and(|cloud| cloud.region() == "R")));
    assert_eq!(stub.received(LOGIN).len(), 1);
    let other = Credentials { region: Some("R".into()), ..credentials };
    connector.connect(&other).await.unwrap();
    assert_eq!(stub.received(LOGIN).len(), 2, "other credentials, another session");
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

/// Manila's links to the next page lead to the first one again.
#[tokio::test]
async fn shares_are_listed_by_offset_until_a_page_has_no_new_ones() {
    const SHARES: &str = "GET /share/v2/p/shares/detail";
    let page = |ids: &[&str]| {
        let share = |id: &&str| format!(r#"{{"id":"{id}","name":null,"status":"available","size":2}}"#);
        let shares: Vec<String> = ids.iter().map(share).collect();
        let next = r#"[{"rel":"next","href":"http://x/v2/p/shares?limit=2&marker=b"}]"#;
        response(200, &format!(r#"{{"shares":[{}],"shares_links":{next}}}"#, shares.join(",")))
    };
    let (stub, cloud) = connected().await;
    // Another client created a share between the first two pages.
    for ids in [["a", "b"].as_slice(), &["b", "c"], &[]] {
        stub.enqueue(SHARES, page(ids));
    }
    let found = cloud.shares().await.unwrap();
    let ids: Vec<&str> = found.iter().map(|share| share.id.as_str()).collect();
    assert_eq!((ids, found[0].size_gib), (vec!["a", "b", "c"], 2));
    let received = stub.received(SHARES);
    let offsets: Vec<bool> = ["offset=0 ", "offset=2 ", "offset=3 "]
        .iter()
        .zip(&received)
        .map(|(offset, call)| call.line.contains(offset))
        .collect();
    assert_eq!(offsets, [true; 3], "{received:?}");
    assert!(received[0].headers.contains("x-openstack-manila-api-version: 2.37\r\n"), "{received:?}");

    // A service that knows no offsets.
    (0..2).for_each(|_| stub.enqueue(SHARES, page(&["a", "b"])));
    assert_eq!(cloud.shares().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_user_who_may_list_no_shares_sees_none_and_a_failure_is_an_error() {
    const SHARES: &str = "GET /share/v2/p/shares/detail";
    let (stub, cloud) = connected().await;
    let old = "Version 2.37 is not supported by the API. Minimum is 2.0 and maximum is 2.22.";
    let refusals = [
        (403, r#"{"forbidden":{"code":403,"message":"Access was denied to this resource."}}"#.to_owned()),
        (404, r#"{"itemNotFound":{"code":404,"message":"The resource could not be found."}}"#.to_owned()),
        (406, format!(r#"{{"computeFault":{{"code":406,"message":"{old}"}}}}"#)),
    ];
    for (status, body) in refusals {
        stub.enqueue(SHARES, response(status, &body));
        assert_eq!(cloud.shares().await.unwrap(), [], "{status}");
    }
    stub.enqueue(SHARES, response(500, r#"{"computeFault":{"code":500,"message":"bug"}}"#));
    let error = cloud.shares().await.unwrap_err();
    assert_eq!((error.class, error.service), (ErrorClass::Broken, Some("Manila")));
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
async fn failed_logins_have_different_classes() {
    let page = "<html><body>hello</body></html>";
    let table = [
        (
            LOGIN,
            response(401, r#"{"error":{"code":401,"message":"no","title":"Unauthorized"}}"#),
            ErrorClass::Unauthorized,
        ),
        (
            LOGIN,
            response(403, r#"{"error":{"code":403,"message":"locked","title":"Forbidden"}}"#),
            ErrorClass::Forbidden,
        ),
        (LOGIN, response(500, "oops"), ErrorClass::Broken),
        ("GET /identity/v3", response(200, page), ErrorClass::Broken),
        ("GET /identity/v3", response(502, page), ErrorClass::Broken),
    ];
    for (call, answer, class) in table {
        let stub = Stub::start().await;
        stub.enqueue(call, answer);
        let error = OpenStackConnector::new(AllowedEndpoints::with_loopback())
            .connect(&stub.credentials())
            .await
            .unwrap_err();
        assert_eq!(error.class, class, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn r4_7_a_service_the_cloud_does_not_have_is_named() {
    let (_stub, cloud) = connected().await;
    let error = cloud.volumes_named("x").await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Broken);
    assert!(error.message.contains(r#"no "block-storage" service"#), "{error}");
}

#[tokio::test]
async fn a_certificate_must_be_in_the_credentials_unless_verification_is_off() {
    let (stub, pem) = Stub::start_tls().await;
    let unknown = stub.credentials();
    let error =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&unknown).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unreachable);
    assert!(error.message.to_lowercase().contains("certificate"), "{error}");

    let known = Credentials { ca_certificate: Some(pem.clone()), ..unknown.clone() };
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&known).await.unwrap();

    let careless = unknown.clouds_yaml.replace("{stub: {", "{stub: {verify: false, ");
    let careless = Credentials { clouds_yaml: careless, ..unknown.clone() };
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&careless).await.unwrap();

    let path = unknown.clouds_yaml.replace("{stub: {", "{stub: {cacert: /etc/hosts, ");
    let path = Credentials { clouds_yaml: path, ..unknown.clone() };
    let error = OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&path).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Credentials, "a path of another machine: {error}");

    let garbage = Credentials { ca_certificate: Some(pem.replace("MII", "!!!")), ..unknown };
    let error =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&garbage).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Credentials, "{error}");
}

#[tokio::test]
async fn logins_with_a_token_and_with_a_named_application_credential_work() {
    let stub = Stub::start().await;
    let with = |auth: &str| {
        let mut credentials = stub.credentials();
        let (before, _) = credentials.clouds_yaml.split_once(", username").unwrap();
        credentials.clouds_yaml = format!("{before}, {auth}}}, region_name: R}}}}");
        credentials
    };
    OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&with("token: t0, project_id: p"))
        .await
        .unwrap();
    let body = stub.received(LOGIN).pop().unwrap().body;
    assert!(body.contains(r#""token":{"id":"t0"}"#) && body.contains(r#""project":{"id":"p"}"#), "{body}");

    let named = "application_credential_name: n, username: u, user_domain_name: d, project_name: p";
    let named = with(&format!("{named}, application_credential_secret: s"));
    stub.enqueue(LOGIN, response(201, r#"{"token":{"application_credential":{"id":"by-id"}}}"#));
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&named).await.unwrap();
    let [.., asked, logged_in] = &stub.received(LOGIN)[..] else { panic!("two calls") };
    assert!(asked.body.contains(r#""user":{"domain":{"name":"d"},"name":"u"}"#), "{}", asked.body);
    assert!(logged_in.body.contains(r#""id":"by-id""#) && !logged_in.body.contains("scope"));
}

#[tokio::test]
async fn r5_6_a_router_gets_its_gateway_with_the_call_that_creates_it() {
    const ROUTERS: &str = "POST /network/v2.0/routers";
    let (stub, cloud) = connected().await;
    let mut new =
        NewRouter { name: "r".into(), external_network_id: Some("public".into()), ..NewRouter::default() };
    stub.enqueue(ROUTERS, response(201, r#"{"router":{"id":"1","name":"r"}}"#));
    cloud.create_router(&new).await.unwrap();
    let body = stub.received(ROUTERS).remove(0).body;
    assert!(body.contains(r#""external_gateway_info":{"network_id":"public"}"#), "{body}");
    assert!(
        !body.contains("external_fixed_ips") && !body.contains("enable_snat"),
        "an administrator's: {body}"
    );

    new.external_ips = vec![("subnet".into(), Some("203.0.113.9".into()))];
    let rule = "(rule:create_router and rule:create_router:external_gateway_info:external_fixed_ips) is disallowed by \
                policy";
    let refusal =
        format!(r#"{{"NeutronError":{{"type":"PolicyNotAuthorized","message":"{rule}","detail":""}}}}"#);
    stub.enqueue(ROUTERS, response(403, &refusal));
    let error = cloud.create_router(&new).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Forbidden);
    assert!(error.message.contains("external_fixed_ips"), "{error}");
}

#[tokio::test]
async fn r16_the_gateway_of_a_router_is_replaced_and_a_refusal_keeps_the_words_of_the_cloud() {
    const ROUTER: &str = "PUT /network/v2.0/routers/r";
    const READ: &str = "GET /network/v2.0/routers/r";
    let (stub, cloud) = connected().await;
    let without = response(200, r#"{"router":{"id":"r","name":"r"}}"#);
    stub.enqueue(READ, without.clone());
    let answer = r#"{"router":{"id":"r","name":"r","external_gateway_info":{"network_id":"public",
        "external_fixed_ips":[{"subnet_id":"s","ip_address":"203.0.113.9"}]}}}"#;
    stub.enqueue(ROUTER, response(200, answer));
    let fixed = [("s".to_owned(), Some("203.0.113.9".to_owned()))];
    let router = cloud.set_router_gateway("r", "public", &fixed).await.unwrap();
    assert_eq!(router.external_fixed_ips, [("s".to_owned(), "203.0.113.9".to_owned())]);
    assert_eq!(router.external_ips, ["203.0.113.9"]);
    let body = stub.received(ROUTER).remove(0).body;
    for part in [r#""ip_address":"203.0.113.9""#, r#""subnet_id":"s""#, r#""network_id":"public""#] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!body.contains("enable_snat"), "an administrator's: {body}");

    let words = "Gateway cannot be updated for router r, since a gateway to external network public is required by one \
                 or more floating IPs.";
    let refusal = format!(
        r#"{{"NeutronError":{{"type":"RouterExternalGatewayInUseByFloatingIp","message":"{words}","detail":""}}}}"#
    );
    stub.enqueue(READ, without);
    stub.enqueue(ROUTER, response(409, &refusal));
    let error = cloud.set_router_gateway("r", "other", &[]).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    assert!(error.message.contains(words), "{error}");
    let body = stub.received(ROUTER).pop().unwrap().body;
    assert!(!body.contains("external_fixed_ips"), "an administrator's: {body}");
}

#[tokio::test]
async fn r16_a_new_gateway_keeps_snat_off_and_the_addresses_of_the_other_ip_version() {
    const ROUTER: &str = "PUT /network/v2.0/routers/r";
    let (stub, cloud) = connected().await;
    let wanted = |address: Option<&str>| [("s".to_owned(), address.map(str::to_owned))];
    let named = r#"{"ip_address":"203.0.113.9","subnet_id":"s"}"#;
    let both = format!(r#"[{named},{{"ip_address":"2001:db8::1","subnet_id":"v6"}}]"#);
    let any = r#"[{"subnet_id":"s"}]"#.to_owned();
    let table = [
        ("true", "public", wanted(Some("203.0.113.9")), both.clone()),
        ("false", "public", wanted(Some("203.0.113.9")), both),
        ("false", "other", wanted(Some("203.0.113.9")), format!("[{named}]")),
        ("false", "public", wanted(None), any),
    ];
    for (snat, network, wanted, fixed) in table {
        let known = format!(
            r#"{{"router":{{"id":"r","name":"r","external_gateway_info":{{"network_id":"public","enable_snat":{snat},
                "external_fixed_ips":[{{"subnet_id":"s","ip_address":"203.0.113.8"}},
                {{"subnet_id":"v6","ip_address":"2001:db8::1"}}]}}}}}}"#
        );
        stub.enqueue("GET /network/v2.0/routers/r", response(200, &known));
        stub.enqueue(ROUTER, response(200, &known));
        cloud.set_router_gateway("r", network, &wanted).await.unwrap();
        let body = stub.received(ROUTER).pop().unwrap().body;
        let sent: serde_json::Value = serde_json::from_str(&body).unwrap();
        let sent = &sent["router"]["external_gateway_info"];
        let fixed: serde_json::Value = serde_json::from_str(&fixed).unwrap();
        assert_eq!(sent["external_fixed_ips"], fixed, "{snat} {network}: {body}");
        let is_off = (snat == "false").then_some(false);
        assert_eq!(sent["enable_snat"].as_bool(), is_off, "{snat} {network}: {body}");
    }
}

#[tokio::test]
async fn r5_8_a_neutron_without_tags_is_not_asked_to_set_any() {
    let (stub, cloud) = connected().await;
    let added = ["red".to_owned(), "blue".to_owned()];
    stub.enqueue("GET /network/v2.0/extensions", response(200, r#"{"extensions":[{"alias":"trunk"}]}"#));
    cloud.change_tags(TaggedKind::Network, "1", &added, &[]).await.unwrap();
    assert!(stub.received("PUT ").is_empty());

    let (stub, cloud) = connected().await;
    let extensions = r#"{"extensions":[{"alias":"standard-attr-tag"}]}"#;
    stub.enqueue("GET /network/v2.0/extensions", response(200, extensions));
    for _ in &added {
        stub.enqueue("PUT /network/v2.0/networks/1/tags/", response(201, "null"));
    }
    let gone =
        r#"{"NeutronError":{"type":"TagNotFound","message":"Tag old could not be found.","detail":""}}"#;
    stub.enqueue("DELETE /network/v2.0/networks/1/tags/old", response(404, gone));
    cloud.change_tags(TaggedKind::Network, "1", &added, &["old".to_owned()]).await.unwrap();
    // Many are replaced with one call, together with those that other tools have.
    let many: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
    let (read, write) = ("GET /network/v2.0/networks/1/tags ", "PUT /network/v2.0/networks/1/tags ");
    stub.enqueue(read, response(200, r#"{"tags":["foreign","old"]}"#));
    stub.enqueue(write, response(200, r#"{"tags":[]}"#));
    cloud.change_tags(TaggedKind::Network, "1", &many, &["old".to_owned()]).await.unwrap();
    let sent = stub.received(write).remove(0).body;
    assert!(sent.contains("foreign") && sent.contains("t5") && !sent.contains("old"), "{sent}");
}

#[tokio::test]
async fn the_credentials_of_a_trustee_lead_to_the_project_of_the_trust() {
    let stub = Stub::start().await;
    let yaml = stub.credentials().clouds_yaml.replace("username: u,", "username: u, trust_id: t,");
    let credentials = Credentials { clouds_yaml: yaml, ..stub.credentials() };
    let cloud =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&credentials).await.unwrap();
    let body = stub.received(LOGIN).remove(0).body;
    assert!(body.contains(r#""scope":{"OS-TRUST:trust":{"id":"t"}}"#), "{body}");
    assert_eq!((cloud.region(), cloud.project()), ("R", "p"));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert!(stub.received(SERVERS).remove(0).headers.contains("x-auth-token: secret-token"));
    // A token that ended is no reason for a login without the trust.
    stub.enqueue(SERVERS, response(401, r#"{"error":{"code":401,"message":"no"}}"#));
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    assert_eq!(stub.received(LOGIN).len(), 1);
}

/// Permit that counts the calls that wait for it, and grants the first `limit` of them.
#[derive(Debug, Default)]
struct Permits {
    granted: AtomicUsize,
    limit: usize,
}

#[async_trait::async_trait]
impl CallPermit for Permits {
    async fn granted(&self) {
        if self.granted.fetch_add(1, Ordering::SeqCst) >= self.limit {
            std::future::pending().await
        }
    }
}

#[tokio::test]
async fn a_call_that_changes_something_waits_for_the_permit_and_a_read_does_not() {
    let stub = Stub::start().await;
    let permits = Arc::new(Permits { limit: 1, ..Permits::default() });
    let permit: Arc<dyn CallPermit> = permits.clone();
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = CloudMetrics::registered(&mut registry);
    let connector =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).with_permit(permit).with_metrics(metrics);
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert_eq!(permits.granted.load(Ordering::SeqCst), 0);
    stub.enqueue("POST /compute/v2.1/servers/s/action", response(202, ""));
    let reboot = || cloud.reboot_server("s", RebootKind::Hard);
    reboot().await.unwrap();
    // The process is no longer the leader: the call is not sent, and there is no error to report.
    assert!(tokio::time::timeout(Duration::from_millis(200), reboot()).await.is_err());
    assert_eq!(permits.granted.load(Ordering::SeqCst), 2);
    assert_eq!(stub.received("POST /compute/v2.1/servers/s/action").len(), 1);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for recorded in [
        r#"capstan_cloud_requests_total{service="Nova",method="POST",code="202"} 1"#,
        r#"capstan_cloud_permits_total{result="granted"} 1"#,
        r#"capstan_cloud_permits_total{result="refused"} 1"#,
        r#"capstan_cloud_gate_limit{service="Nova"} 16"#,
    ] {
        assert!(text.contains(recorded), "{recorded}: {text}");
    }
}

#[tokio::test]
async fn hv_02_a_call_of_a_pass_that_changes_something_has_a_global_request_id() {
    const ACTION: &str = "POST /compute/v2.1/servers/s/action";
    const HEADER: &str = "x-openstack-request-id: req-";
    let (stub, cloud) = connected().await;
    (0..3).for_each(|_| stub.enqueue(ACTION, response(202, "")));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    let scope = CallScope::new("u1");
    let pass = async {
        cloud.servers().await.unwrap();
        cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
        cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
    };
    scope.around(pass).await;
    assert!(!scope.has_open_calls());
    assert!(!stub.received(SERVERS).remove(0).headers.contains(HEADER), "a read");
    let id = |call: &stub::ReceivedCall| {
        let line = call.headers.lines().find_map(|line| line.strip_prefix(HEADER));
        line.map(str::to_owned)
    };
    let ids: Vec<String> = stub.received(ACTION).iter().filter_map(id).collect();
    let [first, second] = &ids[..] else { panic!("{ids:?}") };
    assert!(first.len() == 36 && first != second, "{ids:?}");
    cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
    assert_eq!(id(&stub.received(ACTION)[2]), None, "outside of a pass");
}

#[tokio::test]
async fn hv_05_a_pass_that_ends_sends_no_further_call_that_changes_something() {
    const ACTION: &str = "POST /compute/v2.1/servers/s/action";
    let (stub, cloud) = connected().await;
    let scope = CallScope::new("u1");
    scope.close();
    let reboot = scope.around(cloud.reboot_server("s", RebootKind::Hard));
    assert!(tokio::time::timeout(Duration::from_millis(200), reboot).await.is_err());
    assert!(stub.received(ACTION).is_empty() && !scope.has_open_calls());
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
