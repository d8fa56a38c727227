//! Target of an operation: the Machine, its server's object, and the cloud that they are in.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{
    Cluster, Machine, MachineOperation, OpenStackCluster, OpenStackIdentityReference, OpenStackMachine,
    OperationStep,
};
use controllers_bootstrap::cloud_config::user_data_of;
use controllers_bootstrap::delivery::{self, Data, Source};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Server};
use controllers_runtime::{ReconcileError, Recorder, UserDataSource, read_credentials};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};

use crate::core::context::OperationContext;
use crate::core::volatile_state::Memory;

/// Annotation that pauses an object.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Operation that has begun, with everything that it works on.
#[derive(Debug)]
pub(crate) struct Target {
    /// Context of the controller.
    pub context: OperationContext,
    /// Memory of this process.
    pub memory: Arc<Memory>,
    /// Recorder of Events.
    pub events: Recorder,
    /// The operation, as stored.
    pub operation: MachineOperation,
    /// The Machine.
    pub machine: Machine,
    /// OpenStackMachine of the server.
    pub infrastructure: OpenStackMachine,
    /// Cloud of the server.
    pub cloud: Arc<dyn Cloud>,
    /// The cluster's control plane servers are created without an availability zone.
    pub omits_zone: bool,
    /// Reason why nothing may be changed now, if there is one.
    pub paused: Option<String>,
    /// The operation is older than the last restore of the store.
    pub is_restored: bool,
    /// Time of this pass.
    pub now: Timestamp,
    /// Running time of this process, by a clock that never jumps.
    pub elapsed: Duration,
}

impl Target {
    /// Returns the operation's uid.
    pub(crate) fn uid(&self) -> &str {
        self.operation.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the operation's name.
    pub(crate) fn name(&self) -> &str {
        self.operation.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.operation.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns all steps.
    pub(crate) fn steps(&self) -> &[OperationStep] {
        self.operation.status.as_ref().and_then(|status| status.steps.as_deref()).unwrap_or_default()
    }

    /// Returns one step.
    pub(crate) fn step(&self, name: &str) -> Option<&OperationStep> {
        find(self.steps(), name)
    }

    /// Returns true if a call without a trace in the cloud was certainly never made.
    pub(crate) fn is_settled(&self, step: &str, item: &str) -> bool {
        self.memory.is_settled(self.uid(), step, item, self.elapsed)
    }

    /// Returns true if this process made a call so recently that it is too soon for another.
    pub(crate) fn tried_lately(&self, step: &str, item: &str) -> bool {
        self.memory.tried_lately(self.uid(), step, item, self.elapsed)
    }

    /// Returns the reason to stop at the next safe point, if there is one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        let name = &self.operation.spec.machine_name;
        if self.machine.metadata.deletion_timestamp.is_some() {
            return Some(Stop {
                reason: "MachineDeleting",
                why: format!("Machine {name:?} is being deleted"),
            });
        }
        is_cancelled(&self.operation)
            .then(|| Stop { reason: "Requested", why: "a cancellation was requested".to_owned() })
    }

    /// Returns the server's id, as last recorded.
    pub(crate) fn server_id(&self) -> Option<&str> {
        server_id(&self.infrastructure)
    }

    /// Reads a server; `None` if Nova does not have it (any more).
    pub(crate) async fn server(&self, id: &str) -> Result<Option<Server>, ReconcileError> {
        match self.cloud.server(id).await {
            Ok(server) if server.status == "DELETED" => Ok(None),
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the API of Machines.
    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.context.client.clone(), self.namespace())
    }

    /// Returns the API of OpenStackMachines.
    pub(crate) fn infrastructures(&self) -> Api<OpenStackMachine> {
        Api::namespaced(self.context.client.clone(), self.namespace())
    }

    /// Returns the address from which the machine fetches its bootstrap data, if its Cluster wants that.
    async fn user_data_source(&self) -> Result<Option<UserDataSource>, ReconcileError> {
        let client = &self.context.client;
        let clusters: Api<Cluster> = Api::namespaced(client.clone(), self.namespace());
        match clusters.get_opt(&self.machine.spec.cluster_name).await? {
            Some(cluster) => UserDataSource::of(client, &cluster).await,
            None => Ok(None),
        }
    }

    /// Reads the Machine's bootstrap data, for a server's user data.
    pub(crate) async fn user_data(&self) -> Result<Vec<u8>, ReconcileError> {
        let Some(name) = self.machine.spec.bootstrap.data_secret_name.as_deref() else {
            return Err(missing(format!(
                "Machine {:?} has no bootstrap data yet; waiting for it",
                self.machine.name_any()
            )));
        };
        let secret = secret(&self.context, self.namespace(), name).await?;
        let value = bytes(&secret, "value").filter(|value| !value.is_empty()).ok_or_else(|| {
            missing(format!("Secret {name:?} has no bootstrap data under the key \"value\"; waiting for it"))
        })?;
        let format = bytes(&secret, "format").and_then(|format| std::str::from_utf8(format).ok());
        let format = format.filter(|format| !format.is_empty()).unwrap_or("cloud-config");
        if let Some(UserDataSource { url, ca }) = self.user_data_source().await? {
            let data = Data { namespace: self.namespace(), name, document: value };
            let stub = delivery::stub(format, &Source { url, ca }, &data);
            let unknown =
                || missing(format!("bootstrap data in format {format:?} cannot be fetched by a URL"));
            return stub.map(String::into_bytes).ok_or_else(unknown);
        }
        user_data_of(format, value.to_vec()).map_err(|error| {
            let attempt = format!("prepare the user data of Machine {:?}", self.machine.name_any());
            CloudError::new(ErrorClass::InvalidSpec, attempt, error.to_string()).into()
        })
    }
}

/// Error of a pass that needs something which does not exist yet. The message says what.
pub(crate) fn missing(message: impl Into<String>) -> ReconcileError {
    ReconcileError::waiting("NotReady", message)
}

/// Request to stop an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// Message for people.
    pub why: String,
}

