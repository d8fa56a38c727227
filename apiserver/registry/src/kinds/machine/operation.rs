//! What all verbs of a Machine do: from a request to one `MachineOperation`, and never to two at
//! once.

use apiserver_machinery::action::{ActionCall, ActionResponse, Objects};
use apiserver_machinery::metadata::is_label_value;
use apiserver_machinery::object;
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::Lock;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::kinds::machine_operation::{MACHINE_LABEL, requested_by};

const GROUP: &str = "cluster.x-k8s.io";
const OPERATIONS: (&str, &str) = ("capstan.dev", "machineoperations");

/// Group, version and kind of what a verb answers.
pub(super) const OPERATION_KIND: (&str, &str, &str) = ("capstan.dev", "v1alpha1", "MachineOperation");

/// Longest part of the Machine's name in an operation's: a generated name's prefix has 58 bytes,
/// and `-upgrade-` is 9 of them.
const LONGEST_NAME: usize = 48;

/// What a verb asks for.
#[derive(Debug)]
pub(super) struct Wish {
    /// `Reboot`, ...
    pub(super) action: &'static str,
    /// The verb, which is also the field of the operation's spec that has the parameters.
    pub(super) verb: &'static str,
    pub(super) parameters: Map<String, Value>,
    pub(super) idempotency_key: String,
}

impl Wish {
    /// The wish in a verb's body: what is neither its type nor its key are the parameters.
    pub(super) fn new(action: &'static str, verb: &'static str, body: &Value) -> Self {
        let mut parameters = body.as_object().cloned().unwrap_or_default();
        let key = parameters.remove("idempotencyKey");
        parameters.retain(|field, _| field != "apiVersion" && field != "kind");
        let idempotency_key = key.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { action, verb, parameters, idempotency_key }
    }

    /// The operation it becomes.
    fn operation(&self, machine: &Value, call: &ActionCall<'_>) -> Value {
        let name = object::name(machine);
        let short: String = name.chars().take(LONGEST_NAME).collect();
        let short = short.trim_end_matches(['.', '-']);
        let mut spec = json!({"action": self.action, "machineName": name, self.verb: self.parameters,
            "requestedBy": requested_by(&call.caller)});
        if !self.idempotency_key.is_empty() {
            spec["idempotencyKey"] = json!(self.idempotency_key);
        }
        let owner = json!({"apiVersion": machine.get("apiVersion"), "kind": "Machine", "name": name,
            "uid": object::meta(machine, "uid")});
        let (group, version, kind) = OPERATION_KIND;
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": spec, "metadata": {
            "generateName": format!("{short}-{}-", self.verb), "namespace": call.namespace,
            "ownerReferences": [owner]}})
    }

    /// What an earlier call with the same key made; a conflict when that call asked for something else.
    fn earlier(
        &self,
        operations: &[Value],
        resource: &Resource,
        machine: &Value,
    ) -> ApiResult<Option<Value>> {
        if self.idempotency_key.is_empty() {
            return Ok(None);
        }
        let key = json!(self.idempotency_key);
        let same_key = |operation: &&Value| object::at(operation, "spec.idempotencyKey") == Some(&key);
        let Some(found) = operations.iter().find(same_key) else { return Ok(None) };
        let mut asked = json!({"spec": {"action": self.action, self.verb: self.parameters}});
        resource.schema.fill_in(&mut asked);
        let part = |object: &Value, field: &str| object.pointer(&format!("/spec/{field}")).cloned();
        if ["action", self.verb].iter().all(|field| part(found, field) == part(&asked, field)) {
            return Ok(Some(found.clone()));
        }
        let why = format!(
            "idempotencyKey {key} was used for machineoperation \"{}\", which asks for something else",
            object::name(found)
        );
        Err(ApiError::conflict(resource, object::name(machine), &why))
    }
}

/// The Machine a verb is called on.
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

/// Makes the operation that `wish` asks of `machine`, or finds the one that an earlier call made.
/// `check` says what speaks against the wish beside the state that all verbs need; a call that
/// repeats an earlier one is answered whatever became of the Machine since.
///
/// # Errors
/// 409 when the Machine is being deleted or is paused, when another operation is under way, or
/// when the key was used for something else; 422 when the Machine is none of ours; those of `check`.
pub(super) async fn begin(
    call: &ActionCall<'_>,
    machine: &Value,
    wish: &Wish,
    check: impl FnOnce() -> ApiResult<()>,
) -> ApiResult<ActionResponse> {
    let operations = resource(call.objects, OPERATIONS.0, OPERATIONS.1)?;
    let known = operations_of(call, machine).await?;
    if let Some(earlier) = wish.earlier(&known, operations, machine)? {
        return Ok(ActionResponse { object: earlier, created: false });
    }
    check_state(call, machine).await?;
    check()?;
    if call.dry_run {
        return create(call, machine, wish, None).await;
    }
    // Two calls at once see the same operations: what they see and what they add must be one.
    let lock = call.objects.lock(&format!("machines/{}", object::meta(machine, "uid"))).await?;
    let answer = create(call, machine, wish, Some(&lock)).await;
    call.objects.unlock(lock).await;
    answer
}

async fn create(
    call: &ActionCall<'_>,
    machine: &Value,
    wish: &Wish,
    lock: Option<&Lock>,
) -> ApiResult<ActionResponse> {
    let (group, plural) = OPERATIONS;
    let known = operations_of(call, machine).await?;
    if let Some(earlier) = wish.earlier(&known, resource(call.objects, group, plural)?, machine)? {
        return Ok(ActionResponse { object: earlier, created: false });
    }
    if let Some(running) = known.iter().find(|operation| !is_finished(operation)) {
        let why = format!("machineoperation \"{}\" is not finished", object::name(running));
        return Err(conflict(call, machine, &why)?);
    }
    lock.map_or(Ok(()), Lock::check)?;
    let operation = wish.operation(machine, call);
    let object = call.objects.create(group, plural, call.namespace, operation, call.dry_run).await?;
    Ok(ActionResponse { object, created: true })
}

/// Those of this Machine, not of an earlier one of its name.
async fn operations_of(call: &ActionCall<'_>, machine: &Value) -> ApiResult<Vec<Value>> {
    let name = object::name(machine);
    // A longer name cannot be a label's value.
    let selector = if is_label_value(name) { format!("{MACHINE_LABEL}={name}") } else { String::new() };
    let mut operations = call.objects.list(OPERATIONS.0, OPERATIONS.1, call.namespace, &selector).await?;
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

fn resource<'a>(objects: &'a dyn Objects, group: &str, plural: &str) -> ApiResult<&'a Resource> {
    objects
        .resource(group, plural)
        .ok_or_else(|| ApiError::internal(format!("{plural}.{group} is not served")))
}
