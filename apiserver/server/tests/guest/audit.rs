//! Tests of the audit log of a real server.

use serde_json::Value;

use crate::process::Capstan;

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
