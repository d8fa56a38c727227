//! Lists of network resources: filters, fields, order and pages.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::resource::{has_tags, is_visible, view, with_fields};
use super::{ResourceKind, bad_request};
use crate::context::Context;
use crate::http::{HandlerResult, Query, Reply};
use crate::object::{Object, set, text};
use crate::state::CloudState;

/// Query parameters that are not filters.
const LIST_OPTIONS: [&str; 7] =
    ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir", "verbose"];

/// `GET /{kind}`.
pub(super) fn list(state: &CloudState, context: &Context<'_>, kind: ResourceKind) -> HandlerResult {
    let query = &context.request.query;
    let limit = limit(query)?;
    let mut found = candidates(state, kind, query);
    found.retain(|object| is_visible(state, &context.caller, kind, object));
    let keys = query.keys();
    found.retain(|object| matches(object, query, &keys));
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

/// Returns a value in the form that filters use.
fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
    }
}

/// Returns all resources that the filters can match. With a filter by an attribute in the index they are few.
fn candidates<'a>(state: &'a CloudState, kind: ResourceKind, query: &Query) -> Vec<&'a Object> {
    let narrowed = query.keys().into_iter().filter_map(|key| {
        let values: Vec<&str> = query.all(key).collect();
        state.network.candidates(kind, key, &values)
    });
    narrowed.min_by_key(Vec::len).unwrap_or_else(|| state.table(kind).collect())
}

fn matches(object: &Object, query: &Query, keys: &[&str]) -> bool {
    keys.iter().filter(|key| !LIST_OPTIONS.contains(key)).all(|key| {
        let mut values = query.all(key);
        match *key {
            "tags" => values.all(|requested| has_tags(object, requested, true)),
            "tags-any" => values.any(|requested| has_tags(object, requested, false)),
            "not-tags" => !values.any(|requested| has_tags(object, requested, true)),
            "not-tags-any" => !values.any(|requested| has_tags(object, requested, false)),
            "fixed_ips" => matches_addresses(object, query),
            // Times of one form compare like texts.
            "changed_since" => values.all(|since| text(object, "updated_at") >= since),
            // A filter on an attribute that the kind does not have is ignored, as in Neutron.
            _ => object.get(*key).is_none_or(|held| values.any(|requested| equals(held, requested))),
        }
    })
}

fn equals(held: &Value, requested: &str) -> bool {
    match held {
        Value::Bool(flag) => match requested.to_lowercase().as_str() {
            "true" | "1" => *flag,
            "false" | "0" => !flag,
            _ => false,
        },
        Value::Array(items) => items.iter().any(|item| plain(Some(item)) == requested),
        Value::Null => requested.is_empty() || requested == "None",
        Value::String(_) | Value::Number(_) | Value::Object(_) => plain(Some(held)) == requested,
    }
}

/// Matches `fixed_ips=ip_address=10.0.0.1&fixed_ips=subnet_id=...`: some address of the port must have all
/// attributes, each with any of its values.
fn matches_addresses(port: &Object, query: &Query) -> bool {
    let requested: Vec<(&str, &str)> =
        query.all("fixed_ips").filter_map(|filter| filter.split_once('=')).collect();
    let attribute = |fixed: &Value, name: &str| {
        let (key, partial) = if name == "ip_address_substr" { ("ip_address", true) } else { (name, false) };
        let held = fixed.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut values =
            requested.iter().filter(|(requested, _)| *requested == name).map(|(_, value)| *value);
        values.any(|value| if partial { held.contains(value) } else { held == value })
    };
    let fixed = crate::object::list(port, "fixed_ips");
    fixed.iter().any(|fixed| requested.iter().all(|(name, _)| attribute(fixed, name)))
}
