//! Tests of response formats: encodings of errors and metadata, watch frames, indentation and lengths.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_machinery::protobuf::{self, METADATA, PARTIAL_LIST};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const AS_METADATA: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn with_a_gadget() -> Server {
    let server = Server::start().await;
    let gadget = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "spec": {"size": 1},
        "metadata": {"name": "a", "labels": {"app": "x"}, "finalizers": ["x.io/y"]}});
    assert_eq!(server.post(GADGETS, &gadget).await.0, 201);
    server
}

#[tokio::test]
async fn errors_use_the_requested_encoding() {
    let server = with_a_gadget().await;
    let missing = format!("{GADGETS}/zzz");
    let table = [
        (missing.as_str(), "application/json", 404, "application/json", "{\"apiVersion\""),
        (&missing, "application/yaml", 404, "application/yaml", "apiVersion: v1"),
        (
            &missing,
            "application/vnd.kubernetes.protobuf;q=0.5,application/yaml",
            404,
            "application/yaml",
            "apiVersion: v1",
        ),
        (&missing, "application/json;as=Table;g=meta.k8s.io;v=v1", 404, "application/json", "{\n"),
        (&missing, "text/html", 406, "application/json", "{\n"),
        (&missing, PROTOBUF, 406, PROTOBUF, "k8s\0"),
        (GADGETS, PROTOBUF, 406, PROTOBUF, "k8s\0"),
    ];
    for (path, accept, code, media, start) in table {
        let (found, found_media, body) = server.bytes(path, accept).await;
        assert_eq!((found, found_media.as_str()), (code, media), "{accept}");
        assert!(body.starts_with(start.as_bytes()), "{accept}: {body:?}");
    }
    let answer = server.request("GET", GADGETS, &[("accept", "application/yaml")], "").await;
    assert_eq!(answer.headers().get("content-type").unwrap(), "application/yaml");
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_saphyr::from_slice(&text).unwrap();
    assert_eq!(list, server.get(GADGETS).await.1);
}

#[tokio::test]
async fn metadata_comes_in_every_encoding() {
    let server = with_a_gadget().await;
    let (_, whole) = server.get(&format!("{GADGETS}/a")).await;
    let (code, media, body) =
        server.bytes(&format!("{GADGETS}/a"), &format!("{PROTOBUF};{AS_METADATA},application/json")).await;
    assert_eq!((code, media.as_str()), (200, PROTOBUF));
    let decoded = protobuf::decode(&body, "PartialObjectMetadata", &[METADATA]).unwrap();
    assert_eq!(decoded["metadata"], whole["metadata"]);
    assert_eq!(decoded["apiVersion"], "meta.k8s.io/v1");
    let list = AS_METADATA.replace("Metadata;", "MetadataList;");
    let (code, media, body) = server.bytes(GADGETS, &format!("{PROTOBUF};{list}")).await;
    assert_eq!((code, media.as_str()), (200, PROTOBUF));
    let decoded = protobuf::decode(&body, "PartialObjectMetadataList", PARTIAL_LIST).unwrap();
    assert_eq!(decoded["items"], json!([{"metadata": whole["metadata"]}]));
    assert_eq!(
        decoded["metadata"],
        json!({"resourceVersion": server.get(GADGETS).await.1["metadata"]["resourceVersion"]})
    );
    let beta = AS_METADATA.replace("v=v1", "v=v1beta1");
    let (_, _, body) = server.bytes(&format!("{GADGETS}/a"), &format!("application/json;{beta}")).await;
    let partial: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(partial["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(partial.get("spec"), None);
    let (code, _, body) = server.bytes(GADGETS, &format!("application/json;{AS_METADATA}")).await;
    let refusal: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(code, 406);
    assert!(refusal["message"].as_str().unwrap().starts_with("you requested PartialObjectMetadata, but"));
}

/// `(type, object)` of each frame in a stream.
fn frames(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, after) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        // WatchEvent{type, object: RawExtension{raw}}: the object begins with its own envelope.
        let end = 2 + usize::from(frame[1]);
        let at = frame.windows(4).position(|part| part == b"k8s\0").unwrap();
        found.push((String::from_utf8(frame[2..end].to_vec()).unwrap(), frame[at..].to_vec()));
        bytes = after;
    }
    found
}

#[tokio::test]
async fn a_watch_of_metadata_is_a_stream_of_frames() {
    let server = with_a_gadget().await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let (code, media, body) =
        server.bytes(&format!("{GADGETS}?{query}"), &format!("{PROTOBUF};{AS_METADATA};stream=watch")).await;
    assert_eq!((code, media.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let frames = frames(&body);
    let decode = |bytes: &[u8]| protobuf::decode(bytes, "PartialObjectMetadata", &[METADATA]).unwrap();
    let (_, whole) = server.get(&format!("{GADGETS}/a")).await;
    assert!(whole["metadata"]["managedFields"][0]["fieldsV1"].is_object());
    assert_eq!((frames[0].0.as_str(), &decode(&frames[0].1)["metadata"]), ("ADDED", &whole["metadata"]));
    let end = decode(&frames[1].1);
    assert_eq!(frames[1].0, "BOOKMARK");
    assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let (code, _, body) = server.bytes(&format!("{GADGETS}?watch=true"), "application/yaml").await;
    assert_eq!(code, 406);
    assert!(String::from_utf8_lossy(&body).contains("application/json;stream=watch"), "{body:?}");
    assert_eq!(server.bytes(&format!("{GADGETS}?watch=true"), PROTOBUF).await.0, 406);
}

#[tokio::test]
async fn curl_gets_indented_json_and_head_responses_have_a_length() {
    let server = with_a_gadget().await;
    let curl = [("user-agent", "curl/8.5.0")];
    for (path, lines) in [
        (format!("{GADGETS}/a"), true),
        (format!("{GADGETS}/a?pretty=false"), false),
        (GADGETS.to_owned(), true),
    ] {
        let answer = server.request("GET", &path, &curl, "").await;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.starts_with(b"{\n  \""), lines, "{path}");
        assert_ne!(body.ends_with(b"\n"), lines, "{path}");
    }
    let (_, _, whole) = server.bytes(&format!("{GADGETS}/a"), "application/json").await;
    let head = server.request("HEAD", &format!("{GADGETS}/a"), &[("accept", "application/json")], "").await;
    assert_eq!(head.headers().get("content-length").unwrap(), &whole.len().to_string());
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
}
