//! Handler of reviews: identity and permissions, decided by the server's own authenticators and authorizer, on the direct endpoint only. A
//! host serves reviews itself.

mod access_rules;
mod errors;
mod explanation;
mod fields;
mod realm;
mod selectors;
mod token;

use std::sync::Arc;

use apiserver_access::{Attributes, Decision, REALM, Realm, Rules, User, Verdict};
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::reviews::{self, Review};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::FieldValidation;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use self::explanation::Endpoint;
use crate::filters::authorization::by_old_data;
use crate::request::Call;
use crate::request::body;
use crate::request::request_info::ResourcePath;
use crate::response::encoding::ACCEPTED;
use crate::response::negotiation::{self, View};
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Message of a field selector or a label selector.
const SELECTOR: Shape = Shape::Message(&[
    Field::new(1, "rawSelector", Shape::Text),
    Field::list(
        2,
        "requirements",
        Shape::Message(&[
            Field::new(1, "key", Shape::Text),
            Field::new(2, "operator", Shape::Text),
            Field::list(3, "values", Shape::Text),
        ]),
    ),
]);

const RESOURCE: Field = Field::pointer(
    1,
    "resourceAttributes",
    Shape::Message(&[
        Field::new(1, "namespace", Shape::Text),
        Field::new(2, "verb", Shape::Text),
        Field::new(3, "group", Shape::Text),
        Field::new(4, "version", Shape::Text),
        Field::new(5, "resource", Shape::Text),
        Field::new(6, "subresource", Shape::Text),
        Field::new(7, "name", Shape::Text),
        Field::pointer(8, "fieldSelector", SELECTOR),
        Field::pointer(9, "labelSelector", SELECTOR),
    ]),
);

const PATH: Field = Field::pointer(
    2,
    "nonResourceAttributes",
    Shape::Message(&[Field::new(1, "path", Shape::Text), Field::new(2, "verb", Shape::Text)]),
);

/// Fields of the reviews of a user whom they name.
const ACCESS: &[Field] = &[
    METADATA,
    Field::new(
        2,
        "spec",
        Shape::Message(&[
            RESOURCE,
            PATH,
            Field::new(3, "user", Shape::Text),
            Field::list(4, "groups", Shape::Text),
            Field::new(5, "extra", Shape::TextLists),
            Field::new(6, "uid", Shape::Text),
        ]),
    ),
];

/// Fields of the review of the caller.
const OWN_ACCESS: &[Field] = &[METADATA, Field::new(2, "spec", Shape::Message(&[RESOURCE, PATH]))];

const RULES: &[Field] =
    &[METADATA, Field::new(2, "spec", Shape::Message(&[Field::new(1, "namespace", Shape::Text)]))];

const TOKEN: &[Field] = &[
    METADATA,
    Field::new(
        2,
        "spec",
        Shape::Message(&[Field::new(1, "token", Shape::Text), Field::list(2, "audiences", Shape::Text)]),
    ),
];

const SELF: &[Field] = &[METADATA];

/// Serves a review.
pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    review: &Review,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = call.query.write_options("CreateOptions", Vec::new())?;
    let (mut question, warnings) = decode(call, review, options.field_validation)?;
    let status = match review.kind {
        "SelfSubjectReview" => json!({"userInfo": shown(&call.user)}),
        "TokenReview" => token::status(server, call.address, &question).await?,
        "SelfSubjectRulesReview" => {
            let namespace = text(&question["spec"], "namespace");
            if namespace.is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            let rules = server.parts.authorizer.rules(&call.user, &namespace).await;
            listed(access_rules::noted(rules, &call.user))
        }
        _ => access(server, call, review, &question, path).await?,
    };
    answered(&mut question, review, path);
    question["status"] = status;
    let mut answer = match form.view {
        View::Whole => response::value(201, &question, form.encoding)?,
        View::Metadata(version) => {
            response::value(201, &super::view::partial(&question, version), form.encoding)?
        }
        View::MetadataList(_) => {
            return Err(super::view::no_list(&format!("*authorization.{}", review.kind)));
        }
        View::Table(_) => return Err(ApiError::not_acceptable(ACCEPTED)),
    };
    response::warn(&mut answer, &warnings);
    Ok(answer)
}

