//! Creation of a MachineOperation by an action, with at most one unfinished operation per Machine.

use apiserver_machinery::action::{ActionCall, ActionResponse, Objects};
use apiserver_machinery::metadata::is_label_value;
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult, ResourceNames};
use apiserver_machinery::store::Lock;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{ActionDescriptor, Described, Descriptor, MachineOperation};
use serde_json::{Map, Value, json};

use crate::kinds::machine_operation::{MACHINE_LABEL, requested_by};

const GROUP: &str = "cluster.x-k8s.io";
const OPERATION: Descriptor = MachineOperation::DESCRIPTOR;

/// Longest part of a Machine's name in an operation's name.
const LONGEST_NAME: usize = 48;

/// Longest prefix of a generated name: 63 bytes of a label less the 5 generated ones.
const LONGEST_PREFIX: usize = 58;

/// Request for an operation.
#[derive(Debug)]
pub(super) struct OperationRequest {
    action: &'static ActionDescriptor,
    parameters: Map<String, Value>,
    idempotency_key: String,
}

impl OperationRequest {
    /// Reads the body of an action. All fields that are not common to all actions are parameters.
    pub(super) fn new(action: &'static ActionDescriptor, body: &Value) -> Self {
        let mut parameters = body.as_object().cloned().unwrap_or_default();
        let key = parameters.remove("idempotencyKey");
        parameters.retain(|field, _| field != "apiVersion" && field != "kind");
        let idempotency_key = key.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { action, parameters, idempotency_key }
    }

    /// Returns the action and its parameters as fields of an operation's spec.
    fn spec(&self) -> Value {
        let mut spec = json!({"action": self.action.name});
        if let Some(field) = self.action.parameters {
            spec[field.name] = json!(self.parameters);
        }
        spec
    }

    /// Returns the operation to create.
    fn operation(&self, machine: &Value, call: &ActionCall<'_>) -> Value {
        let name = object::name(machine);
        let suffix = format!("-{}-", self.action.subresource);
        let longest = LONGEST_NAME.min(LONGEST_PREFIX.saturating_sub(suffix.len()));
        let short: String = name.chars().take(longest).collect();
        let short = short.trim_end_matches(['.', '-']);
        let mut spec = self.spec();
        spec["machineName"] = json!(name);
        spec["requestedBy"] = requested_by(&call.caller);
        if !self.idempotency_key.is_empty() {
            spec["idempotencyKey"] = json!(self.idempotency_key);
        }
        let owner = json!({"apiVersion": machine.get("apiVersion"), "kind": "Machine", "name": name,
            "uid": object::meta(machine, "uid")});
        let Descriptor { group, version, kind, .. } = OPERATION;
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": spec, "metadata": {
            "generateName": format!("{short}{suffix}"), "namespace": call.namespace,
            "ownerReferences": [owner]}})
    }

    /// Returns the operation of an earlier call with the same key.
    ///
    /// # Errors
    /// 409 if that call requested something else.
    fn earlier(
        &self,
        operations: &[Value],
        objects: &dyn Objects,
        machine: &Value,
    ) -> ApiResult<Option<Value>> {
        if self.idempotency_key.is_empty() {
            return Ok(None);
        }
        let key = json!(self.idempotency_key);
        let same_key = |operation: &&Value| object::at(operation, "spec.idempotencyKey") == Some(&key);
        let Some(found) = operations.iter().find(same_key) else { return Ok(None) };
        let mut requested = json!({"spec": self.spec()});
        let Descriptor { group, plural, .. } = OPERATION;
        objects.fill_in(group, plural, &mut requested);
        let part = |object: &Value, field: &str| object.pointer(&format!("/spec/{field}")).cloned();
        let parameters = self.action.parameters.map(|field| field.name);
        let same = |field: &str| part(found, field) == part(&requested, field);
        if same("action") && parameters.is_none_or(same) {
            return Ok(Some(found.clone()));
        }
        let why = format!(
            "idempotencyKey {key} was used for machineoperation \"{}\", which asks for something else",
            object::name(found)
        );
        Err(ApiError::conflict(resource(objects, group, plural)?, object::name(machine), &why))
    }
}

/// Returns the Machine on which an action is called.
///
/// # Errors
/// 404.
pub(super) async fn machine(call: &ActionCall<'_>) -> ApiResult<Value> {
    let found = call.objects.get(GROUP, "machines", call.namespace, call.name).await?;
    match found {
        Some(machine) => Ok(machine),
        None => Err(ApiError::not_found(resource(call.objects, GROUP, "machines")?, call.name)),
    }
}

