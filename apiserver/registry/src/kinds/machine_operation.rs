//! MachineOperation: permission, defaults and validation of the operations that clients declare.

use apiserver_machinery::action::Caller;
use apiserver_machinery::admission::{Action, Creation};
use apiserver_machinery::metadata::{is_label_value, is_subdomain};
use apiserver_machinery::object;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_trace::{Parent, Span};
use apiserver_types::{ACTIONS, ActionDescriptor, Described, ParametersField, Presence};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::{immutable, version};

/// Label of an operation: the name of its Machine.
pub(crate) const MACHINE_LABEL: &str = "capstan.dev/machine";

/// Strategy of MachineOperation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineOperationStrategy;

#[async_trait]
impl Strategy for MachineOperationStrategy {
    /// Requires the permission that the action itself requires, and records the caller. A `requestedBy` in the body
    /// is ignored.
    async fn admit(&self, new: &mut Value, creation: &Creation<'_>) -> ApiResult<()> {
        let text = |field: &str| new.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
        // The schema rejects any other action.
        if let Some(descriptor) = descriptor_of(new) {
            let machines = apiserver_types::Machine::DESCRIPTOR;
            let action = Action {
                verb: "create",
                group: machines.group,
                version: machines.version,
                resource: machines.plural,
                subresource: descriptor.subresource,
                namespace: creation.namespace,
                name: text("machineName").unwrap_or_default(),
            };
            creation.permissions.require(action).await?;
        }
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("requestedBy".to_owned(), requested_by(&creation.caller));
        }
        Ok(())
    }

    /// Adds the label of the Machine, and makes default parameters explicit, so that the stored object is complete.
    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        // No update can change the requesting user, and none has to repeat it.
        if let Some(kept) = old.and_then(|old| object::at(old, "spec.requestedBy"))
            && let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.insert("requestedBy".to_owned(), kept.clone());
        }
        let machine = object::at(new, "spec.machineName").and_then(Value::as_str).map(str::to_owned);
        // A longer name cannot be a label's value.
        if let Some(machine) = machine.filter(|machine| !machine.is_empty() && is_label_value(machine))
            && let Some(metadata) = object::metadata_mut(new)
            && let Some(labels) = metadata.entry("labels").or_insert_with(|| json!({})).as_object_mut()
        {
            labels.insert(MACHINE_LABEL.to_owned(), json!(machine));
        }
        if old.is_none() {
            annotate_with_trace(new);
        }
        let field = descriptor_of(new).and_then(|action| action.parameters);
        if let Some(ParametersField { name, presence: Presence::Defaulted }) = field
            && let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.entry(name).or_insert_with(|| json!({}));
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_parameters(new, &mut errors);
        if let Some(old) = old {
            validate_change(new, old, &mut errors);
        }
        errors
    }
}

/// Notes the trace of the request that creates an operation, if it is recorded: the passes over the operation continue it,
/// on whichever replica they run.
fn annotate_with_trace(new: &mut Value) {
    let Some(trace) = Span::current_as_parent() else { return };
    if let Some(metadata) = object::metadata_mut(new)
        && let Some(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.insert(Parent::ANNOTATION.to_owned(), json!(trace));
    }
}

/// Entry of the action table for an operation; `None` if the action is unknown.
fn descriptor_of(operation: &Value) -> Option<&'static ActionDescriptor> {
    let name = object::at(operation, "spec.action")?.as_str()?;
    ACTIONS.iter().find(|action| action.name == name)
}

/// Returns the caller in the form of `spec.requestedBy`, with the audit id of the request.
pub(crate) fn requested_by(caller: &Caller) -> Value {
    let mut requested_by = json!({"username": caller.username, "groups": caller.groups});
    if !caller.audit_id.is_empty() {
        requested_by["auditID"] = json!(caller.audit_id);
    }
    requested_by
}

/// Validates that an operation has the parameters of its action and of no other action.
fn validate_parameters(new: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec");
    let action = descriptor_of(new);
    let is_set = |field: ParametersField| new.pointer(&format!("/spec/{}", field.name)).is_some();
    for other in ACTIONS.iter().filter(|other| action != Some(*other)) {
        if let Some(field) = other.parameters.filter(|field| is_set(*field)) {
            let detail = format!("only for action {}", other.name);
            errors.push(FieldError::forbidden(path.child(field.name), &detail));
        }
    }
    if let Some(field) = action.and_then(|action| action.parameters)
        && let Presence::Required(detail) = field.presence
        && !is_set(field)
    {
        errors.push(FieldError::required(path.child(field.name), detail));
    }
    if let Some(desired) = object::at(new, "spec.upgrade.version")
        && desired.as_str().and_then(version::parse).is_none()
    {
        let detail = "must be a valid semantic version with a leading v, e.g. v1.30.2";
        errors.push(FieldError::invalid(path.child("upgrade").child("version"), desired, detail));
    }
    if let Some(machine) = object::at(new, "spec.machineName")
        && !machine.as_str().is_some_and(is_subdomain)
    {
        errors.push(FieldError::invalid(path.child("machineName"), machine, "must be the name of a Machine"));
    }
}

