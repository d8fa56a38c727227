//! Tests of request and response bodies: protobuf, duplicate fields, warnings, compression and long lists in parts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::io::Read;

use apiserver_machinery::protobuf::{self, PARTIAL_LIST};
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::Server;

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn delete_options_may_be_protobuf_and_custom_objects_may_not() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let path = format!("{GADGETS}/a");
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    // runtime.Unknown{typeMeta: {"v1", "DeleteOptions"}, raw: {preconditions: {uid: "other"}}}
    let body = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x09\x12\x07\x0a\x05other";
    let refused = server.request("DELETE", &path, &protobuf, body.to_vec()).await;
    assert_eq!(refused.status(), 409);
    let garbage = server.request("DELETE", &path, &protobuf, b"k8s\0\x0a\xff".to_vec()).await;
    assert_eq!(garbage.status(), 400);
    assert_eq!(server.request("POST", GADGETS, &protobuf, body.to_vec()).await.status(), 415);
    assert_eq!(server.get(&path).await.0, 200);
}

#[tokio::test]
async fn duplicate_fields_are_reported_as_field_validation_requests() {
    let server = Server::start().await;
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"toys.example.com/v1","kind":"Gadget","metadata":{{"name":"{name}"}},
                "spec":{{"size":1,"size":2,"nope":1}}}}"#
        )
    };
    let warnings = |answer: &http::Response<apiserver_http::ResponseBody>| -> Vec<String> {
        let all = answer.headers().get_all("warning").iter();
        all.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let answer = server.request("POST", GADGETS, &[], body("warned")).await;
    assert_eq!(answer.status(), 201);
    let expected =
        ["299 - \"duplicate field \\\"spec.size\\\"\"", "299 - \"unknown field \\\"spec.nope\\\"\""];
    assert_eq!(warnings(&answer), expected);
    assert_eq!(server.get(&format!("{GADGETS}/warned")).await.1["spec"]["size"], 2);
    let answer =
        server.request("POST", &format!("{GADGETS}?fieldValidation=Ignore"), &[], body("quiet")).await;
    assert_eq!((answer.status().as_u16(), warnings(&answer)), (201, Vec::new()));
    let strict = format!("{GADGETS}?fieldValidation=Strict");
    let (code, answer) = server.send("POST", &strict, &[], &body("refused")).await;
    assert_eq!((code, &answer["reason"]), (400, &json!("BadRequest")));
    assert_eq!(
        answer["message"],
        "Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: \
         duplicate field \"spec.size\", unknown field \"spec.nope\""
    );
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = r#"{"spec":{"size":3,"size":4}}"#;
    let path = format!("{GADGETS}/warned");
    let (code, answer) = server.send("PATCH", &format!("{path}?fieldValidation=Strict"), &merge, patch).await;
    assert_eq!(code, 422);
    // Shown as it was patched.
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":"),
        "{message}"
    );
    let end = "\\\"size\\\":4}}\": strict decoding error: duplicate field \"spec.size\"";
    assert!(message.ends_with(end), "{message}");
    let answer = server.request("PATCH", &path, &merge, patch).await;
    assert_eq!((answer.status().as_u16(), warnings(&answer)), (200, vec![expected[0].to_owned()]));
}

#[tokio::test]
async fn warnings_stay_within_the_header_size_limit() {
    let server = Server::start().await;
    let mut object = gadget("a");
    for index in 0..300 {
        object["spec"][format!("{}{index}", "x".repeat(400))] = json!(1);
    }
    let answer = server.request("POST", GADGETS, &[], object.to_string()).await;
    let total: usize = answer.headers().get_all("warning").iter().map(|value| value.len()).sum();
    assert!(answer.status() == 201 && total > 0 && total < 5000, "{total}");
}

