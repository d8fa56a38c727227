//! Bodies of writes, none of which is kept: objects in JSON and YAML, patches, configurations.

use http::{Method, Request, header};
use serde_json::Value;

use super::requests;
use crate::finding::Verdict;
use crate::server::{World, path};

const WIDGET: &str = "/apis/lab.example.io/v1/namespaces/default/widgets/w";

/// An object of whatever kind it says it is, else of widgets; created, and put where one is.
pub(super) fn json(world: &World, input: &[u8]) -> Verdict {
    let value = serde_json::from_slice(input).unwrap_or_default();
    object(world, input, &value, "application/json")
}

pub(super) fn yaml(world: &World, input: &[u8]) -> Verdict {
    // The kind is looked for in the text: the decoder is asked once, by the server.
    let text = String::from_utf8_lossy(input);
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Value::from(line.unwrap_or_default().trim())
    };
    let value = serde_json::json!({"apiVersion": field("apiVersion:"), "kind": field("kind:")});
    object(world, input, &value, "application/yaml")
}

fn object(world: &World, input: &[u8], value: &Value, media: &str) -> Verdict {
    let collection = world.resource(value).map(|resource| path(resource, "default"));
    let collection = collection.unwrap_or_else(|| WIDGET.trim_end_matches("/w").to_owned());
    let name = value.pointer("/metadata/name").and_then(Value::as_str).filter(|name| is_plain(name));
    let one = format!("{collection}/{}", name.unwrap_or("w"));
    let asked = [
        (Method::POST, format!("{collection}?dryRun=All")),
        (Method::POST, format!("{collection}?dryRun=All&fieldValidation=Strict")),
        (Method::PUT, format!("{one}?dryRun=All")),
        (Method::PUT, format!("{one}/status?dryRun=All")),
    ];
    for (method, target) in asked {
        let request = Request::builder().method(method).uri(target).header(header::CONTENT_TYPE, media);
        requests::ask(world, request, input)?;
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.len() < 100
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A JSON patch when it is a list, else a merge patch; of a widget, of its status and of its scale,
/// and of a kind that is merged by rules of its own.
pub(super) fn patch(world: &World, input: &[u8]) -> Verdict {
    let is_list = input.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let media = if is_list { "application/json-patch+json" } else { "application/merge-patch+json" };
    let parts =
        ["?dryRun=All", "?dryRun=All&fieldValidation=Strict", "/status?dryRun=All", "/scale?dryRun=All"];
    for part in parts {
        let request = Request::patch(format!("{WIDGET}{part}")).header(header::CONTENT_TYPE, media);
        requests::ask(world, request, input)?;
    }
    let media = if is_list { media } else { "application/strategic-merge-patch+json" };
    let request = Request::patch("/api/v1/namespaces/default?dryRun=All").header(header::CONTENT_TYPE, media);
    requests::ask(world, request, input)
}

/// A configuration, for an object that is there and for one that is not.
pub(super) fn apply(world: &World, input: &[u8]) -> Verdict {
    let media = "application/apply-patch+yaml";
    let older = WIDGET.replace("/v1/", "/v1beta1/");
    for target in [WIDGET, &older, "/apis/lab.example.io/v1/namespaces/default/widgets/new"] {
        for options in ["", "&force=true&fieldValidation=Strict"] {
            let target = format!("{target}?dryRun=All&fieldManager=fuzz{options}");
            let request = Request::patch(target).header(header::CONTENT_TYPE, media);
            requests::ask(world, request, input)?;
        }
    }
    Ok(())
}