/// Validates that an update changes nothing in the spec but `cancelRequested`, and only sets it.
fn validate_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    errors.extend(immutable::spec_fields(new, old, |now, before| {
        for value in [now, before] {
            immutable::forget(value, "cancelRequested");
        }
    }));
    let cancelled = |object: &Value| object::at(object, "spec.cancelRequested") == Some(&json!(true));
    if cancelled(old) && !cancelled(new) {
        let detail = "a cancellation cannot be taken back";
        errors.push(FieldError::forbidden(FieldPath::new("spec.cancelRequested"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(new: &Value, old: Option<&Value>) -> Vec<String> {
        MachineOperationStrategy.validate(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_operation_gets_a_machine_label_and_default_parameters() {
        let mut reboot = json!({"spec": {"machineName": "m1", "action": "Reboot"}});
        MachineOperationStrategy.prepare(&mut reboot, None);
        assert_eq!(reboot["metadata"]["labels"], json!({MACHINE_LABEL: "m1"}));
        assert_eq!(reboot["spec"]["reboot"], json!({}));
        let mut upgrade = json!({"spec": {"machineName": "m".repeat(64), "action": "Upgrade"}});
        MachineOperationStrategy.prepare(&mut upgrade, None);
        assert_eq!(upgrade["metadata"], Value::Null);
        assert_eq!(upgrade["spec"]["reboot"], Value::Null);
    }

    #[test]
    fn am_12_an_operation_has_the_audit_id_of_the_request_that_made_it() {
        let mut caller = Caller { username: "bob".to_owned(), ..Caller::default() };
        assert_eq!(requested_by(&caller), json!({"username": "bob", "groups": []}));
        caller.audit_id = "3c1f".to_owned();
        assert_eq!(requested_by(&caller), json!({"auditID": "3c1f", "username": "bob", "groups": []}));
    }

    #[test]
    fn parameters_are_those_of_the_action() {
        let table = [
            (json!({"machineName": "m", "action": "Reboot", "reboot": {}}), vec![]),
            (json!({"machineName": "m", "action": "Upgrade", "upgrade": {"version": "v1.31.0"}}), vec![]),
            (
                json!({"machineName": "m", "action": "Reboot", "upgrade": {"version": "v1.31.0"}}),
                vec!["spec.upgrade: Forbidden: only for action Upgrade"],
            ),
            (
                json!({"machineName": "m", "action": "Upgrade", "reboot": {}}),
                vec![
                    "spec.reboot: Forbidden: only for action Reboot",
                    "spec.upgrade: Required value: says to which version",
                ],
            ),
            (
                json!({"machineName": "M 1", "action": "Upgrade", "upgrade": {"version": "1.31"}}),
                vec![
                    "spec.upgrade.version: Invalid value: \"1.31\": must be a valid semantic version with a leading v, e.g. v1.30.2",
                    "spec.machineName: Invalid value: \"M 1\": must be the name of a Machine",
                ],
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(errors(&json!({"spec": spec}), None), expected, "{spec}");
        }
    }

    #[test]
    fn only_a_cancellation_can_be_added_and_it_is_final() {
        let old = json!({"spec": {"machineName": "m", "action": "Reboot", "reboot": {"type": "Soft"}}});
        let mut cancelled = old.clone();
        cancelled["spec"]["cancelRequested"] = json!(true);
        assert_eq!(errors(&cancelled, Some(&old)), Vec::<String>::new());
        assert_eq!(
            errors(&old, Some(&cancelled)),
            ["spec.cancelRequested: Forbidden: a cancellation cannot be taken back"]
        );
        let mut harder = old.clone();
        harder["spec"]["reboot"]["type"] = json!("Hard");
        harder["spec"]["requestedBy"] = json!({"username": "somebody else"});
        let found = errors(&harder, Some(&old));
        assert_eq!(found.len(), 2, "{found:?}");
        for (error, field) in found.iter().zip(["spec.reboot", "spec.requestedBy"]) {
            assert!(error.starts_with(field) && error.ends_with("field is immutable"), "{error}");
        }
    }
}
