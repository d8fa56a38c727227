//! The life of an object: whatever the server takes it can show, in every form, and let go.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde_json::Value;

use crate::answer::{self, Answer};
use crate::finding::{Finding, Verdict, demand};
use crate::server::World;

/// The forms in which an object is shown.
const FORMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
];

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";

/// The name of the one that lives.
const NAME: &str = "life";

/// The input is a body for it, in JSON or as a patch of what was made without one.
pub(super) fn judge(world: &World, input: &[u8]) -> Verdict {
    let made = make(world, input)?;
    if made.code == 200 || made.code == 201 {
        let shown = shown(world);
        leave(world)?;
        return shown;
    }
    leave(world)
}

fn make(world: &World, input: &[u8]) -> Result<Answer, Finding> {
    let plain =
        format!(r#"{{"apiVersion":"lab.example.io/v1","kind":"Widget","metadata":{{"name":"{NAME}"}}}}"#);
    let is_object = serde_json::from_slice::<Value>(input).is_ok_and(|value| value.get("kind").is_some());
    let made = if is_object {
        ask(
            world,
            Method::PATCH,
            &format!("{WIDGETS}/{NAME}?fieldManager=fuzz"),
            "application/apply-patch+yaml",
            input,
        )?
    } else {
        ask(world, Method::POST, WIDGETS, "application/json", plain.as_bytes())?;
        let is_list = input.starts_with(b"[");
        let media = if is_list { "application/json-patch+json" } else { "application/merge-patch+json" };
        ask(world, Method::PATCH, &format!("{WIDGETS}/{NAME}"), media, input)?
    };
    answer::check(&made)?;
    Ok(made)
}

fn shown(world: &World) -> Verdict {
    for version in ["v1", "v1beta1"] {
        let path = format!("{}/{NAME}", WIDGETS.replace("/v1/", &format!("/{version}/")));
        for form in FORMS {
            let request = Request::get(&path).header(header::ACCEPT, form).body(Full::default());
            let answer = world.ask(request.map_err(|error| Finding(error.to_string()))?)?;
            answer::check(&answer)?;
            demand(answer.code == 200, || {
                format!("it was taken, and is not shown as {form}: {}", answer.code)
            })?;
        }
        let list = ask(world, Method::GET, WIDGETS, "", b"")?;
        demand(list.code == 200, || format!("it was taken, and the list is {}", list.code))?;
        let object = ask(world, Method::GET, &path, "", b"")?;
        let same = ask(world, Method::PUT, &path, "application/json", &object.body)?;
        demand(same.code == 200, || {
            format!("what was shown is not taken: {}", String::from_utf8_lossy(&same.body))
        })?;
        let (mut before, mut after) = (object.json(), same.json());
        // Who wrote, when, and at which revision is another matter.
        for object in [&mut before, &mut after] {
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            metadata.map(|metadata| ["managedFields", "resourceVersion"].map(|field| metadata.remove(field)));
        }
        demand(before == after, || format!("{before} is put, and is {after}"))?;
    }
    Ok(())
}

/// Whatever holds it lets it go.
fn leave(world: &World) -> Verdict {
    let path = format!("{WIDGETS}/{NAME}");
    let free = br#"{"metadata":{"finalizers":null}}"#;
    ask(world, Method::PATCH, &path, "application/merge-patch+json", free)?;
    ask(world, Method::DELETE, &path, "", b"")?;
    let left = ask(world, Method::GET, &path, "", b"")?;
    demand(left.code == 404, || format!("it is not let go: {}", String::from_utf8_lossy(&left.body)))
}

fn ask(world: &World, method: Method, target: &str, media: &str, body: &[u8]) -> Result<Answer, Finding> {
    let request = Request::builder().method(method).uri(target).header(header::CONTENT_TYPE, media);
    let request = request.body(Full::new(Bytes::copy_from_slice(body)));
    world.ask(request.map_err(|error| Finding(error.to_string()))?)
}