/// Returns the status of a review of access.
async fn access(
    server: &ApiServer,
    call: &Call,
    review: &Review,
    question: &Value,
    path: &ResourcePath,
) -> ApiResult<Value> {
    let attributes = attributes(call, review, question, path)?;
    let endpoint = Endpoint::of(server, call, review)?;
    let mut limited = None;
    if review.kind == "SelfSubjectAccessReview" {
        limited = access_rules::refusal(server.registry(), &attributes);
    } else {
        let of_endpoint = endpoint.as_ref().and_then(Endpoint::realm);
        let realm = of_endpoint.unwrap_or(&attributes.user.realm);
        realm::check(server, call, review, realm).await?;
    }
    let mut status = match (limited, endpoint) {
        (Some(reason), _) => decided(Decision::Deny(reason)),
        (None, Some(endpoint)) => endpoint.explain(attributes).await,
        (None, None) => judged(server.parts.authorizer.judge(&attributes).await),
    };
    selectors::note_ignored(&mut status, &question["spec"]["resourceAttributes"]);
    Ok(status)
}

/// Turns a review into the part of it that the response repeats.
fn answered(question: &mut Value, review: &Review, path: &ResourcePath) {
    if review.namespaced {
        question["metadata"]["namespace"] = json!(path.namespace);
    }
    match review.kind {
        "SelfSubjectReview" => {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            question["metadata"]["creationTimestamp"] = json!(now);
            if let Some(root) = question.as_object_mut() {
                root.remove("spec");
            }
        }
        "SelfSubjectRulesReview" => question["spec"] = json!({}),
        _ => {
            let parts = question["spec"].as_object_mut().into_iter().flat_map(|spec| spec.values_mut());
            for part in parts.filter_map(Value::as_object_mut) {
                part.retain(|_, value| value != "");
            }
        }
    }
}

/// Returns a review as it was sent, without the fields that it cannot have, and the warnings about them.
fn decode(call: &Call, review: &Review, validation: FieldValidation) -> ApiResult<(Value, Vec<String>)> {
    let table = match review.kind {
        "SelfSubjectReview" => SELF,
        "TokenReview" => TOKEN,
        "SelfSubjectRulesReview" => RULES,
        "SelfSubjectAccessReview" => OWN_ACCESS,
        _ => ACCESS,
    };
    let parts: &[&str] =
        if review.kind == "SelfSubjectReview" { &["metadata"] } else { &["metadata", "spec"] };
    let (kind, group) = (review.kind, review.group);
    let decoded = body::decode(call.header(&CONTENT_TYPE), &call.body, kind, Some(table))?;
    let (mut question, twice) = (decoded.value, body::duplicate_texts(&decoded.duplicates));
    let api_version = format!("{group}/{}", reviews::VERSION);
    let Some(root) = question.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): it is not a JSON object"
        )));
    };
    for (field, wanted) in [("kind", kind), ("apiVersion", api_version.as_str())] {
        let given = root.entry(field).or_insert_with(|| json!(wanted));
        if given != wanted && given != "" {
            return Err(ApiError::bad_request(format!("{kind}: {field} must be {wanted:?}, not {given}")));
        }
        *given = json!(wanted);
    }
    for field in parts {
        let part = root.entry(*field).or_insert_with(|| json!({}));
        if !part.is_object() {
            return Err(ApiError::bad_request(format!("{kind}: {field} must be an object")));
        }
    }
    let warnings = fields::check(review, root, table, twice, validation)?;
    for field in ["creationTimestamp", "managedFields"] {
        object::remove_meta(&mut question, field);
    }
    Ok((question, warnings))
}

