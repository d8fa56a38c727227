//! Tests of the audit log of a real server.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::process::{Capstan, PATIENCE, command};
use crate::webhook_server::{Reply, WebhookServer};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}, "stringData": {"password": "hunter2"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_changes_and_watches_and_no_secret_values() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let client = capstan.client();
    let created = client.once("POST", SECRETS, SECRET).await.unwrap();
    assert_eq!(created.code, 201, "{}", created.text());
    let name: Value = serde_json::from_slice(&created.body).unwrap();
    let name = name["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(client.get(&format!("{SECRETS}/none")).await.unwrap().code, 404);
    let watch = client.get("/api/v1/namespaces?watch=true&timeoutSeconds=1").await.unwrap();
    assert_eq!(watch.code, 200);
    assert_eq!(client.get("/apis").await.unwrap().code, 200);
    capstan.signal("TERM");
    assert_eq!(capstan.ended().await.code(), Some(0));
    let text = std::fs::read_to_string(data.path().join("audit/audit.log")).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mine = |uri: &str| {
        let of = events.iter().filter(|event| {
            event["user"]["username"] == "capstan-admin"
                && event["requestURI"].as_str().unwrap().starts_with(uri)
        });
        of.collect::<Vec<_>>()
    };
    let [event] = mine(SECRETS).into_iter().filter(|event| event["verb"] == "create").collect::<Vec<_>>()[..]
    else {
        panic!("{text}");
    };
    assert_eq!(event["auditID"], created.header("audit-id"));
    assert_eq!(
        (&event["stage"], &event["responseStatus"]["code"]),
        (&"ResponseComplete".into(), &201.into())
    );
    assert_eq!(event["objectRef"]["name"], Value::Null, "{name} was generated: the request does not name it");
    assert_eq!((&event["responseStatus"]["code"], &event["level"]), (&201.into(), &"Metadata".into()));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(event["annotations"]["capstan.dev/realm"], "own");
    assert_eq!(event["sourceIPs"], serde_json::json!(["127.0.0.1"]));
    let missing = mine(&format!("{SECRETS}/none"));
    let told = &missing[0]["responseStatus"];
    assert_eq!((&told["reason"], &told["details"]["kind"]), (&"NotFound".into(), &"secrets".into()));
    let stages: Vec<&Value> = mine("/api/v1/namespaces?watch").iter().map(|event| &event["stage"]).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    assert_eq!(mine("/apis").len(), 1, "discovery is told, too");
    assert!(events.iter().all(|event| event["requestURI"] != "/readyz"), "health is not");
    assert!(
        events.iter().any(|event| event["user"]["username"] == "system:capstan:leader-election"),
        "what our own controllers change is"
    );
}

/// Starts a server whose configuration has this under `audit`, and whose policy has these rules.
fn start(data: &Path, audit: &str, rules: &str) -> Capstan {
    let policy = data.join("policy.yaml");
    std::fs::write(&policy, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}\n")).unwrap();
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\naudit:\n  policyFile: {}\n{audit}\n",
        policy.display()
    );
    let file = data.join("capstan.yaml");
    std::fs::write(&file, text).unwrap();
    Capstan::start(data, &["--config", file.to_str().unwrap()])
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

const RULES: &str = "
- {level: None, users: ['system:capstan:leader-election']}
- {level: RequestResponse, verbs: [create, get], resources: [{group: '', resources: [configmaps]}], omitManagedFields: true}
- {level: Request, verbs: [patch, delete], resources: [{group: '', resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: RequestResponse, namespaces: [default], verbs: [create]}
- {level: None}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_decides_which_bodies_the_audit_log_has() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = start(data.path(), "", RULES);
    capstan.ready().await;
    let client = capstan.client();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
    assert_eq!(client.once("POST", MAPS, &map.to_string()).await.unwrap().code, 201);
    assert_eq!(client.once("POST", SECRETS, SECRET).await.unwrap().code, 201);
    assert_eq!(client.get(&format!("{MAPS}/m")).await.unwrap().code, 200);
    assert_eq!(client.get(MAPS).await.unwrap().code, 200);
    assert_eq!(client.once("DELETE", &format!("{MAPS}/m"), "").await.unwrap().code, 200);
    capstan.signal("TERM");
    assert_eq!(capstan.ended().await.code(), Some(0));
    let text = std::fs::read_to_string(data.path().join("audit/audit.log")).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("leader-election"), "{text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |verb: &str, resource: &str| -> Vec<&Value> {
        let is = |event: &&Value| event["verb"] == verb && event["objectRef"]["resource"] == resource;
        events.iter().filter(|event| event["user"]["username"] == "capstan-admin").filter(is).collect()
    };
    let [received, created] = of("create", "configmaps")[..] else { panic!("{text}") };
    assert_eq!((&received["stage"], received.get("requestObject")), (&json!("RequestReceived"), None));
    assert_eq!((&created["level"], &created["requestObject"]), (&json!("RequestResponse"), &map));
    let stored = &created["responseObject"];
    assert_eq!((&stored["data"], stored["metadata"].get("managedFields")), (&json!({"a": "b"}), None));
    assert!(stored["metadata"]["uid"].is_string(), "{created}");
    let [_, read] = of("get", "configmaps")[..] else { panic!("{text}") };
    assert_eq!((read.get("requestObject"), &read["responseObject"]["kind"]), (None, &json!("ConfigMap")));
    let [deleted] = of("delete", "configmaps")[..] else { panic!("{text}") };
    assert_eq!((&deleted["level"], deleted.get("responseObject")), (&json!("Request"), None));
    let secrets = of("create", "secrets");
    assert!(secrets.iter().all(|event| event["level"] == "Metadata"), "{text}");
    assert!(of("list", "configmaps").is_empty(), "the last rule omits them");
}

/// Starts a server whose audit log has links, and stops it.
async fn run_with_links(data: &Path) {
    let mut capstan = start(data, "  chain: {enabled: true}", "- {level: Metadata}");
    capstan.ready().await;
    capstan.signal("TERM");
    assert_eq!(capstan.ended().await.code(), Some(0));
}

/// Verifies the audit log. Returns the exit code, and the output.
async fn verify(data: &Path) -> (Option<i32>, String) {
    let log = data.join("audit/audit.log").display().to_string();
    let output = command(&["audit", "verify", "--data-dir", &data.display().to_string(), &log]).await;
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn am_12_links_go_on_after_a_restart_and_the_checkpoint_shows_that_lines_are_missing() {
    let data = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run_with_links(data.path()).await;
        let (code, text) = verify(data.path()).await;
        assert!(code == Some(0) && text.contains("checkpoints that agree: "), "{text}");
    }
    let log = data.path().join("audit/audit.log");
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    let event: Value = serde_json::from_str(lines[0]).unwrap();
    assert!(event["annotations"]["capstan.dev/chain"].is_string(), "{event}");
    let half = lines.len() / 2;
    std::fs::write(&log, lines[..half].concat()).unwrap();
    let (code, text) = verify(data.path()).await;
    let expected = format!("audit.log:{half}: lines are missing after this one: ");
    assert!(code == Some(1) && text.contains(&expected), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_with_bodies_of_secrets_is_refused_at_the_start() {
    let data = tempfile::tempdir().unwrap();
    let rule = "{level: Request, resources: [{group: '', resources: [secrets]}]}";
    let mut capstan = start(data.path(), "", &format!("- {rule}"));
    assert_ne!(capstan.ended().await.code(), Some(0));
    let log = std::fs::read_to_string(data.path().join(format!("{}.log", capstan.port))).unwrap();
    assert!(log.contains("audit.policyFile") && log.contains("rules[0].resources[0].resources[0]"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_gets_all_events_in_batches_and_again_after_an_error() {
    let calls = AtomicUsize::new(0);
    let webhook = WebhookServer::start(move |_, _| {
        let code = if calls.fetch_add(1, Ordering::Relaxed) == 0 { 503 } else { 200 };
        Reply::Raw(code, "", Vec::new())
    })
    .await;
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("ca.pem"), STANDARD.decode(&webhook.bundle).unwrap()).unwrap();
    std::fs::write(data.path().join("token"), "t0ken\n").unwrap();
    let file = |name: &str| data.path().join(name).display().to_string();
    let audit = format!(
        "  webhook: {{url: '{}/audit', caFile: {}, tokenFile: {}, batchMaxWait: 1s}}",
        webhook.url,
        file("ca.pem"),
        file("token")
    );
    let rules = "- {level: Metadata, users: [capstan-admin], verbs: [create], omitStages: [RequestReceived]}";
    let capstan = start(data.path(), &audit, rules);
    capstan.ready().await;
    let client = capstan.client();
    for number in 0..30 {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")}});
        assert_eq!(client.once("POST", MAPS, &map.to_string()).await.unwrap().code, 201);
    }
    let end = Instant::now() + PATIENCE;
    let names = loop {
        let calls = webhook.calls("/audit");
        assert!(calls.iter().all(|call| call.authorization == "Bearer t0ken"));
        assert!(calls.iter().all(|call| call.body["kind"] == "EventList"));
        let accepted = calls.iter().skip(1).flat_map(|call| call.body["items"].as_array().unwrap());
        let mut names: Vec<String> =
            accepted.map(|event| event["objectRef"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() == 30 || Instant::now() > end {
            break names;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(names.len(), 30, "{names:?}");
    assert!(webhook.calls("/audit").len() < 30, "events are sent in batches");
    let metrics = client.get("/metrics").await.unwrap().text();
    let lost =
        metrics.lines().find(|line| line.starts_with("apiserver_audit_error_total{plugin=\"webhook\"}"));
    assert_eq!(lost, Some("apiserver_audit_error_total{plugin=\"webhook\"} 0"));
}
