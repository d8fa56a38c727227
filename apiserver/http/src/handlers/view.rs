//! View of objects and lists in a response: whole, metadata, or table.

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{CachedObject, Listing, WrittenObject};
use apiserver_machinery::table::{self, IncludeObject};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::request::query::Query;
use crate::response::body::ResponseBody;
use crate::response::encoding::Encoding;
use crate::response::negotiation::{Form, View};
use crate::response::streamed::list::{ListChunks, Shown};
use crate::response::streamed::{indented, metadata, table as table_body};
use crate::response::{self, HttpResponse};

/// Returns the response of a write. The stored bytes are used unchanged, if they are in memory and have the requested
/// form.
pub(super) fn written(
    code: u16,
    resource: &Resource,
    written: WrittenObject,
    form: Form,
    query: &Query,
) -> ApiResult<HttpResponse> {
    match written {
        WrittenObject::Json(json) if form == Form::JSON => {
            Ok(line(code, json.len(), |body| body.extend_from_slice(&json)))
        }
        written => object(code, resource, &written.into_value()?, form, query),
    }
}

/// Returns the response with a decoded object.
pub(super) fn object(
    code: u16,
    resource: &Resource,
    object: &Value,
    form: Form,
    query: &Query,
) -> ApiResult<HttpResponse> {
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

/// Returns the response with a cached object. Its bytes are used as they are, if they have the requested form.
pub(super) fn cached(
    resource: &Resource,
    item: &CachedObject,
    form: Form,
    query: &Query,
) -> ApiResult<HttpResponse> {
    if form == Form::JSON {
        let json = item.json.as_ref().map_err(ApiError::from)?;
        return Ok(line(200, json.size(), |body| json.write(body)));
    }
    let value = item.to_value()?;
    object(200, resource, &value, form, query)
}

/// Returns a response with JSON of this size, as `write` writes it, and a newline.
fn line(code: u16, size: usize, write: impl FnOnce(&mut Vec<u8>)) -> HttpResponse {
    let mut body = Vec::with_capacity(size + 1);
    write(&mut body);
    body.push(b'\n');
    response::bytes(code, "application/json", body)
}

/// Returns the response with a list.
pub(super) fn list(
    resource: &Resource,
    listing: Listing,
    form: Form,
    query: &Query,
) -> ApiResult<HttpResponse> {
    if form.encoding == Encoding::PrettyJson {
        let compact = Form { encoding: Encoding::Json, ..form };
        return list(resource, listing, compact, query).map(indented::indent);
    }
    match form.view {
        View::Whole if form.encoding == Encoding::Json => {
            let (api_version, metadata) = (resource.api_version(), list_metadata(&listing));
            from_cache(&api_version, &resource.list_kind(), &metadata, listing.items, Shown::Whole)
        }
        View::Whole => {
            let items = values(&listing.items)?;
            let list = json!({"apiVersion": resource.api_version(), "kind": resource.list_kind(),
                "metadata": list_metadata(&listing), "items": items});
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
        View::MetadataList(version) if form.encoding == Encoding::Json => {
            let api_version = format!("meta.k8s.io/{version}");
            let head = format!(
                "{{\"apiVersion\":\"{api_version}\",\"kind\":\"PartialObjectMetadata\",\"metadata\":"
            );
            let metadata = typed_list_metadata(&listing);
            from_cache(
                &api_version,
                "PartialObjectMetadataList",
                &metadata,
                listing.items,
                Shown::Metadata(head),
            )
        }
        View::MetadataList(version) if form.encoding == Encoding::Protobuf => {
            metadata_in_protobuf(listing, version)
        }
        View::MetadataList(version) => {
            let items: Vec<Value> =
                values(&listing.items)?.iter().map(|value| partial(value, version)).collect();
            let list = json!({"apiVersion": format!("meta.k8s.io/{version}"),
                "kind": "PartialObjectMetadataList", "metadata": typed_list_metadata(&listing), "items": items});
            response::value(200, &list, form.encoding)
        }
        View::Table(version) if form.encoding == Encoding::Json => {
            table(resource, listing, version, include(form, query)?)
        }
        View::Table(version) => {
            let rows = table::Rows::new(resource, include(form, query)?, jiff::Timestamp::now());
            let values = values(&listing.items)?;
            let rows: Vec<Value> = values.iter().map(|value| rows.row(value, version)).collect();
            let table = json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": typed_list_metadata(&listing), "columnDefinitions": table::columns(resource), "rows": rows});
            response::value(200, &table, form.encoding)
        }
    }
}

/// Returns the object's metadata in this version of `PartialObjectMetadata`.
pub(super) fn partial(object: &Value, version: &str) -> Value {
    let mut partial = table::partial(object);
    partial["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
    partial
}

/// Returns a table of one row, with its columns.
pub(super) fn one_row(resource: &Resource, object: &Value, version: &str, include: IncludeObject) -> Value {
    let metadata = json!({"resourceVersion": apiserver_machinery::object::meta(object, "resourceVersion")});
    let rows = table::Rows::new(resource, include, jiff::Timestamp::now());
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": table::columns(resource), "rows": [rows.row(object, version)]})
}

/// Returns the error of a single object that was requested in the form of a list.
pub(super) fn no_list(found: &str) -> ApiError {
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({found})"
    ))
}

/// Returns how much of the objects a table includes. Without a table, the parameter is not checked.
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
            let error = FieldError::invalid(FieldPath::new("includeObject"), &json!(other), detail);
            Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {error}")))
        }
    }
}