/// Returns the attributes of a review, about the caller or the user that it names.
fn attributes(call: &Call, review: &Review, question: &Value, path: &ResourcePath) -> ApiResult<Attributes> {
    let (metadata, spec) = (&question["metadata"], &question["spec"]);
    errors::check_namespace(review, metadata, &path.namespace)?;
    let refuse = |error| ApiError::invalid_kind(&format!(".{}", review.group), "", &[error]);
    let (resource, other) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    let (resource, other) = (resource.filter(|it| it.is_object()), other.filter(|it| it.is_object()));
    if let Some(error) = errors::of_attributes(resource, other) {
        return Err(refuse(error));
    }
    let user = if review.kind == "SelfSubjectAccessReview" {
        Arc::clone(&call.user)
    } else {
        Arc::new(subject(spec).map_err(refuse)?)
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return Err(refuse(FieldError::invalid(FieldPath::new("spec.user"), &json!(""), detail)));
    }
    if let Some(error) = errors::of_metadata(review, metadata) {
        return Err(refuse(error));
    }
    let local = review.namespaced.then(|| errors::of_namespace(resource, other, &path.namespace));
    if let Some(error) = local.flatten() {
        return Err(refuse(error));
    }
    let mut attributes = Attributes { user, ..Attributes::default() };
    if let Some(resource) = resource {
        let part = |name: &str| text(resource, name);
        (attributes.verb, attributes.group, attributes.version) =
            (part("verb"), part("group"), part("version"));
        (attributes.resource, attributes.subresource) = (part("resource"), part("subresource"));
        (attributes.namespace, attributes.name) = (part("namespace"), part("name"));
        (attributes.field_selector, attributes.label_selector) = selectors::texts(resource);
    }
    if let Some(other) = other {
        (attributes.verb, attributes.path) = (text(other, "verb"), text(other, "path"));
    }
    Ok(attributes)
}

/// Returns the user that a review names.
///
/// # Errors
/// A realm that does not exist: a decision about another one would be wrong.
fn subject(spec: &Value) -> Result<User, FieldError> {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.get("extra").and_then(Value::as_object);
    let named = extra.and_then(|extra| extra.get(REALM)).map(list).unwrap_or_default();
    let realm = match named.first() {
        None => Realm::default(),
        Some(name) => Realm::of_name(name).ok_or_else(|| errors::of_realm(name))?,
    };
    let extra = extra.into_iter().flatten();
    Ok(User {
        realm,
        name: text(spec, "user"),
        uid: Some(text(spec, "uid")).filter(|uid| !uid.is_empty()),
        groups: spec.get("groups").map(list).unwrap_or_default(),
        extra: extra.map(|(key, values)| (key.clone(), list(values))).collect(),
        limits: None,
    })
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn shown(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if let Some(uid) = &user.uid {
        info["uid"] = json!(uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Returns the status of a verdict. A permission has its reason, as upstream's has. By old data, it has their age, as the
/// warning of a request has it.
fn judged(verdict: Verdict) -> Value {
    let is_allowed = verdict.decision == Decision::Allow;
    let age = verdict.age.filter(|_| is_allowed);
    let mut status = decided(verdict.decision);
    if is_allowed && !verdict.reason.is_empty() {
        status["reason"] = json!(verdict.reason);
    }
    if let Some(age) = age {
        status["evaluationError"] = json!(by_old_data(age));
    }
    status
}

fn decided(decision: Decision) -> Value {
    let (mut status, reason) = match decision {
        Decision::Allow => (json!({"allowed": true}), String::new()),
        Decision::Deny(reason) => (json!({"allowed": false, "denied": true}), reason),
        Decision::NoOpinion(reason) => (json!({"allowed": false}), reason),
        Decision::Error(why) => (json!({"allowed": false, "evaluationError": why}), String::new()),
    };
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

fn listed(Rules { rules, unknown }: Rules) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if rule.paths.is_empty() {
            let mut listed =
                json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
            if !rule.names.is_empty() {
                listed["resourceNames"] = json!(rule.names);
            }
            resources.push(listed);
        } else {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}));
        }
    }
    let mut status = Map::new();
    status.insert("resourceRules".to_owned(), json!(resources));
    status.insert("nonResourceRules".to_owned(), json!(paths));
    status.insert("incomplete".to_owned(), json!(!unknown.is_empty()));
    if !unknown.is_empty() {
        status.insert("evaluationError".to_owned(), json!(unknown));
    }
    Value::Object(status)
}
