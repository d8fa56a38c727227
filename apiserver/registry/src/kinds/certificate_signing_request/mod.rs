//! CertificateSigningRequest: strategy, permissions and protobuf form.

mod pkcs10;
mod table;
mod validation;

use apiserver_machinery::admission::{Action, Creation, GrantingWrite};
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::OwnTable;
use apiserver_schema::field_errors::FieldError;
use apiserver_types::csr_kinds::GROUP;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Plural of the kind.
const PLURAL: &str = "certificatesigningrequests";

/// Signer of the certificates of users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Group that may do everything.
const MASTERS: &str = "system:masters";

/// Conditions that only the subresource `approval` writes.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Strategy of CertificateSigningRequest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CertificateSigningRequestStrategy;

#[async_trait]
impl Strategy for CertificateSigningRequestStrategy {
    /// Records the caller. What the body says about the caller is ignored.
    async fn admit(&self, new: &mut Value, creation: &Creation<'_>) -> ApiResult<()> {
        let caller = &creation.caller;
        let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        spec.insert("username".to_owned(), json!(caller.username));
        spec.insert("groups".to_owned(), json!(caller.groups));
        if let Some(uid) = &caller.uid {
            spec.insert("uid".to_owned(), json!(uid));
        }
        if !caller.extra.is_empty() {
            spec.insert("extra".to_owned(), json!(caller.extra));
        }
        Ok(())
    }

    /// Refuses a certificate of a user that may do everything: an administrator who only approves requests must not get one.
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        let spec = write.new.get("spec").filter(|_| write.old.is_none()).unwrap_or(&Value::Null);
        // The validation refuses a request that cannot be read.
        let groups = pkcs10::organizations(text(spec, "request")).unwrap_or_default();
        let signer = text(spec, "signerName");
        if signer != CLIENT_SIGNER || !groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let why = format!(
            "use of {signer} signer with {MASTERS} group is not allowed; use `capstan kubeconfig --break-glass` in an \
             emergency"
        );
        Err(ApiError::forbidden(GROUP, PLURAL, object::name(write.new), &why))
    }

    /// Keeps the request as it was created.
    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        if let Some((spec, root)) = old.and_then(|old| old.get("spec")).zip(new.as_object_mut()) {
            root.insert("spec".to_owned(), spec.clone());
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if old.is_none() {
            validation::of_spec(new, &mut errors);
        }
        validation::of_conditions(new, &mut errors);
        if let Some(old) = old {
            validation::of_change(new, old, &mut errors);
        }
        errors
    }

    fn has_approval(&self) -> bool {
        true
    }

    /// Keeps what the subresource does not write: `approval` writes the conditions, and `status` all but decisions.
    fn settle_part(&self, subresource: &str, new: &mut Value, old: &Value) {
        let stored = conditions(old).to_vec();
        let mut written = conditions(new).to_vec();
        if subresource == "approval" {
            if let Some(root) = new.as_object_mut() {
                root.insert("status".to_owned(), old.get("status").cloned().unwrap_or_default());
            }
        } else {
            let is_decision = |condition: &Value| DECISIONS.contains(&text(condition, "type"));
            written.retain(|condition| !is_decision(condition));
            written.splice(0..0, stored.iter().filter(|condition| is_decision(condition)).cloned());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for condition in written.iter_mut().filter_map(Value::as_object_mut) {
            set_times(condition, &stored, &now);
        }
        set_conditions(new, written);
    }

    /// Requires the permission on the signer: `approve` for a decision, and `sign` for a certificate or a failure.
    async fn check_part(&self, subresource: &str, write: GrantingWrite<'_>) -> ApiResult<()> {
        let part = |object: Option<&Value>, field: &str| {
            object.and_then(|object| object.pointer(&format!("/status/{field}"))).cloned()
        };
        let is_changed = |field: &str| part(write.old, field) != part(Some(write.new), field);
        match subresource {
            "approval" => require(&write, "approve").await,
            _ if is_changed("certificate") || is_changed("conditions") => require(&write, "sign").await,
            _ => Ok(()),
        }
    }

    fn reads_status(&self) -> bool {
        true
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn table(&self) -> Option<OwnTable> {
        Some(table::TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

fn conditions(request: &Value) -> &[Value] {
    let found = request.pointer("/status/conditions").and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Replaces the conditions. A status of another type stays as it is: the schema refuses it.
fn set_conditions(request: &mut Value, conditions: Vec<Value>) {
    let Some(root) = request.as_object_mut() else { return };
    let status = root.entry("status").or_insert(Value::Null);
    if status.is_null() {
        *status = json!({});
    }
    match status.as_object_mut() {
        Some(status) if conditions.is_empty() => {
            status.remove("conditions");
        }
        Some(status) => {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        None => {}
    }
}

/// Sets the times that the client left out.
fn set_times(condition: &mut Map<String, Value>, stored: &[Value], now: &str) {
    let kind = condition.get("type").cloned().unwrap_or_default();
    let before = stored.iter().find(|stored| stored.get("type") == Some(&kind));
    let is_unset =
        |condition: &Map<String, Value>, field: &str| condition.get(field).is_none_or(Value::is_null);
    if is_unset(condition, "lastUpdateTime") {
        condition.insert("lastUpdateTime".to_owned(), json!(now));
    }
    if is_unset(condition, "lastTransitionTime") {
        let same = before.filter(|before| before.get("status") == condition.get("status"));
        let kept = same.and_then(|same| same.get("lastTransitionTime")).cloned();
        condition.insert("lastTransitionTime".to_owned(), kept.unwrap_or_else(|| json!(now)));
    }
}

/// Requires a verb on the signer of the request, or on all signers of its domain.
async fn require(write: &GrantingWrite<'_>, verb: &str) -> ApiResult<()> {
    let request = write.old.unwrap_or(write.new);
    let signer = object::at(request, "spec.signerName").and_then(Value::as_str).unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let action =
            Action { verb, group: GROUP, version: "v1", resource: "signers", name, ..Action::default() };
        match write.permissions.require(action).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code == 403 => {}
            Err(error) => return Err(error),
        }
    }
    let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(ApiError::forbidden(GROUP, PLURAL, object::name(request), &why))
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(
        2,
        "spec",
        Shape::Message(&[
            Field::new(1, "request", Shape::Bytes),
            Field::new(2, "username", Shape::Text),
            Field::new(3, "uid", Shape::Text),
            Field::list(4, "groups", Shape::Text),
            Field::list(5, "usages", Shape::Text),
            Field::new(6, "extra", Shape::TextLists),
            Field::new(7, "signerName", Shape::Text),
            Field::pointer(8, "expirationSeconds", Shape::Integer),
        ]),
    ),
    Field::new(
        3,
        "status",
        Shape::Message(&[
            Field::list(
                1,
                "conditions",
                Shape::Message(&[
                    Field::new(1, "type", Shape::Text),
                    Field::new(2, "reason", Shape::Text),
                    Field::new(3, "message", Shape::Text),
                    Field::new(4, "lastUpdateTime", Shape::Time),
                    Field::new(5, "lastTransitionTime", Shape::Time),
                    Field::new(6, "status", Shape::Text),
                ]),
            ),
            Field::pointer(2, "certificate", Shape::Bytes),
        ]),
    ),
];
