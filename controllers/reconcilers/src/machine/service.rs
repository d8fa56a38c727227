//! Effects on a silent Node whose server may be off: the look at the server, the taint, the detachment of its volumes.

use std::sync::Arc;

use apiserver_types::{Machine, OpenStackCluster};
use controllers_infrastructure::{ActionRecord, Cloud, CloudResult};
use controllers_runtime::{ReconcileError, Severity};
use controllers_workload::drain::{self, ServiceChange};
use kube::{Api, ResourceExt};

use super::act::Actor;
use super::decide::Stage;
use super::deletion::{self, node_name};
use super::detachment::{self, Answers, Next};
use super::fence::{self, Verdict};
use super::node::{self, NodeObservation};
use super::observe::{Observed, Outcome};

/// Status of a volume that Nova is detaching.
const DETACHING: &str = "detaching";

impl Actor<'_> {
    /// Reads from Nova whether the server of the Node is off.
    pub(super) async fn read_server(&self, machine: &Machine, observed: &mut Observed) {
        let verdict = match self.judge(machine, observed).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Unknown(error.to_string()),
        };
        observed.deletion.server = Some(verdict);
    }

    async fn judge(&self, machine: &Machine, observed: &Observed) -> Result<Verdict, ReconcileError> {
        let Some((cloud, id)) = self.server(machine, observed).await? else {
            return Ok(Verdict::Unproved("nothing names the server and its credentials".to_owned()));
        };
        let server = unless_absent(cloud.server(&id).await)?;
        let actions = log(cloud.as_ref(), &id).await?;
        Ok(fence::judge(server.as_ref(), &actions, observed.settings.server_off_time, observed.now))
    }

    /// Returns the id of a Machine's server, and its cloud; `None` if nothing names them.
    async fn server(
        &self,
        machine: &Machine,
        observed: &Observed,
    ) -> Result<Option<(Arc<dyn Cloud>, String)>, ReconcileError> {
        let id = node::provider_id(machine, observed).and_then(|id| id.rsplit('/').next());
        let object = observed.infrastructure.as_ref();
        let Some((id, object)) = id.filter(|id| !id.is_empty()).zip(object) else { return Ok(None) };
        let namespace = machine.namespace().unwrap_or_default();
        let reference = observed.cluster.as_ref().and_then(|it| it.spec.infrastructure_ref.as_ref());
        let of_cluster = match reference.filter(|it| it.kind == "OpenStackCluster") {
            Some(reference) if object.spec.identity_ref.is_none() => {
                let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
                api.get_opt(&reference.name).await?.map(|it| it.spec.identity_ref)
            }
            _ => None,
        };
        let Some(identity) = object.spec.identity_ref.clone().or(of_cluster) else { return Ok(None) };
        let cloud = self.context.cloud(&namespace, &identity).await?;
        Ok(Some((cloud, id.to_owned())))
    }

    /// Taints the Node of a server that is off.
    pub(super) async fn take_out_of_service(
        &self,
        machine: &Machine,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let name = node_name(machine, observed).unwrap_or_default();
        let client = self.workload(machine).map_err(tainted)?;
        let change = drain::take_out_of_service(&client, &name).await;
        let change = change.map_err(|error| tainted(error.to_string()))?;
        if matches!(change, ServiceChange::Changed(_)) {
            let proof = deletion::off(observed).unwrap_or_default();
            let message = format!(
                "The server of Node {name:?} is off: {proof}. The Node was taken out of service: its Pods are not \
                 waited for, and Nova detaches the volumes of their claims"
            );
            self.context.events.record(machine, Severity::Warning, "ServerIsOff", &message).await;
        }
        observed.node = node_after(change);
        Ok(())
    }

    /// Removes the taint from a Node whose server may run, for a reason.
    pub(super) async fn return_to_service(
        &self,
        machine: &Machine,
        observed: &mut Observed,
        reason: &str,
    ) -> Result<(), ReconcileError> {
        let name = node_name(machine, observed).unwrap_or_default();
        let client = self.workload(machine).map_err(tainted)?;
        let change = drain::return_to_service(&client, &name).await;
        let change = change.map_err(|error| tainted(error.to_string()))?;
        if matches!(change, ServiceChange::Changed(_)) {
            let message = format!(
                "The taint node.kubernetes.io/out-of-service was removed from Node {name:?}, because its server may \
                 run: {reason}"
            );
            self.context.events.record(machine, Severity::Warning, "ServerMayRun", &message).await;
        }
        observed.node = node_after(change);
        Ok(())
    }

    /// Has Nova detach the volumes of claims from a server that is off, as long as it is.
    pub(super) async fn detach_volumes(&self, machine: &Machine, observed: &mut Observed) {
        let next = match self.server(machine, observed).await {
            Ok(Some((cloud, id))) => detach_all(cloud.as_ref(), &id).await.map_err(ReconcileError::from),
            Ok(None) => Ok(Next::Done),
            Err(error) => Err(error),
        };
        let outcome = match next {
            Ok(Next::Stop | Next::Detach(_)) => {
                // What follows needs another look at the server.
                observed.deletion.server = None;
                return;
            }
            Ok(Next::Wait(volumes)) => Outcome::Waiting(waiting(machine, observed, &volumes)),
            Ok(Next::Refused(errors)) => {
                let proof = deletion::off(observed).unwrap_or_default();
                Outcome::Failed(format!("{errors}. The server is off: {proof}"))
            }
            Ok(Next::Done) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        self.record_volumes(machine, observed, &outcome).await;
        observed.deletion.volumes = Some(outcome);
    }
}

