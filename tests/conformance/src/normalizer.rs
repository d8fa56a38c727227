//! Normalization of responses: replaces what differs in each run (uids, times, revisions, generated names).
//!
//! Uids and revisions of objects become labels, numbered in the order in which they occur in a case. So the
//! comparison still tells "the same again" from "another one".

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::case::RequestStep;
use crate::client::ReceivedResponse;
use crate::transcript::Exchange;

/// Headers whose values are compared.
const VALUES: [&str; 9] = [
    "Allow",
    "Cache-Control",
    "Content-Encoding",
    "Content-Type",
    "Location",
    "Retry-After",
    "Vary",
    "Warning",
    "X-Content-Type-Options",
];

/// Headers of which only the presence is compared.
const PRESENCE: [&str; 4] = ["Audit-Id", "Etag", "Expires", "Last-Modified"];

/// Mark of JSON without a final newline, which is part of the format.
const WITHOUT_NEWLINE: &str = "<without newline>";

/// Normalizer of one case: the uids and revisions that occurred in it so far.
pub(crate) struct Normalizer {
    namespace: String,
    managed: bool,
    through_host: bool,
    uids: Vec<String>,
    revisions: Vec<String>,
    patterns: Patterns,
}

struct Patterns {
    uid: Option<Regex>,
    time: Option<Regex>,
    hash: Option<Regex>,
    generated: Option<Regex>,
    revision: Option<Regex>,
    age: Option<Regex>,
}

impl Patterns {
    fn new() -> Self {
        let regex = |pattern: &str| Regex::new(pattern).ok();
        Self {
            uid: regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            // Where a case wants a time to be compared, it writes one of the last century.
            time: regex(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
            hash: regex("[0-9A-F]{128}"),
            generated: regex("gen-[bcdfghjklmnpqrstvwxz2456789]{5}"),
            revision: regex(
                r#"(?P<before>current: |in record \(|resource version: \d+ \(|resourceVersion\\?":\s?\\?")\d+"#,
            ),
            age: regex(r"^\d+s$"),
        }
    }
}

impl Normalizer {
    pub(crate) fn new(namespace: &str, managed: bool, through_host: bool) -> Self {
        Self {
            namespace: namespace.to_owned(),
            managed,
            through_host,
            uids: Vec::new(),
            revisions: Vec::new(),
            patterns: Patterns::new(),
        }
    }

    /// Returns the parts of a response that are compared, normalized.
    pub(crate) fn normalized(&mut self, step: &RequestStep, response: &ReceivedResponse) -> Exchange {
        let request = step.request.clone();
        if step.setup {
            let status = if response.status < 300 { 0 } else { response.status };
            return Exchange { request, status, headers: BTreeMap::new(), body: Value::Null };
        }
        let headers = self.headers(&response.headers);
        let mut body = if step.no_body { Value::Null } else { parsed(step, &response.body) };
        if let Some(only) = &step.only {
            if let Some(whole) = body.get_mut(WITHOUT_NEWLINE).map(Value::take) {
                body = whole;
            }
            body = Value::Object(
                only.iter()
                    .map(|pointer| {
                        (pointer.clone(), found(&body, pointer).cloned().unwrap_or_else(|| json!("<absent>")))
                    })
                    .collect(),
            );
        }
        self.value(&mut body, "");
        Exchange { request, status: response.status, headers, body }
    }

    /// Returns a document, normalized.
    pub(crate) fn document(&mut self, mut document: Value) -> Value {
        self.value(&mut document, "");
        document
    }

    fn headers(&mut self, headers: &HeaderMap) -> BTreeMap<String, Value> {
        let mut kept = BTreeMap::new();
        for name in VALUES {
            let mut values: Vec<String> = headers
                .get_all(name)
                .iter()
                .map(|value| self.text(&String::from_utf8_lossy(value.as_bytes())))
                .collect();
            if self.through_host {
                // A host cluster sends its own value beside Capstan's.
                values.dedup();
            }
            match values.len() {
                0 => {}
                1 => drop(kept.insert(name.to_owned(), json!(values.remove(0)))),
                _ => drop(kept.insert(name.to_owned(), json!(values))),
            }
        }
        for name in PRESENCE.into_iter().filter(|name| headers.contains_key(*name)) {
            kept.insert(name.to_owned(), json!("<present>"));
        }
        kept
    }

