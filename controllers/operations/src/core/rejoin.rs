//! Second join of a worker's node, after its server has lost its disk.
//!
//! The machine runs `kubeadm join` again with the same user data, so with the same token. That token was deleted when the
//! Machine had joined. An annotation of the Machine makes the controller of KubeadmConfigs create it again under its old
//! id, and extend it until the operation has ended. kubeadm refuses to join under the name of a Node that is Ready, so
//! the old Node is deleted before the server is.

use std::time::Duration;

use apiserver_types::{KubeadmConfig, Machine, MachineOperation, OperationStep, StepState};
use controllers_runtime::ReconcileError;
use controllers_workload::found;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::core::context::OperationContext;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, is_ready};
use crate::core::report;
use crate::core::target::{Stop, Target, find, missing};

/// Annotation of a Machine with the name of the operation after which its node joins again. While it is there, the
/// controller of KubeadmConfigs keeps the Machine's bootstrap token, as if the Machine had not joined.
const REJOIN: &str = "capstan.dev/rejoin";

/// Label of control plane Machines, with any value.
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Step that waits for the token.
pub(crate) const PREPARE: &str = "PrepareJoin";

/// Step that deletes the old Node.
pub(crate) const DELETE_NODE: &str = "DeleteNode";

/// Step that waits for the new Node.
pub(crate) const AWAIT: &str = "AwaitNode";

/// Namespace of bootstrap tokens, by Kubernetes.
const TOKENS: &str = "kube-system";

/// Time limit of the wait for the new Node: a boot with packages from a slow mirror takes ten minutes.
const JOIN_TIMEOUT: Duration = Duration::from_mins(20);

/// Effects of a rejoin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Ask for the Machine's token.
    Request,
    /// Delete the Node with this uid.
    DeleteNode(String),
}

/// Node of the Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    uid: String,
    ready: bool,
}

/// State of a rejoin. The default is that of a Machine whose node does not join again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rejoin {
    /// The operation has the steps of a rejoin.
    planned: bool,
    requested: bool,
    /// Reason why the node cannot join yet.
    obstacle: Option<String>,
    node: Option<Seen>,
    /// The wait for the new Node takes too long.
    late: bool,
}

/// Reports whether the Machine is one of a control plane.
pub(crate) fn is_control_plane(machine: &Machine) -> bool {
    machine.labels().contains_key(CONTROL_PLANE)
}

/// Reports whether the node of a Machine joins again when its server loses its disk. The user data of other bootstrap
/// providers is unknown, and so is what it needs.
pub(crate) fn is_needed(machine: &Machine) -> bool {
    node_drain::node_name(machine).is_some() && config_name(machine).is_some()
}

