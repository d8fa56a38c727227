//! The form in which objects and lists go out: whole, as metadata, or as a table.

use std::sync::Arc;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{CachedObject, Listing};
use apiserver_machinery::table::{self, IncludeObject};
use serde_json::{Value, json};

use crate::encoding::Encoding;
use crate::negotiation::{Form, View};
use crate::query::Query;
use crate::response::{self, Answer};

/// One object that was just written.
pub(super) fn object(
    code: u16,
    resource: &Resource,
    object: &Value,
    form: Form,
    query: &Query,
) -> ApiResult<Answer> {
    match form.view {
        View::Table(version) => {
            let table = one_row(resource, object, version, include(form, query)?);
            response::value(code, &table, form.encoding)
        }
        View::Metadata(version) => response::value(code, &partial(object, version), form.encoding),
        View::MetadataList(_) if resource.hosted => Err(ApiError::untyped(500, "content is not a list")),
        View::MetadataList(_) => Err(no_list(&format!("*core.{}", resource.kind))),
        View::Whole => response::value(code, object, form.encoding),
    }
}

/// One object from the cache: its bytes as they are, where that is what was asked for.
pub(super) fn cached(
    resource: &Resource,
    item: &CachedObject,
    form: Form,
    query: &Query,
) -> ApiResult<Answer> {
    if form == Form::JSON {
        let json = item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?;
        let mut body = Vec::with_capacity(json.len() + 1);
        body.extend_from_slice(json);
        body.push(b'\n');
        return Ok(response::bytes(200, "application/json", body));
    }
    let value = item.to_value().map_err(ApiError::internal)?;
    object(200, resource, &value, form, query)
}

/// A list.
pub(super) fn list(resource: &Resource, listing: &Listing, form: Form, query: &Query) -> ApiResult<Answer> {
    if form == Form::JSON {
        return Ok(response::bytes(200, Encoding::Json.content_type(), list_bytes(resource, listing)?));
    }
    match form.view {
        View::Whole => {
            let items = values(&listing.items)?;
            let list = json!({"apiVersion": resource.api_version(), "kind": resource.list_kind(),
                "metadata": list_metadata(listing), "items": items});
            response::value(200, &list, form.encoding)
        }
        View::Metadata(_) => {
            let found = if resource.hosted {
                "*unstructured.UnstructuredList".to_owned()
            } else {
                format!("*core.{}", resource.list_kind())
            };
            Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({found})"
            )))
        }
        View::MetadataList(version) => {
            let items: Vec<Value> =
                values(&listing.items)?.iter().map(|value| partial(value, version)).collect();
            let list = json!({"apiVersion": format!("meta.k8s.io/{version}"),
                "kind": "PartialObjectMetadataList", "metadata": typed_list_metadata(listing), "items": items});
            response::value(200, &list, form.encoding)
        }
        View::Table(version) => {
            let rows = table::Rows::new(resource, include(form, query)?, jiff::Timestamp::now());
            let values = values(&listing.items)?;
            let rows: Vec<Value> = values.iter().map(|value| rows.row(value, version)).collect();
            let table = json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": typed_list_metadata(listing), "columnDefinitions": table::columns(resource), "rows": rows});
            response::value(200, &table, form.encoding)
        }
    }
}

/// The object's metadata alone, in the version asked for.
pub(super) fn partial(object: &Value, version: &str) -> Value {
    let mut partial = table::partial(object);
    partial["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
    partial
}

/// A table with one row and its columns.
pub(super) fn one_row(resource: &Resource, object: &Value, version: &str, include: IncludeObject) -> Value {
    let metadata = json!({"resourceVersion": apiserver_machinery::object::meta(object, "resourceVersion")});
    let rows = table::Rows::new(resource, include, jiff::Timestamp::now());
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": table::columns(resource), "rows": [rows.row(object, version)]})
}

/// The refusal to show one thing in the form of a list.
pub(super) fn no_list(found: &str) -> ApiError {
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({found})"
    ))
}

/// How much of the objects a table carries; whoever does not want one may ask for anything.
pub(super) fn include(form: Form, query: &Query) -> ApiResult<IncludeObject> {
    if !matches!(form.view, View::Table(_)) {
        return Ok(IncludeObject::Metadata);
    }
    match query.text("includeObject") {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "None" => Ok(IncludeObject::None),
        "Object" => Ok(IncludeObject::Object),
        other => {
            let detail = "must be 'Metadata', 'Object', 'None', or empty";
            let fault = FieldError::invalid(FieldPath::new("includeObject"), &json!(other), detail);
            Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {fault}")))
        }
    }
}

fn values(items: &[Arc<CachedObject>]) -> ApiResult<Vec<Value>> {
    items.iter().map(|item| item.to_value().map_err(ApiError::internal)).collect()
}

fn list_metadata(listing: &Listing) -> Value {
    let mut metadata = json!({"continue": listing.next, "resourceVersion": listing.revision.to_string()});
    if let Some(remaining) = listing.remaining.filter(|_| !listing.next.is_empty()) {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// The metadata of the lists that upstream writes from a type of its own: what is empty is left out.
fn typed_list_metadata(listing: &Listing) -> Value {
    let mut metadata = list_metadata(listing);
    if let Some(map) = metadata.as_object_mut().filter(|_| listing.next.is_empty()) {
        map.remove("continue");
    }
    metadata
}

/// The list put together from ready-made bytes. Nothing is decoded or encoded but the frame around
/// the items; every byte of an item is copied once, from the cache's encoding into the body, which has
/// its final size from the beginning. A list of 10 000 objects of 2 KiB copies 20 MiB, and nothing
/// more than that until it is compressed or encrypted. Other forms than this one decode every item.
fn list_bytes(resource: &Resource, listing: &Listing) -> ApiResult<Vec<u8>> {
    let head = format!("{{\"apiVersion\":{},\"items\":[", json!(resource.api_version()));
    let tail =
        format!("],\"kind\":{},\"metadata\":{}}}\n", json!(resource.list_kind()), list_metadata(listing));
    let mut size = head.len() + tail.len() + listing.items.len().saturating_sub(1);
    for item in &listing.items {
        size += item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?.len();
    }
    let mut body = Vec::with_capacity(size);
    body.extend_from_slice(head.as_bytes());
    for (index, json) in listing.items.iter().filter_map(|item| item.json.as_ref().ok()).enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(json);
    }
    body.extend_from_slice(tail.as_bytes());
    // More would mean that everything was copied again to make room.
    debug_assert_eq!(body.len(), size, "the size of a list was foreseen wrongly");
    Ok(body)
}