/// Returns the id of an object's server. The spec has precedence over the status: a replacement writes
/// it first.
pub(crate) fn server_id(infrastructure: &OpenStackMachine) -> Option<&str> {
    let provider = infrastructure.spec.provider_id.as_deref();
    let desired = provider.and_then(|id| id.rsplit_once('/')).map(|(_, id)| id).filter(|id| !id.is_empty());
    desired.or_else(|| infrastructure.status.as_ref()?.instance_id.as_deref())
}

/// Finds a step by name.
pub(crate) fn find<'a>(steps: &'a [OperationStep], name: &str) -> Option<&'a OperationStep> {
    steps.iter().find(|step| step.name == name)
}

/// Returns true if a cancellation is requested.
pub(crate) fn is_cancelled(operation: &MachineOperation) -> bool {
    operation.spec.cancel_requested.unwrap_or_default() || operation.metadata.deletion_timestamp.is_some()
}

/// Objects behind a Machine.
#[derive(Debug)]
pub(crate) struct Behind {
    /// OpenStackMachine of the server.
    pub infrastructure: OpenStackMachine,
    /// Credentials of the cluster, for a server's object that names none.
    identity: Option<OpenStackIdentityReference>,
    /// The cluster's control plane servers are created without an availability zone.
    pub omits_zone: bool,
    /// Reason why nothing may be changed now, if there is one.
    pub paused: Option<String>,
}

/// Reads the objects behind a Machine.
pub(crate) async fn behind(context: &OperationContext, machine: &Machine) -> Result<Behind, ReconcileError> {
    let namespace = machine.namespace().unwrap_or_default();
    let reference = &machine.spec.infrastructure_ref;
    if reference.kind != "OpenStackMachine" {
        return Err(missing(format!(
            "Machine {:?} is not on OpenStack: its infrastructure is a {}",
            machine.name_any(),
            reference.kind
        )));
    }
    let client = || context.client.clone();
    let infrastructure: OpenStackMachine =
        Api::namespaced(client(), &namespace).get_opt(&reference.name).await?.ok_or_else(|| {
            missing(format!("OpenStackMachine {:?} does not exist; waiting for it", reference.name))
        })?;
    let cluster: Option<Cluster> =
        Api::namespaced(client(), &namespace).get_opt(&machine.spec.cluster_name).await?;
    let spec = cluster.as_ref().and_then(|cluster| cluster.spec.infrastructure_ref.as_ref());
    let infrastructure_cluster: Option<OpenStackCluster> = match spec {
        Some(reference) => Api::namespaced(client(), &namespace).get_opt(&reference.name).await?,
        None => None,
    };
    let paused = paused(machine, &infrastructure, cluster.as_ref());
    let spec = infrastructure_cluster.map(|cluster| cluster.spec);
    let omits_zone =
        spec.as_ref().is_some_and(|spec| spec.control_plane_omit_availability_zone == Some(true));
    let identity = spec.map(|spec| spec.identity_ref);
    Ok(Behind { infrastructure, identity, omits_zone, paused })
}

fn paused(machine: &Machine, infrastructure: &OpenStackMachine, cluster: Option<&Cluster>) -> Option<String> {
    let annotated = |metadata: &ObjectMeta| {
        metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(PAUSED))
    };
    let says = |kind: &str, name: String| Some(format!("{kind} {name:?} is paused; waiting"));
    if annotated(&machine.metadata) {
        return says("Machine", machine.name_any());
    }
    if annotated(&infrastructure.metadata) {
        return says("OpenStackMachine", infrastructure.name_any());
    }
    let cluster =
        cluster.filter(|cluster| cluster.spec.paused.unwrap_or_default() || annotated(&cluster.metadata))?;
    says("Cluster", cluster.name_any())
}

/// Connects to the cloud that a Machine is in.
pub(crate) async fn connect(
    context: &OperationContext,
    machine: &Machine,
    behind: &Behind,
) -> Result<Arc<dyn Cloud>, ReconcileError> {
    let namespace = machine.namespace().unwrap_or_default();
    let own = behind.infrastructure.spec.identity_ref.as_ref();
    let Some(identity) = own.or(behind.identity.as_ref()) else {
        return Err(missing(format!(
            "neither OpenStackMachine {:?} nor the OpenStackCluster of Cluster {:?} names credentials",
            behind.infrastructure.name_any(),
            machine.spec.cluster_name
        )));
    };
    let secrets = context.secrets.as_ref();
    let credentials = read_credentials(&context.client, secrets, &namespace, identity).await;
    let credentials = credentials.map_err(|error| match error {
        ReconcileError::Cloud(error) => missing(error.words()),
        other => other,
    })?;
    Ok(context.connector.connect(&credentials).await?)
}

async fn secret(context: &OperationContext, namespace: &str, name: &str) -> Result<Secret, ReconcileError> {
    let found = context.secrets.secret(namespace, name).await?;
    found.ok_or_else(|| missing(format!("Secret {name:?} does not exist; waiting for it")))
}

fn bytes<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice()).filter(|bytes| !bytes.is_empty())
}
