//! Extension servers that update control plane Machines in place: the question whether they can, and the begin of an update.

use apiserver_types::{KubeadmConfig, KubeadmControlPlane};
use controllers_extensions::{
    Call, CanUpdateMachineRequest, CanUpdateMachineResponse, ExtensionServers, Extensions, Hook,
    MachineObjects, NO_SETTINGS, desired_part,
};
use controllers_runtime::{ReconcileError, Severity};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::act::Actor;
use super::config::Start;
use super::in_place::Verdict;
use super::observe::Observed;
use super::replica::Replica;
use super::{desired, outdated, sync};
use crate::in_place::{Change, Failures, MACHINE_FIELDS, PENDING_HOOKS, answered, only_handler, with_hook};
use crate::machine_labels::UPDATING;
use crate::{ownership, templates};

/// Fields of infrastructure objects and KubeadmConfigs that do not count.
const NOTHING: &[&str] = &[];

/// Extension servers, with their failures by uid of the control plane.
#[derive(Debug, Default)]
pub(super) struct Updaters {
    servers: ExtensionServers,
    failures: Failures,
}

impl Updaters {
    /// Forgets the failures of a control plane.
    pub(super) fn forget(&self, uid: &str) {
        self.failures.forget(uid);
    }
}

impl Actor<'_> {
    /// Asks a server whether it can update a Machine.
    pub(super) async fn judge(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
    ) -> Result<Verdict, ReconcileError> {
        let uid = control_plane.uid().unwrap_or_default();
        if let Some((text, wait)) = self.updaters.failures.get(&uid) {
            return Ok(Verdict::Failed(text, wait));
        }
        let Some(replica) = observed.replicas.iter().find(|it| it.name() == name) else {
            return Ok(Verdict::NotAsked);
        };
        let lines = match self.differences(control_plane, observed, replica).await? {
            Ok(lines) => lines,
            Err(text) => {
                let (text, wait) = self.updaters.failures.note(&uid, text);
                return Ok(Verdict::Failed(text, wait));
            }
        };
        self.updaters.failures.forget(&uid);
        Ok(match lines {
            None => Verdict::NotAsked,
            Some(lines) if lines.is_empty() => Verdict::Accepted(name.to_owned()),
            Some(lines) => Verdict::Refused(lines),
        })
    }

    /// Returns the differences that the server does not make in place, one line each; or why it does not say. `None`: there is
    /// no server.
    async fn differences(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        replica: &Replica,
    ) -> Result<Result<Option<Vec<String>>, String>, ReconcileError> {
        let extensions = Extensions::read(self.context, &self.updaters.servers).await?;
        if !extensions.has(Hook::CanUpdateMachine) {
            return Ok(Ok(None));
        }
        let namespace = control_plane.namespace().unwrap_or_default();
        let mut handlers = [None, None];
        let hooks = [Hook::CanUpdateMachine, Hook::UpdateMachine];
        for (hook, handler) in hooks.into_iter().zip(&mut handlers) {
            match only_handler(&extensions, hook, &namespace).await? {
                Ok(found) => *handler = found,
                Err(text) => return Ok(Err(text)),
            }
        }
        let [Some(handler), Some(_)] = handlers else { return Ok(Ok(None)) };
        let (Some(config), Some(current)) = (&replica.config, &replica.infrastructure) else {
            return Ok(Ok(None));
        };
        // The API says what it would store, and whether it would refuse that.
        let updated = match self.update_server(control_plane, observed, replica, true).await {
            Ok(updated) => updated,
            Err(error) => return Ok(Ok(Some(vec![refusal(error)?]))),
        };
        let request = request(control_plane, replica, config, (current, updated));
        let call = Call { handler: &handler, namespace: &namespace, settings: &NO_SETTINGS };
        let answer = answered(extensions.call(&call, &request).await)?;
        Ok(answer.and_then(|answer| uncovered(&request, &answer)).map(Some))
    }

    /// Begins the update of a Machine, or goes on with one whose begin was interrupted: marks it, brings its objects and itself
    /// to the wish, and enters the hook, with which the controller of Machines calls the server.
    pub(super) async fn update(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let Some(replica) = observed.replicas.iter().find(|it| it.name() == name) else { return Ok(()) };
        let machines = self.machines(control_plane);
        let params = PatchParams::apply(sync::MANAGER).force();
        if !replica.has_annotation(UPDATING) {
            // Another member leads etcd during the update, if there is one.
            let leader = replica.node().filter(|_| observed.replicas.len() > 1);
            self.forward_leadership(control_plane, observed, leader).await?;
            let change = json!({"metadata": {"uid": replica.machine.uid(), "annotations": {UPDATING: ""}}});
            machines.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        }
        self.update_server(control_plane, observed, replica, false).await?;
        self.update_config(control_plane, observed, replica, &params).await?;
        let cluster = observed.cluster.name_any();
        let machine = desired::updated(control_plane, &cluster, &replica.machine);
        let machine = machines.patch(name, &params, &Patch::Apply(&machine)).await?;
        let change = json!({"metadata": {
            "resourceVersion": machine.resource_version(), "uid": machine.uid(),
            "annotations": {PENDING_HOOKS: with_hook(&machine)},
        }});
        machines.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        let (reason, message) = ("SuccessfulStartInPlaceUpdate", "The update in place begins");
        self.context.events.record(&machine, Severity::Normal, reason, message).await;
        Ok(())
    }

    /// Brings the infrastructure object of a Machine to the template. With `is_dry`, nothing is stored.
    async fn update_server(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        replica: &Replica,
        is_dry: bool,
    ) -> Result<DynamicObject, ReconcileError> {
        let reference = &replica.machine.spec.infrastructure_ref;
        let Some(live) = &replica.infrastructure else {
            let message = format!("{} {} does not exist", reference.kind, reference.name);
            return Err(ReconcileError::waiting("ObjectDoesNotExist", message));
        };
        let (cluster, namespace) =
            (observed.cluster.name_any(), control_plane.namespace().unwrap_or_default());
        let wish = templates::Clone {
            template: &control_plane.spec.machine_template.spec.infrastructure_ref,
            namespace: &namespace,
            name: &reference.name,
            cluster: &cluster,
            labels: &desired::fixed_labels(control_plane, &cluster),
            annotations: &Default::default(),
            owner: ownership::reference(control_plane, false),
            earlier: None,
        };
        templates::apply_update(self.context, &wish, live.uid(), sync::MANAGER, is_dry).await
    }

    /// Brings the KubeadmConfig of a Machine to the settings of a Machine that joins.
    async fn update_config(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        replica: &Replica,
        params: &PatchParams,
    ) -> Result<(), ReconcileError> {
        let Some(live) = &replica.config else {
            let message = format!("the KubeadmConfig of Machine {} does not exist", replica.name());
            return Err(ReconcileError::waiting("ObjectDoesNotExist", message));
        };
        let (name, namespace) = (live.name_any(), control_plane.namespace().unwrap_or_default());
        let configs: Api<KubeadmConfig> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut config = desired::config(control_plane, &observed.cluster.name_any(), &name, Start::Join);
        // Labels and owners stay as they are.
        (config.metadata.labels, config.metadata.owner_references) = (None, None);
        config.metadata.uid = live.uid();
        config.annotations_mut().insert(UPDATING.to_owned(), String::new());
        let applied = configs.patch(&name, params, &Patch::Apply(&config)).await?;
        // The first Machine may have settings of `kubeadm init` that another field manager owns.
        if applied.spec.init_configuration.is_some() {
            let change = json!({"metadata": {"uid": applied.uid()}, "spec": {"initConfiguration": null}});
            configs.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        }
        Ok(())
    }
}