    fn value(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(list) => {
                for item in list.iter_mut() {
                    if key == "cells"
                        && item.as_str().is_some_and(|text| matches(self.patterns.age.as_ref(), text))
                    {
                        *item = json!("<age>");
                    }
                    self.value(item, "");
                }
            }
            Value::String(text) => {
                if key == "continue" && !text.is_empty() {
                    *value = self.token(text);
                } else {
                    *text = self.text(text);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>) {
        if !self.managed {
            map.remove("managedFields");
        }
        if let Some(Value::Array(entries)) = map.get_mut("managedFields") {
            // Entries are ordered by whole seconds, so their order depends on when the case ran.
            entries.sort_by_key(|entry| {
                ["manager", "operation", "subresource", "apiVersion"]
                    .map(|key| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
            });
        }
        if let Some(Value::Array(causes)) = map.get_mut("causes") {
            // A schema's errors come in the random order of a Go map.
            causes.sort_by_key(Value::to_string);
        }
        if map.get("kind") == Some(&json!("Status")) {
            without_order(map);
        }
        let is_object = map.contains_key("uid");
        if let Some(Value::String(revision)) = map.get_mut("resourceVersion")
            && revision.parse::<u64>().is_ok_and(|revision| revision > 0)
        {
            *revision = if is_object {
                label("revision", &mut self.revisions, revision)
            } else {
                "<revision>".to_owned()
            };
        }
        let mut renamed = Map::new();
        for (key, mut value) in std::mem::take(map) {
            self.value(&mut value, &key);
            renamed.insert(self.text(&key), value);
        }
        *map = renamed;
    }

    /// Decodes a continue token: its revision is replaced, its position is compared.
    fn token(&mut self, token: &str) -> Value {
        let open =
            URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let Some(mut open) = open else { return json!("<token of another form>") };
        if let Some(revision) = open.get_mut("rv").filter(|revision| revision.as_i64() > Some(0)) {
            *revision = json!("<revision>");
        }
        self.value(&mut open, "");
        json!({"<token>": open})
    }

    fn text(&mut self, text: &str) -> String {
        let patterns = &self.patterns;
        let mut text = text.replace(&self.namespace, "{ns}");
        let uids = &mut self.uids;
        text = replace(patterns.uid.as_ref(), &text, |found| {
            label("uid", uids, found.get(0).map_or("", |uid| uid.as_str()))
        });
        text = replace(patterns.time.as_ref(), &text, |_| "<time>".to_owned());
        text = replace(patterns.hash.as_ref(), &text, |_| "<hash>".to_owned());
        text = replace(patterns.generated.as_ref(), &text, |_| "gen-<generated>".to_owned());
        replace(patterns.revision.as_ref(), &text, |found| {
            format!("{}<revision>", found.name("before").map_or("", |before| before.as_str()))
        })
    }
}

/// Shortens the message of a Status with several causes, which repeats them in a random order.
fn without_order(status: &mut Map<String, Value>) {
    let causes = status.get("details").and_then(|details| details.get("causes")).and_then(Value::as_array);
    let several = causes.is_some_and(|causes| causes.len() > 1);
    let Some(Value::String(message)) = status.get_mut("message").filter(|_| several) else { return };
    if let Some((before, _)) = message.split_once(" is invalid: [") {
        *message = format!("{before} is invalid: [<the causes>]");
    }
}

/// Returns the value at a pointer. A part `?a.b=c` is the element of a list whose field a.b is c.
fn found<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        let Some(wanted) = part.strip_prefix('?') else {
            return match value {
                Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get(index)),
                other => other.get(&part),
            };
        };
        let (path, wanted) = wanted.split_once('=')?;
        value
            .as_array()?
            .iter()
            .find(|item| path.split('.').try_fold(*item, |item, key| item.get(key)) == Some(&json!(wanted)))
    })
}

fn matches(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|pattern| pattern.is_match(text))
}

fn replace(pattern: Option<&Regex>, text: &str, by: impl FnMut(&Captures<'_>) -> String) -> String {
    pattern.map_or_else(|| text.to_owned(), |pattern| pattern.replace_all(text, by).into_owned())
}

fn label(what: &str, seen: &mut Vec<String>, value: &str) -> String {
    let known = seen.iter().position(|one| one == value);
    let index = known.unwrap_or_else(|| {
        seen.push(value.to_owned());
        seen.len() - 1
    });
    format!("<{what} {}>", index + 1)
}

/// Parses a body to a value.
fn parsed(step: &RequestStep, body: &[u8]) -> Value {
    let Ok(text) = std::str::from_utf8(body) else { return binary(body) };
    if body.starts_with(b"k8s\0") {
        return binary(body);
    }
    if step.events.is_some() {
        let lines = text.lines().take(step.events.unwrap_or_default());
        return lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if text.ends_with('\n') => value,
        Ok(value @ (Value::Object(_) | Value::Array(_))) => json!({WITHOUT_NEWLINE: value}),
        _ if text.is_empty() => Value::Null,
        _ => json!(text),
    }
}

fn binary(body: &[u8]) -> Value {
    json!({"<binary>": STANDARD.encode(body)})
}