/// Returns the steps of a way, with those of a rejoin: the first two after the claim, the third at the end.
pub(crate) fn plan(machine: &Machine, steps: Vec<&'static str>) -> Vec<&'static str> {
    if !is_needed(machine) {
        return steps;
    }
    let mut steps = steps;
    let after_claim = usize::from(!steps.is_empty());
    steps.splice(after_claim..after_claim, [PREPARE, DELETE_NODE]);
    steps.push(AWAIT);
    steps
}

fn config_name(machine: &Machine) -> Option<&str> {
    let reference = machine.spec.bootstrap.config_ref.as_ref().filter(|it| it.kind == "KubeadmConfig");
    reference.map(|it| it.name.as_str())
}

/// Observes the state of a rejoin. Each part is read only when a step needs it.
///
/// # Errors
/// The workload cluster cannot be read, or an API has failed.
pub(crate) async fn observe(target: &Target) -> Result<Rejoin, ReconcileError> {
    let Some(step) = target.step(PREPARE) else { return Ok(Rejoin::default()) };
    let annotation = target.machine.annotations().get(REJOIN).map(String::as_str);
    let mut rejoin =
        Rejoin { planned: true, requested: annotation == Some(target.name()), ..Rejoin::default() };
    if step.state != StepState::Done {
        rejoin.obstacle = obstacle(target).await?;
        return Ok(rejoin);
    }
    let waiting = target.step(AWAIT).filter(|step| step.state == StepState::Running);
    let since = waiting.and_then(report::started);
    rejoin.late = since.is_some_and(|since| report::elapsed(since, target.now) > JOIN_TIMEOUT);
    // Between the two, the workload cluster may be unreachable.
    let is_running = |name| target.step(name).is_some_and(|step| step.state == StepState::Running);
    if is_running(DELETE_NODE) || is_running(AWAIT) {
        rejoin.node = match node(target).await {
            Err(ReconcileError::Waiting { .. }) if rejoin.late => None,
            other => other?,
        };
    }
    Ok(rejoin)
}

/// Returns the reason why the token cannot be used yet.
async fn obstacle(target: &Target) -> Result<Option<String>, ReconcileError> {
    let name = config_name(&target.machine).unwrap_or_default();
    let configs: Api<KubeadmConfig> = Api::namespaced(target.context.client.clone(), target.namespace());
    let Some(config) = configs.get_opt(name).await? else {
        return Ok(Some(format!("KubeadmConfig {name:?}, which names the bootstrap token, does not exist")));
    };
    let Some(id) = token_id(&config) else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(client(target)?, TOKENS);
    let name = format!("bootstrap-token-{id}");
    let known = found(secrets.get(&name).await).map_err(|error| unreachable(&error))?;
    Ok(known.is_none().then(|| format!("waiting for Secret {name} in the workload cluster")))
}

/// Returns the id of the token. A join with a kubeconfig file needs none.
fn token_id(config: &KubeadmConfig) -> Option<&str> {
    let discovery = config.spec.join_configuration.as_ref()?.discovery.as_ref()?;
    let token = discovery.bootstrap_token.as_ref().filter(|_| discovery.file.is_none())?;
    token.token.as_deref()?.split_once('.').map(|(id, _)| id)
}

async fn node(target: &Target) -> Result<Option<Seen>, ReconcileError> {
    let nodes: Api<Node> = Api::all(client(target)?);
    let name = node_drain::node_name(&target.machine).unwrap_or_default();
    let node = found(nodes.get(name).await).map_err(|error| unreachable(&error))?;
    Ok(node.map(|node| Seen { uid: node.uid().unwrap_or_default(), ready: is_ready(&node) }))
}

fn client(target: &Target) -> Result<kube::Client, ReconcileError> {
    node_drain::workload(target).map_err(|error| unreachable(&error))
}

fn unreachable(error: &controllers_workload::WorkloadError) -> ReconcileError {
    missing(error.to_string())
}

impl Rejoin {
    /// Decides before the point of no return. Returns `None` once the node can join again.
    pub(crate) fn prepare<E>(
        &self,
        steps: &[OperationStep],
        wrap: impl FnOnce(Effect) -> E,
    ) -> Option<Decision<E>> {
        if !self.planned || is_done(steps, PREPARE) {
            return None;
        }
        if !self.requested {
            return Some(Decision::act(PREPARE, wrap(Effect::Request)));
        }
        if let Some(obstacle) = &self.obstacle {
            return Some(Decision::wait(PREPARE, obstacle.clone()));
        }
        let ready = StepUpdate::done(PREPARE, "the bootstrap token of the user data can be used again");
        Some(Decision::record(Change::of([ready])))
    }

    /// Returns the step that is announced with the point of no return.
    pub(crate) fn announcement(&self) -> Option<StepUpdate> {
        self.planned.then(|| StepUpdate::running(DELETE_NODE, "deleting the Node, so that its name is free"))
    }

    /// Decides on the old Node, right before the server loses its disk. Returns `None` once there is none.
    pub(crate) fn delete_node<E>(&self, wrap: impl FnOnce(Effect) -> E) -> Option<Decision<E>> {
        let node = self.node.as_ref().filter(|_| self.planned)?;
        Some(Decision::act(DELETE_NODE, wrap(Effect::DeleteNode(node.uid.clone()))))
    }

    /// Returns the stop that still counts after the announcement: a server whose Node is deleted is not left as it is,
    /// unless its Machine is deleted, too.
    pub(crate) fn late_stop<'a>(&self, stop: Option<&'a Stop>) -> Option<&'a Stop> {
        stop.filter(|stop| !self.planned || stop.reason == "MachineDeleting")
    }

    /// Returns what a failure means for the Node. Empty if it means nothing.
    pub(crate) fn consequence(&self, steps: &[OperationStep]) -> &'static str {
        let deleted = find(steps, DELETE_NODE).is_some_and(|step| step.state != StepState::Pending);
        if self.planned && deleted && self.node.is_none() {
            "; its Node was deleted. Reboot the Machine, so that its kubelet registers the Node again"
        } else {
            ""
        }
    }

    /// Decides after the upgrade. Returns `None` once the new Node is Ready.
    pub(crate) fn wait<E>(&self, steps: &[OperationStep], stop: Option<&Stop>) -> Option<Decision<E>> {
        let deleting = stop.is_some_and(|stop| stop.reason == "MachineDeleting");
        if !self.planned || deleting || is_done(steps, AWAIT) {
            return None;
        }
        if find(steps, AWAIT).is_none_or(|step| step.state == StepState::Pending) {
            let waiting = StepUpdate::running(AWAIT, "waiting for the Node to join again");
            return Some(Decision::record(Change::of([waiting])));
        }
        let message = match &self.node {
            Some(node) if node.ready => {
                let done = StepUpdate::done(AWAIT, "the Node has joined again and is Ready");
                return Some(Decision::record(Change::of([done])));
            }
            Some(_) => "waiting for the Node to be Ready",
            None => "waiting for the Node to join again",
        };
        if self.late {
            let message = "the Node was not Ready in time; its server has what was asked for. Read the \
                           server's console, where cloud-init says why";
            return Some(Decision::End(Outcome::failed(AWAIT, "NodeNotReady", message)));
        }
        Some(Decision::wait(AWAIT, message))
    }
}

