//! Lists of network objects: filters, fields, order and pages.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::resource::{has_tags, is_visible, view, with_fields};
use super::{Kind, bad_request};
use crate::context::Context;
use crate::http::{Answer, Query, Reply};
use crate::object::{Object, set, text};
use crate::state::State;

/// What steers a list instead of narrowing it.
const STEERING: [&str; 7] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir", "verbose"];

/// `GET /{kind}`.
pub(super) fn list(state: &State, context: &Context<'_>, kind: Kind) -> Answer {
    let query = &context.request.query;
    let limit = limit(query)?;
    let mut found: Vec<&Object> = state
        .table(kind)
        .filter(|object| is_visible(state, &context.caller, kind, object))
        .filter(|object| matches(object, query))
        .collect();
    sort(&mut found, query);
    let reverse = query.get("page_reverse").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if reverse {
        found.reverse();
    }
    if let Some(marker) = query.get("marker") {
        let position = found.iter().position(|object| text(object, "id") == marker);
        let position = position.ok_or_else(|| kind.missing(marker))?;
        found.drain(..=position);
    }
    let is_full = limit.is_some_and(|limit| found.len() >= limit);
    found.truncate(limit.unwrap_or(usize::MAX));
    if reverse {
        found.reverse();
    }
    let fields: Vec<&str> = query.all("fields").collect();
    let views: Vec<Object> =
        found.iter().map(|object| with_fields(view(state, kind, object), &fields)).collect();
    let mut body = Object::new();
    set(&mut body, &kind.plural(), json!(views));
    if limit.is_some() && !found.is_empty() {
        set(&mut body, &format!("{}_links", kind.plural()), links(context, &found, is_full));
    }
    Ok(Reply::ok(&Value::Object(body)))
}

fn limit(query: &Query) -> Result<Option<usize>, Reply> {
    let Some(text) = query.get("limit") else { return Ok(None) };
    let words = format!("Bad limit request: Limit must be an integer 0 or greater and not '{text}'.");
    let limit: usize = text.parse().map_err(|_| bad_request("BadRequest", &words))?;
    Ok(Some(limit).filter(|limit| *limit > 0))
}

fn links(context: &Context<'_>, page: &[&Object], is_full: bool) -> Value {
    let link = |rel: &str, object: Option<&&Object>, suffix: &str| {
        let id = object.map(|object| text(object, "id")).unwrap_or_default();
        let request = context.request;
        let query = request.query.with_marker(id);
        json!({"rel": rel, "href": format!("{}{}?{query}{suffix}", request.base_url, request.path)})
    };
    let mut links = Vec::new();
    if is_full {
        links.push(link("next", page.last(), ""));
    }
    links.push(link("previous", page.first(), "&page_reverse=True"));
    Value::Array(links)
}

fn sort(found: &mut [&Object], query: &Query) {
    let keys: Vec<&str> = query.all("sort_key").collect();
    let directions: Vec<&str> = query.all("sort_dir").collect();
    found.sort_by(|one, other| {
        for (position, key) in keys.iter().enumerate() {
            let order = plain(one.get(*key)).cmp(&plain(other.get(*key)));
            let descending = directions.get(position) == Some(&"desc");
            if order != Ordering::Equal {
                return if descending { order.reverse() } else { order };
            }
        }
        text(one, "id").cmp(text(other, "id"))
    });
}

/// A plain value as filters write it.
fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
    }
}

fn matches(object: &Object, query: &Query) -> bool {
    query.keys().iter().filter(|key| !STEERING.contains(key)).all(|key| {
        let mut values = query.all(key);
        match *key {
            "tags" => values.all(|wanted| has_tags(object, wanted, true)),
            "tags-any" => values.any(|wanted| has_tags(object, wanted, false)),
            "not-tags" => !values.any(|wanted| has_tags(object, wanted, true)),
            "not-tags-any" => !values.any(|wanted| has_tags(object, wanted, false)),
            "fixed_ips" => matches_addresses(object, query),
            // A filter on what the kind does not have is no filter, as in Neutron.
            _ => object.get(*key).is_none_or(|held| values.any(|wanted| equals(held, wanted))),
        }
    })
}

fn equals(held: &Value, wanted: &str) -> bool {
    match held {
        Value::Bool(flag) => match wanted.to_lowercase().as_str() {
            "true" | "1" => *flag,
            "false" | "0" => !flag,
            _ => false,
        },
        Value::Array(items) => items.iter().any(|item| plain(Some(item)) == wanted),
        Value::Null => wanted.is_empty() || wanted == "None",
        Value::String(_) | Value::Number(_) | Value::Object(_) => plain(Some(held)) == wanted,
    }
}

/// `fixed_ips=ip_address=10.0.0.1&fixed_ips=subnet_id=...`: any of the values of each attribute, and
/// all of the attributes, by some address of the port.
fn matches_addresses(port: &Object, query: &Query) -> bool {
    let wanted: Vec<(&str, &str)> =
        query.all("fixed_ips").filter_map(|filter| filter.split_once('=')).collect();
    let attribute = |fixed: &Value, name: &str| {
        let (key, partial) = if name == "ip_address_substr" { ("ip_address", true) } else { (name, false) };
        let held = fixed.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut values = wanted.iter().filter(|(wanted, _)| *wanted == name).map(|(_, value)| *value);
        values.any(|value| if partial { held.contains(value) } else { held == value })
    };
    let fixed = crate::object::list(port, "fixed_ips");
    fixed.iter().any(|fixed| wanted.iter().all(|(name, _)| attribute(fixed, name)))
}