fn values(items: &[Arc<CachedObject>]) -> ApiResult<Vec<Value>> {
    items.iter().map(|item| item.to_value().map_err(ApiError::from)).collect()
}

fn list_metadata(listing: &Listing) -> Value {
    let mut metadata = json!({"continue": listing.next, "resourceVersion": listing.revision.to_string()});
    if let Some(remaining) = listing.remaining.filter(|_| !listing.next.is_empty()) {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// Returns the metadata of lists that upstream encodes from a typed struct: empty fields are left out.
fn typed_list_metadata(listing: &Listing) -> Value {
    let mut metadata = list_metadata(listing);
    if let Some(map) = metadata.as_object_mut().filter(|_| listing.next.is_empty()) {
        map.remove("continue");
    }
    metadata
}

/// Returns a list of encoded objects. Nothing is decoded or encoded except the frame around the items. Every byte of
/// an item is copied once, from the cache into the chunk that is sent.
fn from_cache(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: Vec<Arc<CachedObject>>,
    shown: Shown,
) -> ApiResult<HttpResponse> {
    let head = format!("{{\"apiVersion\":{},\"items\":[", json!(api_version));
    let tail = format!("],\"kind\":{},\"metadata\":{metadata}}}\n", json!(kind));
    let list = ListChunks::new(head, items, tail, shown)?;
    Ok(response::body(200, Encoding::Json.content_type(), ResponseBody::List(Box::new(list))))
}

/// Returns a list of metadata in protobuf.
fn metadata_in_protobuf(listing: Listing, version: &str) -> ApiResult<HttpResponse> {
    let body = metadata::body(&typed_list_metadata(&listing), listing.items, version)?;
    Ok(response::body(200, Encoding::Protobuf.content_type(), body))
}

/// Returns a table. Of an object, only the fields in columns are read; its metadata is copied as it is.
fn table(
    resource: &Resource,
    listing: Listing,
    version: &'static str,
    include: IncludeObject,
) -> ApiResult<HttpResponse> {
    let rows = table::Rows::new(resource, include, jiff::Timestamp::now());
    let head = format!(
        "{{\"apiVersion\":\"meta.k8s.io/{version}\",\"columnDefinitions\":{},\"kind\":\"Table\",\"metadata\":{},\"rows\":[",
        table::columns(resource),
        typed_list_metadata(&listing)
    );
    let body = table_body::body(head, listing.items, rows, version)?;
    Ok(response::body(200, Encoding::Json.content_type(), body))
}