/// Returns the text about volumes that Nova is detaching.
fn waiting(machine: &Machine, observed: &Observed, volumes: &[String]) -> String {
    let name = node_name(machine, observed).unwrap_or_default();
    let proof = deletion::off(observed).unwrap_or_default();
    let started = deletion::started(machine, Stage::Volumes).unwrap_or(observed.now);
    let started = started.strftime("%Y-%m-%dT%H:%M:%SZ");
    let volumes: Vec<String> = volumes.iter().map(|id| format!("* Volume {id}")).collect();
    format!(
        "The server of Node {name:?} is off: {proof}. Waiting for Nova to detach its volumes (started at \
         {started}):\n{}",
        volumes.join("\n")
    )
}

/// Detaches one volume after the other, and looks at the server before each call. Returns the step that ends the pass.
async fn detach_all(cloud: &dyn Cloud, id: &str) -> CloudResult<Next> {
    let mut answers = Answers::new();
    loop {
        let Some(server) = unless_absent(cloud.server(id).await)? else { return Ok(Next::Done) };
        match detachment::next(&server, &answers) {
            Next::Detach(volume) => {
                let answer = detach(cloud, id, &volume).await;
                answers.insert(volume, answer);
            }
            last => return Ok(last),
        }
    }
}

/// Requests that a volume is detached, unless it is being detached already.
async fn detach(cloud: &dyn Cloud, server: &str, volume: &str) -> CloudResult<()> {
    if cloud.volume(volume).await?.status == DETACHING {
        return Ok(());
    }
    cloud.detach_volume(server, volume).await
}

/// Returns the log of a server, in which the newest action that starts or stops the guest has its events.
async fn log(cloud: &dyn Cloud, id: &str) -> CloudResult<Vec<ActionRecord>> {
    let mut actions = unless_absent(cloud.actions(id).await)?.unwrap_or_default();
    let decisive = actions.iter_mut().find(|action| fence::is_decisive(action));
    if let Some(action) = decisive.filter(|action| action.events.is_empty() && action.result.is_some()) {
        let request_id = action.request_id.clone();
        *action = cloud.action(id, &request_id).await?;
    }
    Ok(actions)
}

fn unless_absent<T>(found: CloudResult<T>) -> CloudResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn tainted(error: String) -> ReconcileError {
    ReconcileError::waiting("TaintFailed", error)
}

fn node_after(change: ServiceChange) -> NodeObservation {
    match change {
        ServiceChange::Gone => NodeObservation::NotFound,
        ServiceChange::Unchanged(node) | ServiceChange::Changed(node) => NodeObservation::Found(node),
    }
}
