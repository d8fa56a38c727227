//! Handlers for Nova flavors.

use serde_json::{Value, json};

use super::model::Flavor;
use super::{bad_request, not_found};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::state::CloudState;

fn links(context: &Context<'_>, id: &str) -> Value {
    let base = &context.request.base_url;
    json!([
        {"rel": "self", "href": format!("{base}/compute/v2.1/flavors/{id}")},
        {"rel": "bookmark", "href": format!("{base}/compute/flavors/{id}")},
    ])
}

fn view(flavor: &Flavor, context: &Context<'_>, detail: bool) -> Value {
    let mut view = json!({"id": flavor.id, "name": flavor.name, "links": links(context, &flavor.id)});
    let Some(fields) = view.as_object_mut() else { return view };
    if context.microversion >= 55 {
        fields.insert("description".to_owned(), Value::Null);
    }
    if !detail {
        return view;
    }
    let swap = if context.microversion >= 75 { json!(0) } else { json!("") };
    let details = [
        ("ram", json!(flavor.ram)),
        ("disk", json!(flavor.disk)),
        ("vcpus", json!(flavor.vcpus)),
        ("swap", swap),
        ("OS-FLV-EXT-DATA:ephemeral", json!(0)),
        ("OS-FLV-DISABLED:disabled", json!(false)),
        ("os-flavor-access:is_public", json!(true)),
        ("rxtx_factor", json!(1.0)),
    ];
    fields.extend(details.map(|(key, value)| (key.to_owned(), value)));
    if context.microversion >= 61 {
        fields.insert("extra_specs".to_owned(), json!({}));
    }
    view
}

/// `GET /flavors` and `GET /flavors/detail`.
pub(super) fn list(state: &CloudState, context: &Context<'_>, detail: bool) -> HandlerResult {
    let query = &context.request.query;
    let start = match query.get("marker") {
        None => 0,
        Some(marker) => {
            let position = state.flavors.iter().position(|flavor| flavor.id == marker);
            position.ok_or_else(|| bad_request(&format!("marker [{marker}] not found")))? + 1
        }
    };
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let at_least = |key: &str| query.get(key).and_then(|value| value.parse::<i64>().ok()).unwrap_or_default();
    let (ram, disk) = (at_least("minRam"), at_least("minDisk"));
    let fits = |flavor: &&Flavor| flavor.ram >= ram && flavor.disk >= disk;
    let flavors = state.flavors.iter().skip(start).filter(fits).take(limit);
    let views: Vec<Value> = flavors.map(|flavor| view(flavor, context, detail)).collect();
    Ok(Reply::ok(&json!({"flavors": views})))
}

fn find<'a>(state: &'a CloudState, id: &str) -> Result<&'a Flavor, Reply> {
    let flavor = state.flavors.iter().find(|flavor| flavor.id == id);
    flavor.ok_or_else(|| not_found(&format!("Flavor {id} could not be found.")))
}

/// `GET /flavors/{id}/os-extra_specs`: no flavor has extra specs.
pub(super) fn extra_specs(state: &CloudState, id: &str) -> HandlerResult {
    find(state, id)?;
    Ok(Reply::ok(&json!({"extra_specs": {}})))
}

/// `GET /flavors/{id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let flavor = find(state, id)?;
    Ok(Reply::ok(&json!({"flavor": view(flavor, context, true)})))
}
