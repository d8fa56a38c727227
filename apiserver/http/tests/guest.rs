//! Tests of the server under load, at shutdown, and after timeouts, panics and disconnects.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::{Attributes, Authorizer, Decision, User, Verdict};
use apiserver_http::{AuditFile, AuditLog, Check, Connection, Settings};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::NamespaceSource;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Empty};
use serde_json::{Value, json};
use server::{Server, Setup};

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[derive(Debug)]
struct AllowAll;

#[async_trait]
impl Authorizer for AllowAll {
    async fn judge(&self, _: &Attributes) -> Verdict {
        Verdict::of(Decision::Allow, self.name())
    }
}

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

fn user(name: &str) -> User {
    User::authenticated(name, [])
}

/// A creation whose body does not come.
fn hanging(server: &Server) -> Sender<Bytes> {
    let (sender, body) = Channel::<Bytes>::new(1);
    let (server, request) = (server.clone(), Request::post(GADGETS).body(body).unwrap());
    tokio::spawn(async move { server.ask(request).await });
    sender
}

/// Never decides about alice, as a host that does not respond.
#[derive(Debug)]
struct SilentAboutAlice;

#[async_trait]
impl Authorizer for SilentAboutAlice {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        if attributes.user.name == "alice" {
            std::future::pending::<()>().await;
        }
        Verdict::of(Decision::Allow, self.name())
    }
}

