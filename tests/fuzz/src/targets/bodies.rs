//! Targets for bodies of writes: objects in JSON and YAML, patches and apply configurations. No write is
//! persisted.

use http::{Method, Request, header};
use serde_json::Value;

use super::requests;
use crate::finding::Verdict;
use crate::server::{FuzzServer, path};

const WIDGET: &str = "/apis/lab.example.io/v1/namespaces/default/widgets/w";

/// Creates and replaces an object of the kind that the input names, or of the Widget kind.
pub(super) fn json(server: &FuzzServer, input: &[u8]) -> Verdict {
    let value = serde_json::from_slice(input).unwrap_or_default();
    object(server, input, &value, "application/json")
}

pub(super) fn yaml(server: &FuzzServer, input: &[u8]) -> Verdict {
    // The kind is found in the text, so that only the server decodes the input.
    let text = String::from_utf8_lossy(input);
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Value::from(line.unwrap_or_default().trim())
    };
    let value = serde_json::json!({"apiVersion": field("apiVersion:"), "kind": field("kind:")});
    object(server, input, &value, "application/yaml")
}

fn object(server: &FuzzServer, input: &[u8], value: &Value, media: &str) -> Verdict {
    let collection = server.resource(value).map(|resource| path(resource, "default"));
    let collection = collection.unwrap_or_else(|| WIDGET.trim_end_matches("/w").to_owned());
    let name = value.pointer("/metadata/name").and_then(Value::as_str).filter(|name| is_plain(name));
    let one = format!("{collection}/{}", name.unwrap_or("w"));
    let requests_of_object = [
        (Method::POST, format!("{collection}?dryRun=All")),
        (Method::POST, format!("{collection}?dryRun=All&fieldValidation=Strict")),
        (Method::PUT, format!("{one}?dryRun=All")),
        (Method::PUT, format!("{one}/status?dryRun=All")),
    ];
    for (method, target) in requests_of_object {
        let request = Request::builder().method(method).uri(target).header(header::CONTENT_TYPE, media);
        requests::send(server, request, input)?;
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.len() < 100
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Applies a JSON patch if the input is a list, or else a merge patch: to a widget, to its status and its
/// scale, and to a kind with merge rules of its own.
pub(super) fn patch(server: &FuzzServer, input: &[u8]) -> Verdict {
    let is_list = input.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let media = if is_list { "application/json-patch+json" } else { "application/merge-patch+json" };
    let parts =
        ["?dryRun=All", "?dryRun=All&fieldValidation=Strict", "/status?dryRun=All", "/scale?dryRun=All"];
    for part in parts {
        let request = Request::patch(format!("{WIDGET}{part}")).header(header::CONTENT_TYPE, media);
        requests::send(server, request, input)?;
    }
    let media = if is_list { media } else { "application/strategic-merge-patch+json" };
    let request = Request::patch("/api/v1/namespaces/default?dryRun=All").header(header::CONTENT_TYPE, media);
    requests::send(server, request, input)
}

/// Applies a configuration to an existing and to an absent object.
pub(super) fn apply(server: &FuzzServer, input: &[u8]) -> Verdict {
    let media = "application/apply-patch+yaml";
    let older = WIDGET.replace("/v1/", "/v1beta1/");
    for target in [WIDGET, &older, "/apis/lab.example.io/v1/namespaces/default/widgets/new"] {
        for options in ["", "&force=true&fieldValidation=Strict"] {
            let target = format!("{target}?dryRun=All&fieldManager=fuzz{options}");
            let request = Request::patch(target).header(header::CONTENT_TYPE, media);
            requests::send(server, request, input)?;
        }
    }
    Ok(())
}
