//! Attributes and calls that an older Octavia does not have.

use bytes::Bytes;
use serde_json::Value;

use crate::http::Reply;

/// Minor version that brought an attribute, a collection or a query parameter.
const SINCE: [(&str, u32); 9] = [
    ("timeout_client_data", 1),
    ("timeout_member_data", 1),
    ("tags", 5),
    ("flavor_id", 6),
    ("flavors", 6),
    ("additive_only", 11),
    ("allowed_cidrs", 12),
    ("availability_zone", 14),
    ("availabilityzones", 14),
];

/// Returns true if a name is newer than the minor version.
pub(super) fn is_newer(name: &str, minor: u32) -> bool {
    SINCE.iter().any(|(known, since)| *known == name && *since > minor)
}

/// Removes the attributes from a reply that are newer than the minor version.
pub(super) fn without_newer(reply: Reply, minor: u32) -> Reply {
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let Some(mut body) = body.filter(|_| SINCE.iter().any(|(_, since)| *since > minor)) else { return reply };
    remove_newer(&mut body, minor);
    Reply { body: Bytes::from(body.to_string()), ..reply }
}

fn remove_newer(value: &mut Value, minor: u32) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !is_newer(key, minor));
            fields.values_mut().for_each(|value| remove_newer(value, minor));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| remove_newer(value, minor)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
