//! Handler of the subresource `scale`: the number of replicas of an object.

use apiserver_machinery::age::age;
use apiserver_machinery::patch::invalid;
use apiserver_machinery::resource::Scale;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{FieldValidation, Freshness, Kind, Method, WriteOptions, unknown_field};
use apiserver_machinery::table::{AGE_DESCRIPTION, IncludeObject, NAME_DESCRIPTION};
use apiserver_machinery::{object, scale};
use apiserver_schema::field_errors::FieldPath;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{apply, list_options, patch, view};
use crate::request::Call;
use crate::request::body::{self, Decoded};
use crate::request::request_info::ResourcePath;
use crate::response::negotiation::{self, Form, View};
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Object and fields of a Scale.
#[derive(Clone, Copy)]
struct Of<'a> {
    kind: Kind<'a>,
    scale: &'a Scale,
    path: &'a ResourcePath,
}

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    scale: &Scale,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let of = Of { kind, scale, path };
    match call.info.verb {
        "get" => get(server, call, of).await,
        "update" => update(server, call, of).await,
        "patch" => patch(server, call, of).await,
        other => Err(ApiError::method_not_allowed(kind.resource, other)),
    }
}

async fn get(server: &ApiServer, call: &Call, of: Of<'_>) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let freshness = match list_options::single_revision(call.query.text("resourceVersion"))? {
        None => Freshness::Consistent,
        Some(revision) if revision.number() == 0 => Freshness::Any,
        Some(revision) => Freshness::AtLeast(revision),
    };
    let item = server.parts.objects.get(of.kind, &of.path.namespace, &of.path.name, freshness).await?;
    let value = item.to_value()?;
    show(call, &scale::shown(of.scale, &value)?, form)
}

async fn update(server: &ApiServer, call: &Call, of: Of<'_>) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = call.write_options("UpdateOptions")?;
    let (fields, media) = (None, call.header(&CONTENT_TYPE));
    let Decoded { value: mut wanted, duplicates } = body::decode(media, &call.body, scale::KIND, fields)?;
    let mut errors = body::duplicate_texts(&duplicates);
    errors.extend(check(&mut wanted, of, undecodable)?);
    if options.field_validation == FieldValidation::Strict && !errors.is_empty() {
        return Err(undecodable(&format!("strict decoding error: {}", errors.join(", "))));
    }
    let (written, mut answer) =
        write(server, call, of, (options.clone(), Method::Put), form, |_| Ok(wanted.clone())).await?;
    response::warn(&mut answer, &[warnings_of(&options, errors), written].concat());
    Ok(answer)
}

async fn patch(server: &ApiServer, call: &Call, of: Of<'_>) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    if apply::is_meant(call) {
        let (configuration, options) = apply::read(call)?;
        let (namespace, name) = (&of.path.namespace, &of.path.name);
        let objects = &server.parts.objects;
        let written =
            objects.apply_scale(of.kind, of.scale, namespace, name, &configuration, &options).await?;
        let mut answer = show(call, &written.object.into_value()?, form)?;
        response::warn(&mut answer, &written.warnings);
        return Ok(answer);
    }
    let options = patch::options(call)?;
    let patch = patch::read(call, of.kind, options.field_validation)?;
    let strict = options.field_validation == FieldValidation::Strict;
    let mut errors = Vec::new();
    let change = |old: &Value| {
        let mut new = patch.apply(old)?;
        let patched = new.clone();
        errors = [patch.errors(), &check(&mut new, of, |why| invalid(&patched, why))?].concat();
        if strict && !errors.is_empty() {
            return Err(invalid(&patched, &format!("strict decoding error: {}", errors.join(", "))));
        }
        Ok(new)
    };
    let (written, mut answer) =
        write(server, call, of, (options.clone(), Method::Patch), form, change).await?;
    response::warn(&mut answer, &[warnings_of(&options, errors), written].concat());
    Ok(answer)
}

/// Stores the Scale that `change` makes; returns the warnings and the response.
async fn write(
    server: &ApiServer,
    call: &Call,
    of: Of<'_>,
    how: (WriteOptions, Method),
    form: Form,
    change: impl FnMut(&Value) -> ApiResult<Value> + Send,
) -> ApiResult<(Vec<String>, HttpResponse)> {
    let objects = &server.parts.objects;
    let (namespace, name) = (&of.path.namespace, &of.path.name);
    let written = objects.scale(of.kind, of.scale, namespace, name, how, change).await?;
    Ok((written.warnings, show(call, &written.object.into_value()?, form)?))
}

fn warnings_of(options: &WriteOptions, errors: Vec<String>) -> Vec<String> {
    if options.field_validation == FieldValidation::Warn { errors } else { Vec::new() }
}

/// Checks a body or a patched Scale against the object that the URL names; returns the warnings about unknown fields.
/// `refuse` makes the error of a field with the wrong type.
fn check(value: &mut Value, of: Of<'_>, refuse: impl Fn(&str) -> ApiError) -> ApiResult<Vec<String>> {
    let api_version = format!("{}/{}", scale::GROUP, scale::VERSION);
    for (field, wanted) in [("apiVersion", api_version.as_str()), ("kind", scale::KIND)] {
        let given = value.get(field).and_then(Value::as_str).unwrap_or(wanted);
        if !given.is_empty() && given != wanted {
            return Err(ApiError::bad_request(format!(
                "{field}: must be {wanted:?} for this subresource, not {given:?}"
            )));
        }
    }
    if let Some(why) = scale::wrong_type(value) {
        return Err(refuse(&why));
    }
    let schema = scale::compiled()?;
    let unknown = schema.prune(value, &FieldPath::default());
    schema.fill_in(value);
    if let Some(error) = schema.validate(value, None, &FieldPath::default()).first() {
        return Err(refuse(&error.to_string()));
    }
    if object::name(value).is_empty() {
        let name = &of.path.name;
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    Ok(unknown.iter().map(|path| unknown_field(path)).collect())
}

fn undecodable(why: &str) -> ApiError {
    let (kind, version) = (scale::KIND, scale::VERSION);
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

fn show(call: &Call, value: &Value, form: Form) -> ApiResult<HttpResponse> {
    match form.view {
        View::Whole => response::value(200, value, form.encoding),
        View::Metadata(version) => response::value(200, &view::partial(value, version), form.encoding),
        View::MetadataList(_) => Err(view::no_list("*v1.Scale")),
        View::Table(version) => {
            let shown = match view::include(form, &call.query)? {
                IncludeObject::None => Value::Null,
                IncludeObject::Metadata => view::partial(value, version),
                IncludeObject::Object => value.clone(),
            };
            response::value(200, &in_table(value, version, &shown), form.encoding)
        }
    }
}

/// Encodes a Scale as a table row: name, desired, available, age.
fn in_table(value: &Value, version: &str, shown: &Value) -> Value {
    let column = |name: &str, kind: &str, format: &str, description: &str| json!({"name": name, "type": kind, "format": format, "description": description, "priority": 0});
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let age = age(object::meta(value, "creationTimestamp"), jiff::Timestamp::now());
    let columns = json!([
        column("Name", "string", "name", NAME_DESCRIPTION),
        column("Desired", "integer", "", "Number of desired replicas"),
        column("Available", "integer", "", "Number of actual replicas"),
        column("Age", "date", "", AGE_DESCRIPTION)
    ]);
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {"resourceVersion": object::meta(value, "resourceVersion")}, "columnDefinitions": columns,
        "rows": [{"cells": [object::name(value), count("/spec/replicas"), count("/status/replicas"), age],
            "object": shown}]})
}
