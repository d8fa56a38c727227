//! Request of a review: the facts about a write as webhooks and expressions see them.

use apiserver_machinery::admission_control::{AdmissionRequest, AdmittedWrite};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use serde_json::{Map, Value, json};

use crate::matching::{Matched, Subject};

/// Returns the fields of a review except its uid and its objects.
pub(crate) fn request(request: &AdmissionRequest, write: AdmittedWrite<'_>, matched: &Matched) -> Value {
    let (group, version, kind) = write.kind;
    let own = write.resource;
    let requested = json!({"group": group, "version": version, "kind": kind});
    let resource = |version: &str| json!({"group": own.group, "version": version, "resource": own.plural});
    let (shown, shown_version) = match matched {
        Matched::Requested => (requested.clone(), own.version.as_str()),
        Matched::Other(other) if has_own_kind(write) => {
            (json!({"group": group, "version": other.version, "kind": other.kind}), other.version.as_str())
        }
        Matched::Other(other) => (requested.clone(), other.version.as_str()),
    };
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        if value != "" {
            fields.insert(name.to_owned(), value);
        }
    };
    add("kind", shown);
    add("resource", resource(shown_version));
    add("subResource", json!(write.subresource));
    add("requestKind", requested);
    add("requestResource", resource(&own.version));
    add("requestSubResource", json!(write.subresource));
    add("name", json!(write.name));
    add("namespace", json!(namespace(write)));
    add("operation", json!(write.operation.word()));
    add("userInfo", user(request));
    add("dryRun", json!(write.dry_run));
    let mut options = request.options.clone();
    options.insert("kind".to_owned(), json!(write.operation.options()));
    options.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
    add("options", Value::Object(options));
    Value::Object(fields)
}

/// Returns the namespace in a review. As in kube-apiserver, a namespace that exists is in itself.
fn namespace(write: AdmittedWrite<'_>) -> &str {
    let is_namespace = write.resource.group.is_empty() && write.resource.plural == "namespaces";
    if is_namespace { write.name } else { write.namespace }
}

fn user(request: &AdmissionRequest) -> Value {
    let user = &request.requester;
    let mut shown = json!({"username": user.username, "groups": user.groups});
    if !user.uid.is_empty() {
        shown["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

/// Returns true if the object has the kind of the resource: the object of a subresource may have another one.
fn has_own_kind(write: AdmittedWrite<'_>) -> bool {
    write.kind == (&write.resource.group, &write.resource.version, &write.resource.kind)
}

/// Objects of a write in the version in which it matches.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
}

impl Objects {
    /// Converts both objects of a write.
    ///
    /// # Errors
    /// 500 for an object that cannot be converted.
    pub(crate) fn of(subject: Subject<'_>, matched: &Matched) -> ApiResult<Self> {
        let convert = |object: Option<&Value>| {
            object.map(|object| to_version(subject.write, matched, object.clone())).transpose()
        };
        Ok(Self { object: convert(subject.object)?, old: convert(subject.write.old)? })
    }
}

fn to_version(write: AdmittedWrite<'_>, matched: &Matched, object: Value) -> ApiResult<Value> {
    match matched {
        Matched::Other(other) if has_own_kind(write) => converted(object, write.resource, other),
        _ => Ok(object),
    }
}

/// Converts a changed object back to the version of the request.
///
/// # Errors
/// 500 for an object that cannot be converted.
pub(crate) fn from_version(write: AdmittedWrite<'_>, matched: &Matched, object: Value) -> ApiResult<Value> {
    match matched {
        Matched::Other(other) if has_own_kind(write) => converted(object, other, write.resource),
        _ => Ok(object),
    }
}

fn converted(object: Value, from: &Resource, to: &Resource) -> ApiResult<Value> {
    let failed = |why: &dyn std::fmt::Display| {
        let (kind, from, to) = (&from.kind, &from.version, &to.version);
        ApiError::internal(format!("{kind} cannot be converted from {from} to {to}: {why}"))
    };
    let stored = match &from.conversion {
        None => object,
        Some(conversion) => conversion.stored(object).map_err(|error| failed(&error))?,
    };
    match &to.conversion {
        None => Ok(stored),
        Some(conversion) => conversion.served(stored).map_err(|error| failed(&error)),
    }
}
