//! Request body: reads it within limits, and decodes it by its content type.

use apiserver_machinery::metadata;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{self, Field};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{self, FieldValidation};
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::request::Call;
use crate::request::{json, yaml};

/// Largest request body: upstream's limit, so that an object that is valid there is valid here. Unit: bytes.
pub(crate) const LARGEST: usize = 3 * 1024 * 1024;

/// Largest part of an oversized body that is read and discarded. A client that receives the response while it is
/// sending takes that for a broken connection, and never sees the response. Unit: bytes.
const LARGEST_DRAINED: usize = 16 * 1024 * 1024;

/// Content type of typed clients, for the kinds that they know.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads a whole body.
///
/// # Errors
/// 413 over the limit; 400 if the client disconnects.
pub(crate) async fn read<B>(body: B) -> ApiResult<Bytes>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::bad_request(format!("the body could not be read: {}", error.into()))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > LARGEST_DRAINED {
            break;
        }
        if length <= LARGEST {
            whole.extend_from_slice(&data);
        }
    }
    if length > LARGEST {
        return Err(ApiError::too_large(format!("Request entity too large: limit is {LARGEST}")));
    }
    Ok(whole.freeze())
}

/// Decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of duplicate fields; the value has the last of them.
    pub(crate) duplicates: Vec<String>,
}

/// Decodes an object in JSON, YAML or protobuf, by its content type; the default is JSON. Protobuf needs the `fields`
/// of the kind.
///
/// # Errors
/// 415 for another content type; 400 that names `kind` if the body is invalid.
pub(crate) fn decode(
    content_type: &str,
    body: &[u8],
    kind: &str,
    fields: Option<&[Field]>,
) -> ApiResult<Decoded> {
    let malformed = |error: &dyn std::fmt::Display| {
        unrecognized(kind, body, &format!("couldn't get version/kind; json parse error: {error}"))
    };
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (value, duplicates) = match (media.as_str(), fields) {
        ("" | "application/json", _) => json::parse(body).map_err(|error| {
            if error.is_eof() { malformed(&"unexpected end of JSON input") } else { malformed(&error) }
        })?,
        ("application/yaml", _) => {
            let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
            let value = serde_saphyr::from_str_with_options(text, yaml::options())
                .map_err(|error| unrecognized(kind, body, &format!("yaml: {error}")))?;
            (value, Vec::new())
        }
        (PROTOBUF, Some(fields)) => {
            (protobuf::decode(body, kind, fields).map_err(|error| malformed(&error))?, Vec::new())
        }
        _ => {
            return Err(ApiError::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                PROTOBUF,
            ]));
        }
    };
    if object::is_too_deep(&value) {
        return Err(malformed(&format!("nested more than {} deep", object::DEEPEST)));
    }
    Ok(Decoded { value, duplicates })
}

/// Decodes an object of a served kind; returns it with warnings for the client.
///
/// # Errors
/// As [`decode`]. With strict `validation`, 400 for duplicate fields, together with unknown ones, so that the client
/// sees all at once.
pub(crate) fn decode_object(
    call: &Call,
    resource: &Resource,
    validation: FieldValidation,
) -> ApiResult<(Value, Vec<String>)> {
    let content_type = call.header(&CONTENT_TYPE);
    let Decoded { mut value, duplicates } =
        decode(content_type, &call.body, &resource.kind, resource.strategy.protobuf())?;
    if !resource.hosted {
        name_kind(&mut value, resource);
    }
    check_kind(&value, &call.body, &resource.kind)?;
    let mut texts = duplicate_texts(&duplicates);
    if texts.is_empty() || validation == FieldValidation::Ignore {
        return Ok((value, Vec::new()));
    }
    // An invalid body has no duplicate fields.
    store::check_metadata(resource, &value)?;
    if validation == FieldValidation::Warn {
        return Ok((value, texts));
    }
    texts.extend(store::unknown_fields(resource, &mut value));
    Err(store::strictly_refused(resource, &texts))
}

/// Fills in the kind of a core kind's body from its path, as every server of those does.
fn name_kind(value: &mut Value, resource: &Resource) {
    let Some(root) = value.as_object_mut() else { return };
    for (field, default) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
        let is_missing = |value: &Value| value.is_null() || *value == "";
        if root.get(field).is_none_or(is_missing) {
            root.insert(field.to_owned(), Value::String(default));
        }
    }
}

/// Checks that a body names a kind. The store checks that it is the right one.
fn check_kind(value: &Value, body: &[u8], kind: &str) -> ApiResult<()> {
    let refuse = |why: String| Err(unrecognized(kind, body, &why));
    if value.is_null() {
        return refuse("Object 'Kind' is missing in 'null'".to_owned());
    }
    if let Some(why) = metadata::unknowable_kind(value) {
        return refuse(why);
    }
    if value.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return refuse(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body)));
    }
    Ok(())
}

fn unrecognized(kind: &str, body: &[u8], why: &str) -> ApiError {
    // A body that is no Secret yet may have the data of one.
    let shown = if kind == "Secret" { "not repeated".to_owned() } else { summary(body) };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// Returns the beginning of a body: as text if it looks like an object, else in hex.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let start = body.get(..SHOWN).unwrap_or(body);
    let rest = if body.len() > SHOWN { " ..." } else { "" };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{rest}", String::from_utf8_lossy(start)),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + rest,
    }
}

/// Formats the paths of duplicate fields, as upstream reports them.
pub(crate) fn duplicate_texts(duplicates: &[String]) -> Vec<String> {
    duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect()
}
