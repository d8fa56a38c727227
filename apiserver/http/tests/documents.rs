//! Tests of discovery and OpenAPI, fetched as aggregators and clients fetch them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::Server;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn legacy_discovery_lists_versions_and_resources() {
    let server = Server::start().await;
    let (_, group) = server.get("/apis/toys.example.com").await;
    let version =
        |version: &str| json!({"groupVersion": format!("toys.example.com/{version}"), "version": version});
    assert_eq!(
        group,
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "toys.example.com",
        "versions": [version("v1"), version("v1beta1")], "preferredVersion": version("v1")})
    );
    let (_, list) = server.get("/apis/toys.example.com/v1").await;
    let names: Vec<&Value> =
        list["resources"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["gadgets", "gadgets/status", "swarms", "swarms/status", "swarms/scale"]);
    assert_eq!(
        list["resources"][4],
        json!({"name": "swarms/scale", "singularName": "", "namespaced": true,
        "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]})
    );
    let (_, older) = server.get("/apis/toys.example.com/v1beta1").await;
    let hash = |list: &Value| list["resources"][0]["storageVersionHash"].clone();
    assert_eq!(hash(&older), hash(&list), "both are stored in one version");
    let (_, api) = server.get("/api").await;
    assert_eq!(api["serverAddressByClientCIDRs"][0]["serverAddress"], "test");
    let (_, _, yaml) = server.bytes("/apis", "application/yaml").await;
    assert!(yaml.starts_with(b"apiVersion: v1"), "{yaml:?}");
    let (_, paths) = server.get("/").await;
    for path in ["/apis/toys.example.com/v1beta1", "/openapi/v3", "/metrics"] {
        assert!(paths["paths"].as_array().unwrap().contains(&json!(path)), "{paths}");
    }
    let (_, version) = server.get("/version").await;
    assert_eq!(
        (&version["major"], &version["minor"], &version["minCompatibilityMinor"]),
        (&json!("1"), &json!("36"), &json!("35"))
    );
}

#[tokio::test]
async fn aggregated_discovery_has_an_etag_and_is_complete() {
    let server = Server::start().await;
    let old = AGGREGATED.replace("v2", "v2beta1");
    for accept in [
        AGGREGATED.to_owned(),
        format!("{AGGREGATED},{old},application/json"),
        format!("{AGGREGATED};profile=nopeer"),
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io".to_owned(),
    ] {
        let answer = server.request("GET", "/apis", &[("accept", &accept)], "").await;
        let headers = answer.headers().clone();
        assert_eq!(
            (answer.status().as_u16(), headers["content-type"].to_str().unwrap()),
            (200, AGGREGATED),
            "{accept}"
        );
        assert_eq!(
            (headers["vary"].to_str().unwrap(), headers["cache-control"].to_str().unwrap()),
            ("Accept", "public")
        );
        let tag = headers["etag"].to_str().unwrap();
        assert_eq!(tag.len(), 130);
        let again = server.request("GET", "/apis", &[("accept", &accept), ("if-none-match", tag)], "").await;
        assert_eq!((again.status().as_u16(), again.headers().get("content-type")), (304, None));
        assert_eq!(again.headers()["etag"], tag);
    }
    assert_eq!(server.bytes("/apis", &old).await.0, 406);
    let (_, media, _) = server.bytes("/apis", &format!("{old},application/json")).await;
    assert_eq!(media, "application/json");
    let (_, _, body) = server.bytes("/apis", AGGREGATED).await;
    let all: Value = serde_json::from_slice(&body).unwrap();
    let toys = &all["items"][0];
    assert_eq!(toys["metadata"], json!({"name": "toys.example.com"}));
    let swarms = &toys["versions"][0]["resources"][1];
    let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(
        (&swarms["subresources"][1]["subresource"], &swarms["subresources"][1]["responseKind"]),
        (&json!("scale"), &scale)
    );
    assert_eq!(toys["versions"][1]["version"], "v1beta1");
}

#[tokio::test]
async fn open_api_v3_is_cached_by_hash() {
    let server = Server::start().await;
    let (_, index) = server.get("/openapi/v3").await;
    for name in [
        "api",
        "api/v1",
        "apis",
        "apis/authentication.k8s.io",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
        "apis/toys.example.com/v1",
        "apis/toys.example.com/v1beta1",
        "version",
    ] {
        let url = index["paths"][name]["serverRelativeURL"].as_str().unwrap();
        assert_eq!(server.get(url).await.1["openapi"], "3.0.0", "{name}");
    }
    let url = index["paths"]["apis/toys.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let answer = server.request("GET", url, &[], "").await;
    let headers = answer.headers().clone();
    assert_eq!(headers["cache-control"], "public, immutable");
    assert!(headers["expires"].to_str().unwrap().ends_with(" GMT") && headers.contains_key("last-modified"));
    let tag = headers["etag"].to_str().unwrap();
    assert!(url.ends_with(tag.trim_matches('"')));
    assert_eq!(server.request("GET", url, &[("if-none-match", tag)], "").await.status(), 304);
    let date = headers["last-modified"].to_str().unwrap();
    for (header, value, code) in [
        ("if-none-match", format!("\"a\", W/{tag}"), 304),
        ("if-none-match", "*".to_owned(), 304),
        ("if-none-match", "\"a\"".to_owned(), 200),
        ("if-modified-since", date.to_owned(), 304),
        ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), 200),
        ("if-modified-since", "yesterday".to_owned(), 200),
    ] {
        let answer = server.request("GET", url, &[(header, &value)], "").await;
        assert_eq!(answer.status(), code, "{header}: {value}");
    }
    let plain = url.split('?').next().unwrap();
    for form in ["v3@v1.0", "v3.v1.0"] {
        let accept = format!("application/com.github.proto-openapi.spec.{form}+protobuf");
        let answer = server.request("GET", plain, &[("accept", &accept)], "").await;
        let found = (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap());
        assert_eq!(found, (200, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"));
        assert_eq!(answer.headers()["etag"], headers["etag"]);
    }
    for none in ["/openapi/v3/", "/openapi/v3/apis/toys.example.com", "/openapi/v2/", &format!("{plain}/")] {
        assert_eq!(server.request("GET", none, &[], "").await.status(), 404, "{none}");
    }
    let moved = server.request("GET", &format!("{plain}?hash=ABC"), &[], "").await;
    assert_eq!((moved.status().as_u16(), moved.headers()["location"].to_str().unwrap()), (301, url));
    let unhashed = server.request("GET", plain, &[], "").await;
    assert_eq!(
        (&unhashed.headers()["cache-control"], unhashed.headers().get("expires")),
        (&"no-cache, private".parse().unwrap(), None)
    );
    let missing = server.request("GET", "/openapi/v3/apis/nope/v1", &[], "").await;
    assert_eq!(missing.status(), 404);
    assert!(missing.into_body().collect().await.unwrap().to_bytes().is_empty());
    assert_eq!(server.request("GET", url, &[("accept", "text/html")], "").await.status(), 406);
}

#[tokio::test]
async fn open_api_v3_has_all_parts_that_clients_use() {
    let server = Server::start().await;
    let (_, document) = server.get("/openapi/v3/apis/toys.example.com/v1").await;
    let item = &document["paths"]["/apis/toys.example.com/v1/namespaces/{namespace}/swarms/{name}"];
    let patch = &item["patch"];
    let kind = json!({"group": "toys.example.com", "version": "v1", "kind": "Swarm"});
    assert_eq!(
        (&patch["x-kubernetes-group-version-kind"], &patch["x-kubernetes-action"]),
        (&kind, &json!("patch"))
    );
    let names: Vec<&Value> = patch["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
        assert!(names.contains(&&json!(name)), "{names:?}");
    }
    let forms: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        forms,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    let scale =
        &document["paths"]["/apis/toys.example.com/v1/namespaces/{namespace}/swarms/{name}/scale"]["put"];
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(scale["x-kubernetes-group-version-kind"], kind);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in [
        "com.example.toys.v1.Swarm",
        "com.example.toys.v1.SwarmList",
        "io.k8s.api.autoscaling.v1.Scale",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    ] {
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn open_api_v2_comes_in_json_and_protobuf() {
    let server = Server::start().await;
    let (code, media, json) = server.bytes("/openapi/v2", "application/json").await;
    assert_eq!((code, media.as_str()), (200, "application/json"));
    let document: Value = serde_json::from_slice(&json).unwrap();
    let patch =
        &document["paths"]["/apis/toys.example.com/v1/namespaces/{namespace}/gadgets/{name}"]["patch"];
    assert_eq!(patch["consumes"].as_array().unwrap().len(), 3);
    let requested = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = server.request("GET", "/openapi/v2", &[("accept", requested)], "").await;
    assert_eq!(
        answer.headers()["content-type"],
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"\x0a\x032.0\x12"), "{:?}", body.get(..20));
    let name = b"com.example.toys.v1.Gadget";
    assert!(body.windows(name.len()).any(|part| part == name));
    let again =
        server.request("GET", "/openapi/v2", &[("accept", requested), ("if-none-match", &tag)], "").await;
    assert_eq!(again.status(), 304);
    assert_eq!(server.request("GET", "/openapi/v2", &[("accept", "text/html")], "").await.status(), 406);
}