#[tokio::test]
async fn a_request_that_waits_for_its_permission_holds_no_seat() {
    let settings = Settings { writes_at_once: 4, ..Settings::default() };
    let authorizer = Arc::new(SilentAboutAlice);
    let server = Server::start_with(Setup { settings, authorizer, ..Setup::default() }).await;
    let alice = server.as_user(user("alice"));
    let held: Vec<_> = (0..20).map(|_| hanging(&alice)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (_, metrics) = server.get("/metrics").await;
    let inflight = "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0\n";
    assert!(metrics.as_str().unwrap().contains(inflight), "{metrics}");
    assert_eq!(server.as_user(user("bob")).post(GADGETS, &gadget("b")).await.0, 201);
    drop(held);
}

#[tokio::test]
async fn a_user_above_the_limit_gets_429_and_others_are_served() {
    let settings = Settings { writes_at_once: 4, ..Settings::default() };
    let server =
        Server::start_with(Setup { settings, authorizer: Arc::new(AllowAll), ..Setup::default() }).await;
    let (alice, bob) = (server.as_user(user("alice")), server.as_user(user("bob")));
    // Three of the four seats, and fifty that wait.
    let held: Vec<_> = (0..53).map(|_| hanging(&alice)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = alice.request("POST", GADGETS, &[], gadget("a").to_string()).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "1");
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    assert_eq!(alice.get(GADGETS).await.0, 200, "reads have seats of their own");
    assert_eq!(bob.post(GADGETS, &gadget("b")).await.0, 201);
    assert_eq!(server.post(GADGETS, &gadget("m")).await.0, 201);
    let (_, metrics) = server.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 3\n",
        "apiserver_current_inqueue_requests{request_kind=\"mutating\"} 50\n",
        "apiserver_flowcontrol_rejected_requests_total{priority_level=\"writes\",flow_schema=\"users\",reason=\"queue-full\"} 1\n",
        "apiserver_request_terminations_total{verb=\"POST\",group=\"toys.example.com\",version=\"v1\",resource=\"gadgets\",subresource=\"\",scope=\"resource\",component=\"apiserver\",code=\"429\"} 1\n",
        "apiserver_request_total{verb=\"POST\",dry_run=\"\",group=\"toys.example.com\",version=\"v1\",resource=\"gadgets\",subresource=\"\",scope=\"resource\",component=\"apiserver\",code=\"429\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    drop(held);
}

#[tokio::test]
async fn a_user_with_large_lists_does_not_delay_the_get_of_another() {
    let server = Server::start_with(Setup { authorizer: Arc::new(AllowAll), ..Setup::default() }).await;
    for number in 0..1500 {
        let (code, answer) = server.post(GADGETS, &gadget(&format!("g{number}"))).await;
        assert_eq!(code, 201, "{answer}");
    }
    let carol = server.as_user(user("carol"));
    let idle = slow_gets(&carol).await;
    assert_eq!(carol.get(&GADGETS.replace("default", "small")).await.0, 200);
    let (_, metrics) = server.get("/metrics").await;
    let waited = "apiserver_flowcontrol_request_wait_duration_seconds_count{priority_level=\"large-lists\",\
                  flow_schema=\"users\",execute=\"true\"} 0\n";
    assert!(metrics.as_str().unwrap().contains(waited), "a small namespace is no large list: {metrics}");
    let listers: Vec<_> = (0..20)
        .map(|_| {
            let lister = server.as_user(user("lister"));
            tokio::spawn(async move {
                loop {
                    let _ = lister.request("GET", GADGETS, &[], "").await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let busy = slow_gets(&carol).await;
    for lister in listers {
        lister.abort();
    }
    let (_, metrics) = server.get("/metrics").await;
    assert!(!metrics.as_str().unwrap().contains(waited), "the lists of the large namespace are: {metrics}");
    // One thread serves everybody here, so that a list that runs is waited for; but never several.
    assert!(busy < idle * 10 + Duration::from_millis(100), "idle {idle:?}, beside lists {busy:?}");
}

/// Within how long 95 of 100 reads of one object were answered.
async fn slow_gets(server: &Server) -> Duration {
    let mut took = Vec::new();
    for _ in 0..100 {
        let asked = Instant::now();
        assert_eq!(server.request("GET", &format!("{GADGETS}/g7"), &[], "").await.status(), 200);
        took.push(asked.elapsed());
    }
    took.sort();
    took[95]
}

#[tokio::test]
async fn a_request_with_an_endless_body_times_out() {
    let server = Server::start().await;
    let (sender, body) = Channel::<Bytes>::new(1);
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let answer = server.ask(Request::post(GADGETS).body(body).unwrap()).await;
    assert_eq!(asked.elapsed().as_secs(), 60);
    tokio::time::resume();
    assert_eq!(answer.status(), 504);
    let status: Value =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
    assert_eq!(status["reason"], "Timeout");
    drop(sender);
}

/// A host that takes its time.
#[derive(Debug)]
struct SlowNamespaces(Duration);

#[async_trait]
impl NamespaceSource for SlowNamespaces {
    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>> {
        tokio::time::sleep(self.0).await;
        Ok(Some(json!({"metadata": {"name": name}})))
    }
}

#[tokio::test]
async fn a_write_completes_after_its_client_disconnects() {
    let namespaces = Arc::new(SlowNamespaces(Duration::from_millis(200)));
    let server = Server::start_with(Setup { namespaces, ..Setup::default() }).await;
    let path = GADGETS.replace("default", "elsewhere");
    let object = gadget("a");
    let write = server.post(&path, &object);
    assert!(tokio::time::timeout(Duration::from_millis(50), write).await.is_err(), "the client goes away");
    assert_eq!(server.get(&format!("{path}/a")).await.0, 404, "not yet");
    let end = Instant::now() + Duration::from_secs(10);
    while server.get(&format!("{path}/a")).await.0 != 200 {
        assert!(Instant::now() < end, "the write was given up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_slow_write_is_answered_with_a_timeout_before_its_client_times_out() {
    let namespaces = Arc::new(SlowNamespaces(Duration::from_secs(3600)));
    let server = Server::start_with(Setup { namespaces, ..Setup::default() }).await;
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let (code, answer) = server.post(&GADGETS.replace("default", "elsewhere"), &gadget("a")).await;
    assert_eq!((code, &answer["reason"]), (504, &json!("Timeout")));
    assert_eq!(asked.elapsed().as_secs(), 34);
}

#[tokio::test]
async fn a_panic_affects_one_request_and_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = AuditLog::to_file(AuditFile::open(&file, 1_000_000, 1).unwrap(), Vec::new()).unwrap();
    #[derive(Debug)]
    struct Panics;
    #[async_trait]
    impl NamespaceSource for Panics {
        async fn namespace(&self, name: &str) -> ApiResult<Option<Value>> {
            panic!("no {name}");
        }
    }
    let settings = Settings { audit: Some(audit.clone()), ..Settings::default() };
    let broken: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(|| panic!("a broken check"));
    let checks = vec![Check { name: "broken", is_well: broken }];
    let setup = Setup { settings, namespaces: Arc::new(Panics), checks, ..Setup::default() };
    let server = Server::start_with(setup).await;
    let text = "This request caused apiserver to panic. Look in the logs for details.\n";
    assert_eq!(server.get("/readyz").await, (500, json!(text)));
    assert_eq!(server.post(&GADGETS.replace("default", "elsewhere"), &gadget("a")).await, (500, json!(text)));
    assert_eq!(server.post(GADGETS, &gadget("a")).await.0, 201, "and life goes on");
    audit.flush();
    let events = std::fs::read_to_string(&file).unwrap();
    let stages: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["requestURI"].as_str().unwrap().contains("elsewhere"))
        .map(|event| event["stage"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stages, ["RequestReceived", "Panic"]);
}

#[tokio::test]
async fn the_audit_log_has_a_request_once_its_user_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = AuditLog::to_file(AuditFile::open(&file, 1_000_000, 1).unwrap(), Vec::new()).unwrap();
    let settings = Settings { audit: Some(audit.clone()), ..Settings::default() };
    let server = Server::start_with(Setup { settings, ..Setup::default() }).await;
    assert_eq!(server.post(GADGETS, &gadget("a")).await.0, 201);
    assert_eq!(server.post(&format!("{GADGETS}?timeout=x"), &gadget("b")).await.0, 400);
    audit.flush();
    let events = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&Value> =
        events.iter().filter(|event| event["requestURI"].as_str().unwrap().contains("gadgets")).collect();
    let stages: Vec<&Value> = events.iter().map(|event| &event["stage"]).collect();
    assert_eq!(
        stages,
        ["RequestReceived", "ResponseComplete", "ResponseStarted"],
        "of the second nothing was begun"
    );
    assert!(events[0]["user"]["username"].is_string(), "{}", events[0]);
}

async fn response_of(
    server: &Server,
    path: &str,
    version: Version,
    connection: &Connection,
) -> (u16, String, Option<String>) {
    let request = Request::get(path).version(version).body(Empty::<Bytes>::new()).unwrap();
    let answer = apiserver_http::handle(&server.server, request, connection).await;
    let close = answer.headers().get("connection").map(|value| value.to_str().unwrap().to_owned());
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap(), close)
}

#[tokio::test]
async fn at_shutdown_readiness_fails_first_and_then_new_requests_are_refused() {
    let setup = Setup::default();
    let shutdown = setup.shutdown.clone();
    let server = Server::start_with(setup).await;
    let mut watch = server.watch(&format!("{GADGETS}?watch=true")).await;
    let ready = || async { server.get("/readyz?verbose").await };
    while ready().await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shutdown.cancel();
    let (code, text) = ready().await;
    assert_eq!(code, 500);
    assert!(text.as_str().unwrap().contains("[-]shutdown failed: reason withheld\n"), "{text}");
    assert_eq!(server.get("/livez").await.0, 200);
    assert_eq!(server.post(GADGETS, &gadget("a")).await.0, 201, "everything is served on");
    assert_eq!(watch.next().await["type"], "ADDED");
    let outside = Connection::default();
    assert_eq!(response_of(&server, "/livez", Version::HTTP_11, &outside).await.2, None);
    server.server.start_draining();
    assert_eq!(
        response_of(&server, "/livez", Version::HTTP_11, &outside).await,
        (200, "ok".to_owned(), Some("close".to_owned()))
    );
    assert_eq!(response_of(&server, "/livez", Version::HTTP_2, &outside).await.2, None);
    server.server.stop_accepting();
    let text = "The apiserver is shutting down, please try again later.\n".to_owned();
    let found = response_of(&server, GADGETS, Version::HTTP_11, &outside).await;
    assert_eq!(found, (429, text.clone(), Some("close".to_owned())));
    assert_eq!(response_of(&server, "/apis", Version::HTTP_2, &outside).await, (429, text, None));
    assert_eq!(response_of(&server, "/livez", Version::HTTP_2, &outside).await.0, 200);
    assert_eq!(response_of(&server, "/readyz", Version::HTTP_2, &outside).await.0, 500);
    assert_eq!(server.get(GADGETS).await.0, 200, "our own controllers finish their work");
    assert!(watch.ended().await, "watches end");
}

#[tokio::test]
async fn unauthenticated_http2_connections_are_closed_and_others_at_random() {
    let server = Server::start().await;
    let closed = |version, user: Option<User>, api: Server| async move {
        let connection = Connection { internal: user.map(Arc::new), ..Connection::default() };
        response_of(&api, "/livez", version, &connection).await;
        connection.close.is_cancelled()
    };
    assert!(closed(Version::HTTP_2, None, server.clone()).await);
    assert!(!closed(Version::HTTP_11, None, server.clone()).await);
    assert!(!closed(Version::HTTP_2, Some(user("alice")), server.clone()).await);
    let settings = Settings { goaway_chance: 1.0, ..Settings::default() };
    let server = Server::start_with(Setup { settings, ..Setup::default() }).await;
    assert!(closed(Version::HTTP_2, Some(user("alice")), server).await);
}

#[tokio::test]
async fn health_endpoints_and_the_index_match_kube_apiserver() {
    let server = Server::start().await;
    let answer = |method: &'static str, path: &'static str| {
        let server = server.clone();
        async move {
            let answer = server.request(method, path, &[], "").await;
            let code = answer.status().as_u16();
            let sniffed = !answer.headers().contains_key("x-content-type-options");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (code, sniffed, String::from_utf8(body.to_vec()).unwrap())
        }
    };
    while answer("GET", "/readyz").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(answer("GET", "/livez/ping").await, (200, true, "ok".to_owned()));
    assert_eq!(answer("POST", "/readyz").await, (200, false, "ok".to_owned()));
    for path in ["/readyz/", "/livez/nope", "/livezz", "/nope"] {
        assert_eq!(answer("GET", path).await, (404, false, "404 page not found\n".to_owned()), "{path}");
    }
    let verbose = "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\n\
        warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nreadyz check passed\n";
    assert_eq!(answer("GET", "/readyz?verbose&exclude=etcd&exclude=a&exclude=b").await.2, verbose);
    let (code, _, index) = answer("GET", "/").await;
    let index: Value = serde_json::from_str(&index).unwrap();
    let paths: Vec<&str> =
        index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert_eq!(code, 200);
    for path in
        ["/api/v1", "/apis/toys.example.com", "/apis/toys.example.com/v1", "/readyz/shutdown", "/metrics"]
    {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    let table = [
        ("GET", "/api/v9", 404, "the server could not find the requested resource"),
        ("POST", "/version", 405, "the server does not allow this method on the requested resource"),
        (
            "GET",
            "/apis/toys.example.com/v1/namespaces/default/gadgets/a%20b",
            404,
            "gadgets.toys.example.com \"a b\" not found",
        ),
        (
            "GET",
            "/apis/toys.example.com/v1/namespaces/default/gadgets/a%2Fb",
            404,
            "gadgets.toys.example.com \"a\" not found",
        ),
        (
            "GET",
            "/apis/toys.example.com/v1/namespaces/default/gadgets/%2e%2e",
            400,
            "Name parameter invalid: \"..\": may not be '..'",
        ),
    ];
    for (method, path, code, message) in table {
        let (found, _, body) = answer(method, path).await;
        let status: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert_eq!((found, &status["message"]), (code, &json!(message)), "{method} {path}");
    }
}

#[tokio::test]
async fn every_answer_has_an_audit_id() {
    let server = Server::start().await;
    let id = |given: &'static str, path: &'static str| {
        let server = server.clone();
        async move {
            let answer = server.request("GET", path, &[("audit-id", given)], "").await;
            assert_eq!(answer.headers()["cache-control"], "no-cache, private", "{path}");
            answer.headers()["audit-id"].to_str().unwrap().to_owned()
        }
    };
    assert_eq!(id("from-the-host", GADGETS).await, "from-the-host");
    assert_eq!(id("from-the-host", "/nope").await, "from-the-host");
    let own = id("", GADGETS).await;
    assert_eq!(own.len(), 36, "{own}");
}