/// Creates the requested operation, or returns the one that an earlier call with the same key created.
///
/// `check` holds what one action requires beyond the state of the Machine that all actions require. A repeated call
/// is not checked: its response is the earlier operation, even if the Machine has changed since.
///
/// # Errors
/// 409 if the Machine is being deleted or paused, if another operation is unfinished, or if the key was used for
/// another request; 422 if the Machine is not an OpenStack machine; the errors of `check`.
pub(super) async fn begin(
    call: &ActionCall<'_>,
    machine: &Value,
    request: &OperationRequest,
    check: impl FnOnce() -> ApiResult<()>,
) -> ApiResult<ActionResponse> {
    let known = operations_of(call, machine).await?;
    if let Some(earlier) = request.earlier(&known, call.objects, machine)? {
        return Ok(ActionResponse { object: earlier, created: false, ..ActionResponse::default() });
    }
    check_state(call, machine).await?;
    check()?;
    if call.dry_run {
        return create(call, machine, request, None).await;
    }
    // Without a lock, two calls at once could both find no unfinished operation.
    let lock = call.objects.lock(&format!("machines/{}", object::meta(machine, "uid"))).await?;
    let response = create(call, machine, request, Some(&lock)).await;
    call.objects.unlock(lock).await;
    response
}

async fn create(
    call: &ActionCall<'_>,
    machine: &Value,
    request: &OperationRequest,
    lock: Option<&Lock>,
) -> ApiResult<ActionResponse> {
    let Descriptor { group, plural, .. } = OPERATION;
    let known = operations_of(call, machine).await?;
    if let Some(earlier) = request.earlier(&known, call.objects, machine)? {
        return Ok(ActionResponse { object: earlier, created: false, ..ActionResponse::default() });
    }
    if let Some(running) = known.iter().find(|operation| !is_finished(operation)) {
        let why = format!("machineoperation \"{}\" is not finished", object::name(running));
        return Err(conflict(call, machine, &why)?);
    }
    let (operation, lock) = (request.operation(machine, call), lock.map(Lock::validity));
    let object = call.objects.create(group, plural, call.namespace, operation, call.dry_run, lock).await?;
    Ok(ActionResponse { object, created: true, ..ActionResponse::default() })
}

/// Returns the operations of this Machine, without those of an earlier Machine of the same name.
async fn operations_of(call: &ActionCall<'_>, machine: &Value) -> ApiResult<Vec<Value>> {
    let name = object::name(machine);
    // A longer name cannot be a label's value.
    let selector = if is_label_value(name) { format!("{MACHINE_LABEL}={name}") } else { String::new() };
    let mut operations =
        call.objects.list(OPERATION.group, OPERATION.plural, call.namespace, &selector).await?;
    let machine_uid = object::at(machine, "metadata.uid");
    operations.retain(|operation| {
        let owners = object::at(operation, "metadata.ownerReferences").and_then(Value::as_array);
        let mut owners =
            owners.into_iter().flatten().filter(|owner| owner.get("kind") == Some(&json!("Machine")));
        object::at(operation, "spec.machineName") == Some(&json!(name))
            && owners.all(|owner| owner.get("uid") == machine_uid)
    });
    Ok(operations)
}

fn is_finished(operation: &Value) -> bool {
    let phase = object::at(operation, "status.phase").and_then(Value::as_str);
    matches!(phase, Some("Complete" | "Failed" | "Cancelled"))
}

async fn check_state(call: &ActionCall<'_>, machine: &Value) -> ApiResult<()> {
    if object::is_deleting(machine) {
        return Err(conflict(call, machine, "the machine is being deleted")?);
    }
    if machine.pointer("/metadata/annotations/cluster.x-k8s.io~1paused").is_some() {
        return Err(conflict(call, machine, "the machine is paused (annotation cluster.x-k8s.io/paused)")?);
    }
    let cluster = object::at(machine, "spec.clusterName").and_then(Value::as_str).unwrap_or_default();
    let found = call.objects.get(GROUP, "clusters", call.namespace, cluster).await?;
    if found.is_some_and(|cluster| object::at(&cluster, "spec.paused") == Some(&json!(true))) {
        let why = format!("its cluster \"{cluster}\" is paused (spec.paused)");
        return Err(conflict(call, machine, &why)?);
    }
    let kind = object::at(machine, "spec.infrastructureRef.kind").cloned().unwrap_or_default();
    if kind != "OpenStackMachine" {
        let path = FieldPath::new("spec.infrastructureRef.kind");
        let error = FieldError::not_supported(path, &kind, &["OpenStackMachine"]);
        let resource = resource(call.objects, GROUP, "machines")?;
        return Err(ApiError::invalid(resource, object::name(machine), &[error]));
    }
    Ok(())
}

fn conflict(call: &ActionCall<'_>, machine: &Value, why: &str) -> ApiResult<ApiError> {
    Ok(ApiError::conflict(resource(call.objects, GROUP, "machines")?, object::name(machine), why))
}

fn resource<'a>(objects: &'a dyn Objects, group: &str, plural: &str) -> ApiResult<&'a dyn ResourceNames> {
    objects
        .resource(group, plural)
        .ok_or_else(|| ApiError::internal(format!("{plural}.{group} is not served")))
}
