//! Subresource `serviceaccounts/token`: issues a token.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_machinery::action::{ActionCall, ActionHandler, ActionResponse, Objects as Store};
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::status::{ApiError, ApiResult, ResourceNames};
use apiserver_schema::KindSchema;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::TokenIssuer;
use super::bound::BoundKind;
use super::claims::{Claims, ObjectId, Objects, user_name};
use crate::recorded_time::refusal_to_sign;

/// Group, version and kind of the body and of the response.
const TOKEN_REQUEST: (&str, &str, &str) = ("authentication.k8s.io", "v1", "TokenRequest");

/// Default lifetime, which is upstream's. Unit: seconds.
const DEFAULT: i64 = 3600;

/// Shortest lifetime, which is upstream's. Unit: seconds.
const SHORTEST: i64 = 600;

/// Longest lifetime that a request may name, which is upstream's. The server's own limit shortens it. Unit: seconds.
const LARGEST: i64 = 1 << 32;

/// Annotation of the audit event with the id of the issued token, as in upstream.
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";

/// Message in protobuf.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(
        2,
        "spec",
        Shape::Message(&[
            Field::list(1, "audiences", Shape::Text),
            Field::pointer(
                3,
                "boundObjectRef",
                Shape::Message(&[
                    Field::new(1, "kind", Shape::Text),
                    Field::new(2, "apiVersion", Shape::Text),
                    Field::new(3, "name", Shape::Text),
                    Field::new(4, "uid", Shape::Text),
                ]),
            ),
            Field::pointer(4, "expirationSeconds", Shape::Integer),
        ]),
    ),
];

/// Handler of the subresource.
#[derive(Debug)]
pub(super) struct TokenAction {
    issuer: TokenIssuer,
    body: KindSchema,
}

impl TokenAction {
    pub(super) fn new(issuer: TokenIssuer) -> Self {
        Self { issuer, body: KindSchema::of_body(schema) }
    }

    /// Returns the claims of a token that is issued now.
    fn claims(&self, account: Objects, spec: &Value, now: Timestamp) -> Claims {
        let audiences = spec.get("audiences").and_then(Value::as_array).into_iter().flatten();
        let mut audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(self.issuer.url().to_owned());
        }
        let longest = i64::try_from(self.issuer.longest.as_secs()).unwrap_or(i64::MAX);
        let lifetime = seconds(spec).min(longest);
        let now = now.as_second();
        Claims {
            aud: audiences,
            exp: now.saturating_add(lifetime),
            iat: now,
            iss: self.issuer.url().to_owned(),
            jti: uuid::Uuid::new_v4().to_string(),
            nbf: now,
            sub: user_name(&account.namespace, &account.service_account.name),
            kubernetes: account,
        }
    }
}

#[async_trait]
impl ActionHandler for TokenAction {
    fn name(&self) -> &'static str {
        "token"
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        TOKEN_REQUEST
    }

    fn request_schema(&self) -> &KindSchema {
        &self.body
    }

    fn request_message(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        TOKEN_REQUEST
    }

    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse> {
        check_place(&call)?;
        let spec = call.body.get("spec").cloned().unwrap_or_default();
        check_lifetime(&spec)?;
        let account = found(call.objects, "", "serviceaccounts", call.namespace, call.name).await?;
        let mut objects = Objects {
            namespace: call.namespace.to_owned(),
            service_account: id(&account),
            ..Objects::default()
        };
        if let Some(reference) = spec.get("boundObjectRef").filter(|it| it.is_object()) {
            bind(&call, reference, &mut objects).await?;
        }
        let claims = self.claims(objects, &spec, Timestamp::now());
        let (mut token, mut annotations) = (String::new(), BTreeMap::new());
        if !call.dry_run {
            token = self.sign(&claims).await?;
            // The requests with the token have the same text in the extra attribute of their user.
            annotations.insert(ISSUED.to_owned(), claims.credential());
        }
        let object = response(&call, &spec, &claims, &token);
        Ok(ActionResponse { object, created: true, annotations, ..ActionResponse::default() })
    }
}

impl TokenAction {
    async fn sign(&self, claims: &Claims) -> ApiResult<String> {
        if let Some(why) = refusal_to_sign() {
            return Err(ApiError::unavailable(why));
        }
        self.issuer.sign(claims).await.map_err(|error| {
            ApiError::unavailable(format!("tokens cannot be signed now: {error:#}; try again"))
        })
    }
}

