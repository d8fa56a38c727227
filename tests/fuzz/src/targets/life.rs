//! Target for the life cycle of an object: the server can return every object that it accepts, in every
//! format, and can delete it.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde_json::Value;

use crate::finding::{Finding, Verdict, demand};
use crate::response::{self, ReceivedResponse};
use crate::server::FuzzServer;

/// Formats in which an object is returned.
const FORMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
];

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";

/// Name of the object.
const NAME: &str = "life";

/// Uses the input as the body of the object: as JSON, or as a patch of an empty object.
pub(super) fn check(server: &FuzzServer, input: &[u8]) -> Verdict {
    let created = create(server, input)?;
    if created.code == 200 || created.code == 201 {
        let reads = check_reads(server);
        delete(server)?;
        return reads;
    }
    delete(server)
}

fn create(server: &FuzzServer, input: &[u8]) -> Result<ReceivedResponse, Finding> {
    let plain =
        format!(r#"{{"apiVersion":"lab.example.io/v1","kind":"Widget","metadata":{{"name":"{NAME}"}}}}"#);
    let is_object = serde_json::from_slice::<Value>(input).is_ok_and(|value| value.get("kind").is_some());
    let created = if is_object {
        send(
            server,
            Method::PATCH,
            &format!("{WIDGETS}/{NAME}?fieldManager=fuzz"),
            "application/apply-patch+yaml",
            input,
        )?
    } else {
        send(server, Method::POST, WIDGETS, "application/json", plain.as_bytes())?;
        let is_list = input.starts_with(b"[");
        let media = if is_list { "application/json-patch+json" } else { "application/merge-patch+json" };
        send(server, Method::PATCH, &format!("{WIDGETS}/{NAME}"), media, input)?
    };
    response::check(&created)?;
    Ok(created)
}

fn check_reads(server: &FuzzServer) -> Verdict {
    for version in ["v1", "v1beta1"] {
        let path = format!("{}/{NAME}", WIDGETS.replace("/v1/", &format!("/{version}/")));
        for form in FORMS {
            let request = Request::get(&path).header(header::ACCEPT, form).body(Full::default());
            let response = server.send(request.map_err(|error| Finding(error.to_string()))?)?;
            response::check(&response)?;
            demand(response.code == 200, || {
                format!("the object was accepted, and is not returned as {form}: {}", response.code)
            })?;
        }
        let list = send(server, Method::GET, WIDGETS, "", b"")?;
        demand(list.code == 200, || format!("the object was accepted, and the list is {}", list.code))?;
        let object = send(server, Method::GET, &path, "", b"")?;
        let same = send(server, Method::PUT, &path, "application/json", &object.body)?;
        demand(same.code == 200, || {
            format!("the returned object is not accepted: {}", String::from_utf8_lossy(&same.body))
        })?;
        let (mut before, mut after) = (object.json(), same.json());
        // Managers, times and revisions may differ.
        for object in [&mut before, &mut after] {
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            metadata.map(|metadata| ["managedFields", "resourceVersion"].map(|field| metadata.remove(field)));
        }
        demand(before == after, || format!("{before} was sent, and {after} was returned"))?;
    }
    Ok(())
}

/// Removes the finalizers, and deletes the object.
fn delete(server: &FuzzServer) -> Verdict {
    let path = format!("{WIDGETS}/{NAME}");
    let free = br#"{"metadata":{"finalizers":null}}"#;
    send(server, Method::PATCH, &path, "application/merge-patch+json", free)?;
    send(server, Method::DELETE, &path, "", b"")?;
    let left = send(server, Method::GET, &path, "", b"")?;
    demand(left.code == 404, || format!("the object is not deleted: {}", String::from_utf8_lossy(&left.body)))
}

fn send(
    server: &FuzzServer,
    method: Method,
    target: &str,
    media: &str,
    body: &[u8],
) -> Result<ReceivedResponse, Finding> {
    let request = Request::builder().method(method).uri(target).header(header::CONTENT_TYPE, media);
    let request = request.body(Full::new(Bytes::copy_from_slice(body)));
    server.send(request.map_err(|error| Finding(error.to_string()))?)
}