/// Returns the step that is done when the server is about to lose its disk.
pub(crate) fn deleted(steps: &[OperationStep]) -> Option<StepUpdate> {
    find(steps, DELETE_NODE).map(|_| StepUpdate::done(DELETE_NODE, "the old Node is deleted"))
}

fn is_done(steps: &[OperationStep], name: &str) -> bool {
    find(steps, name).is_some_and(|step| step.state == StepState::Done)
}

/// Makes one effect.
///
/// # Errors
/// An API has failed, or the workload cluster cannot be reached.
pub(crate) async fn act(target: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
    match effect {
        Effect::Request => {
            annotate(&target.machines(), &target.machine, &json!(target.name())).await?;
            Ok(Change::of([StepUpdate::running(PREPARE, "asked for the bootstrap token of the user data")]))
        }
        Effect::DeleteNode(uid) => {
            let nodes: Api<Node> = Api::all(client(target)?);
            let name = node_drain::node_name(&target.machine).unwrap_or_default();
            let only_this = Preconditions { uid: Some(uid.clone()), resource_version: None };
            match nodes.delete(name, &DeleteParams::default().preconditions(only_this)).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                result => drop(result.map_err(|error| unreachable(&error.into()))?),
            }
            Ok(Change::default())
        }
    }
}

/// Gives up the token, if this operation has asked for it.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn release(
    context: &OperationContext,
    operation: &MachineOperation,
    machine: Option<&Machine>,
) -> Result<(), kube::Error> {
    let name = operation.name_any();
    let Some(machine) = machine.filter(|it| it.annotations().get(REJOIN) == Some(&name)) else {
        return Ok(());
    };
    let namespace = operation.namespace().unwrap_or_default();
    annotate(&Api::namespaced(context.client.clone(), &namespace), machine, &Value::Null).await
}

/// Writes the annotation. The revision guards the write.
async fn annotate(api: &Api<Machine>, machine: &Machine, value: &Value) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {
        "resourceVersion": machine.resource_version(), "annotations": {REJOIN: value},
    }});
    api.patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}
