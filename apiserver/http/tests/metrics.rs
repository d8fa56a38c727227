//! Tests of request metrics: the requests that are counted, and their labels. The expected values were recorded from a
//! real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::collections::BTreeSet;

use serde_json::json;
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const ALL_GADGETS: &str = "/apis/toys.example.com/v1/gadgets";
const WATCHED: &str = "/apis/toys.example.com/v1/watch";
const MERGE: &str = "application/merge-patch+json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the samples of these metrics: `name verb subresource scope dry_run`, and the code. Those of the creation of
/// the namespace are left out.
async fn samples_of(server: &Server, names: &[&str]) -> BTreeSet<String> {
    let (_, text) = server.get("/metrics").await;
    let mut samples = BTreeSet::new();
    for line in text.as_str().unwrap().lines() {
        let Some((name, rest)) = line.split_once('{').filter(|(name, _)| names.contains(name)) else {
            continue;
        };
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        let label = |key: &str| {
            let (_, rest) = labels.split_once(&format!("{key}=\"")).unwrap_or(("", "\""));
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        let words = ["verb", "subresource", "scope", "dry_run", "code"].map(label);
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        let is_asked = !labels.contains("resource=\"namespaces\"") || label("verb") != "POST";
        if value != "0" && is_asked {
            samples.insert(format!("{name} {} {value}", words.join(" ")));
        }
    }
    samples
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn a_watch_with_the_path_prefix_counts_as_a_read_until_it_ends() {
    let gauge = "apiserver_longrunning_requests";
    let total = "apiserver_request_total";
    let cases = [
        (format!("{WATCHED}/gadgets"), "LIST cluster", "WATCH cluster"),
        (format!("{WATCHED}/namespaces/default/gadgets"), "LIST namespace", "WATCH namespace"),
        (format!("{WATCHED}/namespaces/default/gadgets/a"), "GET resource", "WATCH resource"),
        (format!("{WATCHED}/gadgets?watch=true"), "WATCH cluster", "WATCH cluster"),
        (
            format!("{WATCHED}/namespaces/default/gadgets?fieldSelector=metadata.name%3Da"),
            "LIST namespace",
            "WATCH namespace",
        ),
        (format!("{ALL_GADGETS}?watch=true"), "WATCH cluster", "WATCH cluster"),
        (format!("{GADGETS}?watch=1&fieldSelector=metadata.name%3Da"), "WATCH resource", "WATCH resource"),
    ];
    for (path, open, ended) in cases {
        let server = Server::start().await;
        let answer = server.request("GET", &path, &[], "").await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(samples_of(&server, &[gauge]).await, set(&[&format!("{gauge} {open} 1")]), "{path}");
        drop(answer);
        assert_eq!(
            samples_of(&server, &[gauge, total]).await,
            set(&[&format!("{total} {ended} 200 1")]),
            "{path}"
        );
    }
}

#[tokio::test]
async fn requests_that_match_no_route_of_a_kind_are_not_counted() {
    let server = Server::start().await;
    let gadget = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    let gadget = gadget.to_string();
    for (method, path, code) in [
        ("POST", ALL_GADGETS.to_owned(), 404),
        ("GET", format!("{ALL_GADGETS}/a"), 404),
        ("DELETE", ALL_GADGETS.to_owned(), 404),
        ("GET", format!("{GADGETS}/a/scale"), 404),
        ("PUT", format!("{GADGETS}/a/finalize"), 404),
        ("DELETE", format!("{GADGETS}/a/status"), 405),
        ("GET", "/apis/toys.example.com/v1/proxy/namespaces/default/gadgets/a".to_owned(), 405),
        ("GET", "/api/v1/namespaces/default/namespaces".to_owned(), 404),
        ("GET", "/apis".to_owned(), 200),
    ] {
        let answer =
            server.request(method, &path, &[("content-type", "application/json")], gadget.clone()).await;
        assert_eq!(answer.status(), code, "{method} {path}");
    }
    assert_eq!(samples_of(&server, &["apiserver_request_total"]).await, BTreeSet::new());
}

#[tokio::test]
async fn a_dry_run_is_labelled_and_excluded_from_the_sli() {
    for (query, dry_run) in [
        ("dryRun=All", "All"),
        ("dryRun=All&dryRun=All", "All"),
        ("dryRun=", "invalid"),
        ("dryRun=x", "invalid"),
    ] {
        let server = Server::start().await;
        server.request("DELETE", &format!("{GADGETS}/a?{query}"), &[], "").await;
        let names =
            ["apiserver_request_duration_seconds_count", "apiserver_request_sli_duration_seconds_count"];
        let line = format!("apiserver_request_duration_seconds_count DELETE resource {dry_run} 1");
        assert_eq!(samples_of(&server, &names).await, set(&[&line]), "{query}");
    }
}

#[tokio::test]
async fn the_verb_label_follows_method_and_parameters() {
    let server = Server::start().await;
    let apply = "application/apply-patch+yaml";
    let one = format!("{GADGETS}/a");
    for (method, path, headers) in [
        ("PATCH", format!("{one}?fieldManager=a"), [("content-type", apply)]),
        ("PATCH", one.clone(), [("content-type", "application/apply-patch+cbor")]),
        ("PATCH", one.clone(), [("content-type", MERGE)]),
        ("GET", format!("{one}?watch=1"), [("accept", "*/*")]),
        ("GET", "/livez?watch=1".to_owned(), [("accept", "*/*")]),
        ("POST", "/livez".to_owned(), [("accept", "*/*")]),
        ("GET", "/apis".to_owned(), [("accept", AGGREGATED)]),
    ] {
        server.request(method, &path, &headers, "").await;
    }
    let (total, sizes) = ("apiserver_request_total", "apiserver_response_sizes_count");
    let expected = [
        format!("{total} APPLY resource 400 1"),
        format!("{total} PATCH resource 404 1"),
        format!("{total} PATCH resource 415 1"),
        format!("{total} WATCH resource 404 1"),
        format!("{total} WATCH /livez 200 1"),
        format!("{total} POST /livez 200 1"),
        format!("{total} GET apis 200 1"),
        format!("{sizes} WATCH resource 1"),
        format!("{sizes} WATCH /livez 1"),
        format!("{sizes} POST /livez 1"),
        format!("{sizes} GET apis 1"),
    ];
    assert_eq!(samples_of(&server, &[total, sizes]).await, BTreeSet::from(expected));
}

#[tokio::test]
async fn the_sizes_of_write_bodies_are_measured_if_they_are_read() {
    let server = Server::start().await;
    let one = format!("{GADGETS}/a");
    for (method, path, kind) in [
        ("POST", GADGETS, "application/json"),
        ("POST", GADGETS, "text/plain"),
        ("PUT", &one, "application/json"),
        ("PUT", GADGETS, "application/json"),
        ("PATCH", &one, MERGE),
        ("DELETE", &one, "application/json"),
        ("DELETE", GADGETS, "application/json"),
        ("GET", GADGETS, "application/json"),
    ] {
        server.request(method, path, &[("content-type", kind)], "{}").await;
    }
    let name = "apiserver_request_body_size_bytes_count";
    let expected =
        ["create", "update", "patch", "delete", "delete_collection"].map(|verb| format!("{name} {verb} 1"));
    assert_eq!(samples_of(&server, &[name]).await, BTreeSet::from(expected));
}
