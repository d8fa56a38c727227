//! Tests of unknown paths, methods, query parameters and headers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use http_body_util::BodyExt;
use serde_json::json;
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn unknown_paths_and_methods_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    let not_found = "404 page not found\n";
    let unsupported = " is not supported on resources of kind \\\"gadgets.toys.example.com\\\"";
    let item = format!("{GADGETS}/a");
    let table = [
        ("GET", "/nope", 404, not_found),
        ("GET", "/apis/toys.example.com/v9", 404, not_found),
        ("GET", "/apis/toys.example.com/v9/gadgets", 404, not_found),
        ("GET", "/apis/toys.example.com/v1/nope", 404, not_found),
        ("GET", "/apis/toys.example.com/v1/gadgets/a", 404, not_found),
        ("POST", "/apis/toys.example.com/v1/gadgets", 404, not_found),
        ("GET", "/apis/toys.example.com/v1/namespaces/default", 404, not_found),
        ("GET", &format!("{item}/nope"), 404, "gadgets.toys.example.com \\\"a\\\" not found"),
        ("PUT", GADGETS, 400, "name must be provided"),
        ("PATCH", GADGETS, 400, "name must be provided"),
        ("OPTIONS", GADGETS, 405, unsupported),
        ("OPTIONS", &item, 405, unsupported),
        ("DELETE", &format!("{item}/status"), 405, "\"delete is not supported on resources"),
        ("POST", &format!("{item}/status"), 405, "\"create is not supported on resources"),
        ("GET", &format!("{item}?export=true"), 400, "the export parameter, deprecated since v1.14"),
        (
            "GET",
            &format!("{GADGETS}?timeout=abc"),
            400,
            "invalid timeout specified in the request URL - time: invalid duration \\\"abc\\\"",
        ),
        ("GET", &format!("{GADGETS}?timeout=10"), 400, "missing unit in duration"),
        ("GET", &format!("{GADGETS}?timeout=32s&export=true&nonsense=1"), 200, "GadgetList"),
        (
            "GET",
            &format!("{GADGETS}?limit=abc"),
            400,
            "strconv.ParseInt: parsing \\\"abc\\\": invalid syntax",
        ),
        ("GET", &format!("{GADGETS}?limit=1&limit=abc"), 200, "GadgetList"),
        ("GET", &format!("{GADGETS}/"), 200, "GadgetList"),
    ];
    for (method, path, code, text) in table {
        let answer = server.request(method, path, &[], "").await;
        let (found, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert_eq!(found, code, "{method} {path}: {body}");
        assert!(body.contains(text), "{method} {path}: {body}");
        assert_eq!(headers.get("cache-control").unwrap(), "no-cache, private", "{path}");
        assert!(body.ends_with('\n'), "{path}");
        let plain = headers.get("content-type").unwrap() == "text/plain; charset=utf-8";
        assert_eq!(plain, text == not_found, "{path}");
        assert_eq!(headers.contains_key("x-content-type-options"), plain, "{path}");
    }
}

#[tokio::test]
async fn all_errors_of_the_options_are_reported_together() {
    let server = Server::start().await;
    let (code, answer) =
        server.post(&format!("{GADGETS}?dryRun=x&fieldManager=a%0A&fieldValidation=Foo"), &json!({})).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Invalid value: \"a\\n\": invalid character U+000A (at \
         position 1), dryRun: Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \
         \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
    );
    assert_eq!(answer["details"]["causes"].as_array().unwrap().len(), 3);
    let (code, answer) = server.patch(&format!("{GADGETS}/a?force=true"), "merge", &json!({})).await;
    assert_eq!((code, answer["details"]["causes"][0]["field"].as_str()), (422, Some("force")));
}

#[tokio::test]
async fn a_deprecated_version_returns_a_warning() {
    let server = Server::start().await;
    let relics = "/apis/old.example.com/v1/namespaces/default/relics";
    let warning = "299 - \"old.example.com/v1 Relic is deprecated; use toys.example.com/v1 Gadget\"";
    let relic = json!({"apiVersion": "old.example.com/v1", "kind": "Relic", "metadata": {"name": "a"}, "spec": {"nope": 1}});
    for (method, path, code, body, others) in [
        ("GET", relics.to_owned(), 200, String::new(), 0),
        ("POST", relics.to_owned(), 201, relic.to_string(), 1),
        ("GET", format!("{relics}/zzz"), 404, String::new(), 0),
        ("GET", format!("{relics}?watch=true"), 200, String::new(), 0),
        ("DELETE", format!("{relics}/a"), 200, String::new(), 0),
    ] {
        let answer = server.request(method, &path, &[], body).await;
        assert_eq!(answer.status().as_u16(), code, "{method} {path}");
        let warnings: Vec<_> = answer.headers().get_all("warning").iter().collect();
        assert_eq!((warnings[0].to_str().unwrap(), warnings.len()), (warning, 1 + others), "{method} {path}");
    }
    assert_eq!(server.request("GET", GADGETS, &[], "").await.headers().get("warning"), None);
}