/// Returns the words of the API if it refuses an object for what it is, or if the template does not exist.
///
/// # Errors
/// Any other failure.
fn refusal(error: ReconcileError) -> Result<String, ReconcileError> {
    match error {
        ReconcileError::Waiting { message, .. } => Ok(message),
        ReconcileError::Api(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
            Ok(status.message.clone())
        }
        other => Err(other),
    }
}

/// Returns the question about a Machine. Both infrastructure objects have the same metadata: labels and annotations change
/// without an update.
fn request(
    control_plane: &KubeadmControlPlane,
    replica: &Replica,
    config: &KubeadmConfig,
    (current, mut updated): (&DynamicObject, DynamicObject),
) -> CanUpdateMachineRequest {
    updated.annotations_mut().remove(UPDATING);
    let updated = desired_part(&updated);
    let mut server = desired_part(current);
    server["metadata"] = updated["metadata"].clone();
    let mut machine = desired_part(&replica.machine);
    let current_machine = machine.clone();
    machine["spec"]["version"] = json!(control_plane.spec.version);
    let (before, after) = outdated::compared(control_plane, &config.spec);
    let with = |spec: Value| {
        let mut config = desired_part(config);
        config["spec"] = spec;
        Some(config)
    };
    let current = MachineObjects {
        machine: current_machine,
        infrastructure_machine: server,
        bootstrap_config: with(before),
    };
    let desired = MachineObjects { machine, infrastructure_machine: updated, bootstrap_config: with(after) };
    CanUpdateMachineRequest { current, desired }
}

/// Returns the differences that stay after the changes of an answer, one line each.
fn uncovered(
    request: &CanUpdateMachineRequest,
    answer: &CanUpdateMachineResponse,
) -> Result<Vec<String>, String> {
    let (before, after) = (&request.current, &request.desired);
    let config = |objects: &MachineObjects| objects.bootstrap_config.clone().unwrap_or_default();
    let (config_before, config_after) = (config(before), config(after));
    let server = (&before.infrastructure_machine, &after.infrastructure_machine);
    let parts = [
        ((&before.machine, &after.machine), &answer.machine_patch, MACHINE_FIELDS),
        (server, &answer.infrastructure_machine_patch, NOTHING),
        ((&config_before, &config_after), &answer.bootstrap_config_patch, NOTHING),
    ];
    let mut lines = Vec::new();
    for ((current, desired), patch, ignored) in parts {
        let title = desired.get("kind").and_then(Value::as_str).unwrap_or_default();
        lines.extend(Change { title, current, desired, patch }.uncovered("spec", ignored)?);
    }
    Ok(lines)
}