/// Refuses a body that names another object than the path.
fn check_place(call: &ActionCall<'_>) -> ApiResult<()> {
    for (field, expected) in [("name", call.name), ("namespace", call.namespace)] {
        let given = object::meta(&call.body, field);
        if !given.is_empty() && given != expected {
            return Err(ApiError::bad_request(format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            )));
        }
    }
    Ok(())
}

fn seconds(spec: &Value) -> i64 {
    spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT)
}

fn check_lifetime(spec: &Value) -> ApiResult<()> {
    let detail = match seconds(spec) {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        LARGEST.. if seconds(spec) > LARGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let path = FieldPath::new("spec").child("expirationSeconds");
    let error = FieldError::invalid(path, &json!(seconds(spec)), detail);
    Err(ApiError::invalid_kind(&format!("{}.{}", TOKEN_REQUEST.2, TOKEN_REQUEST.0), "", &[error]))
}

/// Returns an object, or the error 404.
async fn found(
    objects: &dyn Store,
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> ApiResult<Value> {
    match objects.get(group, plural, namespace, name).await? {
        Some(object) => Ok(object),
        None => Err(match objects.resource(group, plural) {
            Some(resource) => ApiError::not_found(resource, name),
            None => ApiError::internal(format!("{plural} are not served")),
        }),
    }
}

/// Adds the object to which a token is bound.
async fn bind(call: &ActionCall<'_>, reference: &Value, objects: &mut Objects) -> ApiResult<()> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let Some(kind) = BoundKind::find(text("apiVersion"), text("kind")) else {
        return Err(ApiError::bad_request(format!(
            "spec.boundObjectRef: a token can be bound to a Secret, a Machine or a MachineOperation, not to {} {}",
            text("apiVersion"),
            text("kind")
        )));
    };
    let bound = found(call.objects, kind.group, kind.plural, call.namespace, text("name")).await?;
    let id = id(&bound);
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != id.uid {
        let why = format!(
            "the uid in spec.boundObjectRef is {wanted}, and the object has {}: it was deleted and created again",
            id.uid
        );
        let conflict = |resource: &dyn ResourceNames| ApiError::conflict(resource, text("name"), &why);
        return Err(call
            .objects
            .resource(kind.group, kind.plural)
            .map_or_else(|| ApiError::internal(&*why), conflict));
    }
    kind.bind(objects, id);
    Ok(())
}

fn id(object: &Value) -> ObjectId {
    ObjectId { name: object::name(object).to_owned(), uid: object::meta(object, "uid").to_owned() }
}

fn response(call: &ActionCall<'_>, spec: &Value, claims: &Claims, token: &str) -> Value {
    let time =
        |seconds: i64| Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
    let mut answered = spec.clone();
    if !answered.is_object() {
        answered = json!({});
    }
    answered["audiences"] = json!(claims.aud);
    answered["expirationSeconds"] = json!(claims.exp.saturating_sub(claims.iat));
    answered.as_object_mut().into_iter().for_each(|spec| spec.retain(|_, value| !value.is_null()));
    json!({
        "apiVersion": format!("{}/{}", TOKEN_REQUEST.0, TOKEN_REQUEST.1),
        "kind": TOKEN_REQUEST.2,
        "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": time(claims.iat)},
        "spec": answered,
        "status": {"token": token, "expirationTimestamp": time(claims.exp)},
    })
}

fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({"type": "object", "description": "Request for a token of a service account.", "properties": {
        "apiVersion": text("Group and version of this representation."),
        "kind": text("Kind of this object."),
        "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "spec": {"type": "object", "default": {}, "description": "The token.", "properties": {
            "audiences": {"type": "array", "nullable": true, "items": {"type": "string"},
                "description": "Programs for which the token is meant. Default: this server."},
            "expirationSeconds": {"type": "integer", "format": "int64", "default": DEFAULT,
                "description": "Lifetime. The server may shorten it; status says when the token ends. Default: 3600."},
            "boundObjectRef": {"type": "object", "nullable": true, "description": "Object with which the token ends.",
                "properties": {
                    "apiVersion": text("Group and version of the object."),
                    "kind": text("Secret, Machine or MachineOperation."),
                    "name": text("Name of the object."),
                    "uid": text("Uid of the object."),
                }},
        }},
        "status": {"type": "object", "nullable": true, "description": "The server overwrites it.", "properties": {
            "token": text("The token."),
            "expirationTimestamp": {"type": "string", "nullable": true, "description": "End of the token."},
        }},
    }})
}

/// Longest lifetime of a token, unless the configuration names another one. A token cannot be taken back but by the
/// deletion of its service account.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);
