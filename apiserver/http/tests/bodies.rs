//! Bodies in the forms that clients send and ask for, through the one door.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn options_of_a_deletion_may_come_in_protobuf_and_objects_of_unknown_kinds_may_not() {
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
async fn fields_that_occur_twice_are_reported_as_asked() {
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
async fn warnings_stay_within_what_a_header_can_be() {
    let server = Server::start().await;
    let mut object = gadget("a");
    for index in 0..300 {
        object["spec"][format!("{}{index}", "x".repeat(400))] = json!(1);
    }
    let answer = server.request("POST", GADGETS, &[], object.to_string()).await;
    let total: usize = answer.headers().get_all("warning").iter().map(|value| value.len()).sum();
    assert!(answer.status() == 201 && total > 0 && total < 5000, "{total}");
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_ask() {
    use std::io::Read;

    use http_body_util::BodyExt;

    let server = Server::start().await;
    let gzip = [("accept-encoding", "gzip")];
    for index in 0..3 {
        let mut object = gadget(&format!("g{index}"));
        object["metadata"]["annotations"] = json!({"a": "x".repeat(60_000)});
        assert_eq!(server.post(GADGETS, &object).await.0, 201);
    }
    let small = server.request("GET", &format!("{GADGETS}/g0"), &gzip, "").await;
    assert_eq!(small.headers().get("content-encoding"), None);
    let plain = server.request("GET", GADGETS, &[], "").await;
    assert_eq!(plain.headers().get("content-encoding"), None);
    let plain = plain.into_body().collect().await.unwrap().to_bytes();
    let answer = server.request("GET", GADGETS, &gzip, "").await;
    assert_eq!(answer.headers().get("content-encoding").unwrap(), "gzip");
    assert_eq!(answer.headers().get("vary").unwrap(), "Accept-Encoding");
    let packed = answer.into_body().collect().await.unwrap().to_bytes();
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.as_ref()).read_to_end(&mut unpacked).unwrap();
    assert!(packed.len() * 10 < plain.len() && unpacked == plain, "{} of {}", packed.len(), plain.len());
    let watch = server.request("GET", &format!("{GADGETS}?watch=true&resourceVersion=0"), &gzip, "").await;
    assert_eq!(watch.headers().get("content-encoding"), None);
}