fn unpacked(gzip: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(gzip).read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// So many gadgets of 60 KB.
async fn create_large(server: &Server, count: usize) {
    for index in 0..count {
        let mut object = gadget(&format!("g{index}"));
        object["metadata"]["annotations"] = json!({"a": "x".repeat(60_000)});
        assert_eq!(server.post(GADGETS, &object).await.0, 201);
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_clients_that_accept_gzip() {
    let server = Server::start().await;
    let gzip = [("accept-encoding", "gzip")];
    create_large(&server, 3).await;
    let small = server.request("GET", &format!("{GADGETS}/g0"), &gzip, "").await;
    assert_eq!(small.headers().get("content-encoding"), None);
    let plain = server.request("GET", GADGETS, &[], "").await;
    assert_eq!(plain.headers().get("content-encoding"), None);
    let plain = plain.into_body().collect().await.unwrap().to_bytes();
    let answer = server.request("GET", GADGETS, &gzip, "").await;
    assert_eq!(answer.headers().get("content-encoding").unwrap(), "gzip");
    assert_eq!(answer.headers().get("vary").unwrap(), "Accept-Encoding");
    assert_eq!(answer.body().size_hint().exact(), None, "it is compressed while it is sent");
    let packed = answer.into_body().collect().await.unwrap().to_bytes();
    let is_same = unpacked(&packed) == plain;
    assert!(packed.len() * 10 < plain.len() && is_same, "{} of {}", packed.len(), plain.len());
    let watch = server.request("GET", &format!("{GADGETS}?watch=true&resourceVersion=0"), &gzip, "").await;
    assert_eq!(watch.headers().get("content-encoding"), None);
}

#[tokio::test]
async fn a_streamed_table_equals_the_unstreamed_one() {
    let server = Server::start().await;
    create_large(&server, 9).await;
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut rows = Vec::new();
    for index in 0..9 {
        let one = server.send("GET", &format!("{GADGETS}/g{index}"), &[table], "").await.1;
        rows.push(one["rows"][0].clone());
    }
    let answer = server.request("GET", GADGETS, &[table], "").await;
    let mut body = answer.into_body();
    assert_eq!(body.size_hint().exact(), None);
    let (mut plain, mut parts) = (Vec::new(), 0);
    while let Some(part) = body.frame().await {
        plain.extend_from_slice(&part.unwrap().into_data().unwrap());
        parts += 1;
    }
    drop(body);
    assert_eq!(parts, 4, "three rows in each, and what is left");
    let all: Value = serde_json::from_slice(&plain).unwrap();
    assert_eq!(all["rows"], json!(rows));
    assert_eq!(all["columnDefinitions"][1]["name"], "Size");
    let packed = server.request("GET", GADGETS, &[table, ("accept-encoding", "gzip")], "").await;
    assert_eq!(packed.headers().get("content-encoding").unwrap(), "gzip");
    let packed = packed.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(unpacked(&packed), plain);
    // A page that is small is whole before it is sent.
    let page = server.request("GET", &format!("{GADGETS}?limit=2"), &[table], "").await;
    let page = page.into_body().size_hint().exact().unwrap();
    let sent = u64::try_from(plain.len() + packed.len()).unwrap() + page;
    let metrics = String::from_utf8(server.bytes("/metrics", "*/*").await.2.to_vec()).unwrap();
    let is_sum = |line: &&str| line.starts_with("apiserver_response_sizes_sum") && line.contains("LIST");
    let told: Vec<&str> = metrics.lines().filter(is_sum).collect();
    assert!(told.len() == 1 && told[0].ends_with(&format!(" {sent}.0")), "{sent} bytes: {told:?}");
}

/// Lists for people, small ones and such as are indented while they are sent.
#[tokio::test]
async fn lists_for_curl_are_indented_in_every_form() {
    let server = Server::start().await;
    let forms = ["Table;v=v1;g=meta.k8s.io", "PartialObjectMetadataList;v=v1;g=meta.k8s.io"];
    let forms = forms.map(|form| format!("application/json;as={form}"));
    for created in [0, 9] {
        create_large(&server, created).await;
        for accept in ["*/*", &forms[0], &forms[1]] {
            let accept = ("accept", accept);
            let compact = server.request("GET", GADGETS, &[accept, ("user-agent", "kubectl")], "").await;
            let compact = compact.into_body().collect().await.unwrap().to_bytes();
            let value: Value = serde_json::from_slice(&compact).unwrap();
            let indented = server.request("GET", GADGETS, &[accept, ("user-agent", "curl/8.0")], "").await;
            assert_eq!(indented.headers()["content-type"], "application/json");
            let is_whole = indented.body().size_hint().exact().is_some();
            assert_eq!(is_whole, compact.len() <= 128 * 1024, "{accept:?}");
            let indented = indented.into_body().collect().await.unwrap().to_bytes();
            assert!(indented == serde_json::to_vec_pretty(&value).unwrap(), "{accept:?}");
        }
    }
}

/// As the garbage collector requests it.
#[tokio::test]
async fn a_streamed_metadata_list_in_protobuf_equals_the_json_one() {
    let server = Server::start().await;
    create_large(&server, 9).await;
    let form = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let json = server.send("GET", GADGETS, &[("accept", &format!("application/json;{form}"))], "").await.1;
    let accept = format!("application/vnd.kubernetes.protobuf;{form}");
    let answer = server.request("GET", GADGETS, &[("accept", &accept)], "").await;
    assert_eq!(answer.body().size_hint().exact(), None);
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let list = protobuf::decode(&bytes, "PartialObjectMetadataList", PARTIAL_LIST).unwrap();
    let metadata = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"].clone()).collect()
    };
    assert_eq!(metadata(&list).len(), 9);
    assert_eq!(metadata(&list), metadata(&json));
}
