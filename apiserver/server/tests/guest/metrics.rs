//! Tests of `/metrics` as a scraper reads it, and of the dashboard that uses its series.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::process::Capstan;

/// Metrics that dashboards for Kubernetes read, with the labels they group by.
const EXPECTED: [(&str, &[&str]); 43] = [
    (
        "apiserver_request_total",
        &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"],
    ),
    (
        "apiserver_request_duration_seconds",
        &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"],
    ),
    (
        "apiserver_request_sli_duration_seconds",
        &["verb", "group", "version", "resource", "subresource", "scope", "component"],
    ),
    (
        "apiserver_response_sizes",
        &["verb", "group", "version", "resource", "subresource", "scope", "component"],
    ),
    ("apiserver_request_body_size_bytes", &["group", "resource", "verb"]),
    (
        "apiserver_longrunning_requests",
        &["verb", "group", "version", "resource", "subresource", "scope", "component"],
    ),
    ("apiserver_current_inflight_requests", &["request_kind"]),
    ("apiserver_current_inqueue_requests", &["request_kind"]),
    ("apiserver_flowcontrol_current_executing_requests", &["priority_level", "flow_schema"]),
    ("apiserver_flowcontrol_current_inqueue_requests", &["priority_level", "flow_schema"]),
    ("apiserver_watch_events_total", &["group", "version", "resource"]),
    ("apiserver_watch_events_sizes", &["group", "version", "resource"]),
    ("apiserver_storage_objects", &["resource"]),
    ("apiserver_resource_objects", &["group", "resource"]),
    ("watch_cache_capacity", &["group", "resource"]),
    ("apiserver_watch_cache_resource_version", &["group", "resource"]),
    ("capstan_watch_cache_bytes", &["group", "resource", "part"]),
    ("apiserver_audit_event_total", &[]),
    ("authentication_attempts", &["result"]),
    ("authentication_duration_seconds", &["result"]),
    ("authenticated_user_requests", &["username"]),
    ("authorization_attempts_total", &["result"]),
    ("authorization_duration_seconds", &["result"]),
    ("apiserver_authorization_decisions_total", &["type", "name", "decision"]),
    ("apiserver_client_certificate_expiration_seconds", &[]),
    ("apiserver_tls_handshake_errors_total", &[]),
    ("etcd_request_duration_seconds", &["operation", "group", "resource"]),
    ("etcd_requests_total", &["operation", "group", "resource"]),
    ("workqueue_depth", &["name"]),
    ("workqueue_adds_total", &["name"]),
    ("workqueue_retries_total", &["name"]),
    ("workqueue_queue_duration_seconds", &["name"]),
    ("workqueue_work_duration_seconds", &["name"]),
    ("workqueue_unfinished_work_seconds", &["name"]),
    ("workqueue_longest_running_processor_seconds", &["name"]),
    ("controller_runtime_reconcile_total", &["controller", "result"]),
    ("controller_runtime_reconcile_errors_total", &["controller"]),
    ("controller_runtime_reconcile_time_seconds", &["controller"]),
    ("controller_runtime_active_workers", &["controller"]),
    ("controller_runtime_max_concurrent_reconciles", &["controller"]),
    ("capstan_controller_kept_objects", &["controller"]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
];

/// One sample: its name and labels, in the order they come.
type Sample = (String, Vec<(String, String)>);

/// Text format 0.0.4, read strictly: the samples, and the kind of each described metric.
fn parse(text: &str) -> (Vec<Sample>, BTreeMap<String, String>) {
    assert!(text.ends_with('\n'));
    let (mut samples, mut kinds) = (Vec::new(), BTreeMap::new());
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let is_old = ["authentication_attempts", "authenticated_user_requests"].contains(&name);
            assert_eq!(kind == "counter" && !is_old, name.ends_with("_total"), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "described twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.split_once(' ').is_some_and(|(_, words)| words.len() > 5), "{line}");
        } else {
            assert!(!line.starts_with('#'), "not of this format: {line}");
            let sample = sample(line);
            assert!(seen.insert(sample.clone()), "twice: {line}");
            let name = &sample.0;
            let described = ["", "_bucket", "_sum", "_count"].iter().any(|suffix| {
                name.strip_suffix(suffix)
                    .and_then(|base| kinds.get(base))
                    .is_some_and(|kind| suffix.is_empty() == (kind != "histogram"))
            });
            assert!(described, "not described before: {line}");
            samples.push(sample);
        }
    }
    (samples, kinds)
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = if value == "+Inf" { "inf" } else { value };
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
    };
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':'), "{line}");
    let labels = labels.split_terminator("\",").map(|label| {
        let (key, value) = label.split_once("=\"").unwrap();
        assert!(!value.contains('\n'), "{line}");
        (key.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), labels.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_be_scraped_and_have_all_series_of_the_dashboard() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let client = capstan.client();
    let watch = client.send("GET", "/api/v1/namespaces?watch=true", "").await.unwrap();
    for name in ["none", "default"] {
        client.get(&format!("/api/v1/namespaces/{name}")).await.unwrap();
    }
    client.send("DELETE", "/api/v1/namespaces/none", "").await.unwrap();
    for unknown in ["/apis/evil.example.com/v1/things", "/api/v1/namespaces/x/evils", "/evil"] {
        assert_eq!(client.get(unknown).await.unwrap().code, 404);
    }
    let answer = client.get("/metrics").await.unwrap();
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let (samples, kinds) = parse(&answer.text());
    for (name, labels) in EXPECTED {
        let kind = kinds.get(name).unwrap_or_else(|| panic!("{name} is not described"));
        let of = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
        let (_, found) =
            samples.iter().find(|(found, _)| *found == of).unwrap_or_else(|| panic!("{of} is missing"));
        let found: BTreeSet<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(found, labels.iter().copied().collect(), "{name}");
    }
    assert!(!answer.text().contains("evil"), "what clients make up is no label");
    drop(watch);
    // Asked for when it runs: a build directory may be shared with another checkout.
    let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let read = |path: &str| std::fs::read_to_string(format!("{directory}/../../{path}")).unwrap();
    // A server with an etcd, a host cluster, backups or a call to a cloud has these, too.
    let others = [
        "apiserver/host/src/metrics.rs",
        "apiserver/server/src/backup/metrics.rs",
        "apiserver/server/src/backup/schedule.rs",
        "apiserver/server/src/election/metrics.rs",
        "apiserver/server/src/storage_history.rs",
        "apiserver/server/src/storage_maintenance/space.rs",
        "controllers/infrastructure-openstack/src/metrics.rs",
    ];
    let others = others.map(read).concat();
    let mut found = BTreeSet::new();
    for file in [
        "grafana/capstan.json",
        "grafana/controllers.json",
        "grafana/host.json",
        "grafana/storage.json",
        "prometheus/rules.yaml",
    ] {
        let document: Value = serde_saphyr::from_str(&read(&format!("manifests/{file}"))).unwrap();
        let asked = metrics_of(&document);
        assert!(asked.len() > 10, "{file}: {asked:?}");
        for name in &asked {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let is_there = kinds.contains_key(name)
                || base.is_some_and(|base| kinds.get(base).is_some_and(|kind| kind == "histogram"))
                || others.contains(&format!(
                    "\"{}\"",
                    base.or_else(|| name.strip_suffix("_total")).unwrap_or(name)
                ));
            assert!(is_there, "{file} names {name}, which is not served");
        }
        found.extend(asked);
    }
    let own: Vec<&String> = kinds.keys().filter(|name| name.starts_with("capstan_")).collect();
    let missing: Vec<_> = own.iter().filter(|name| !found.contains(**name)).collect();
    assert!(own.len() > 1 && missing.is_empty(), "no file shows {missing:?}");
}

/// Every metric that a query of a dashboard or of an alert names.
fn metrics_of(document: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = vec![document];
    let mut queries = 0;
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                if let Some(query) = map.get("expr").and_then(Value::as_str) {
                    queries += 1;
                    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                    let found: Vec<&str> = words
                        .filter(|word| {
                            [
                                "apiserver_",
                                "authorization_",
                                "etcd_",
                                "process_",
                                "workqueue_",
                                "controller_runtime_",
                                "capstan_",
                            ]
                            .iter()
                            .any(|p| word.starts_with(p))
                        })
                        .collect();
                    assert!(!found.is_empty(), "a query without a metric: {query}");
                    names.extend(found.into_iter().map(str::to_owned));
                }
                rest.extend(map.values());
            }
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    assert!(queries > 10, "{queries} queries");
    names
}
