//! Context of an OpenStackMachine: its owner, cluster, cloud and operation.

use std::sync::Arc;

use apiserver_types::{
    Cluster, Machine, MachineOperation, OpenStackCluster, OpenStackIdentityReference, OpenStackMachine,
    OperationPhase,
};
use controllers_bootstrap::cloud_config::user_data_of;
use controllers_bootstrap::delivery::{self, Data, Source};
use controllers_infrastructure::{Cloud, CloudError, Connection, ErrorClass};
use controllers_runtime::{ReconcileError, UserDataSource};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{OpenStackMachineReconciler, observe};

/// Owner and cluster of one OpenStackMachine.
pub(super) struct ReconcileContext {
    pub machine: Machine,
    pub cluster: OpenStackCluster,
    /// The object is an OpenStackServer, which has neither; both are made up of its spec.
    pub is_server: bool,
}

impl OpenStackMachineReconciler {
    /// Reads the Machine that owns the object.
    pub(super) async fn machine(&self, object: &OpenStackMachine) -> Result<Option<Machine>, ReconcileError> {
        let owner = object.owner_references().iter().find(|owner| owner.kind == "Machine");
        let Some(owner) = owner else { return Ok(None) };
        let api: Api<Machine> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        Ok(api.get_opt(&owner.name).await?.filter(|machine| machine.uid().as_ref() == Some(&owner.uid)))
    }

    /// Reads the cluster of the object, by its label.
    pub(super) async fn cluster(
        &self,
        object: &OpenStackMachine,
    ) -> Result<(Option<Cluster>, Option<OpenStackCluster>), ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let Some(name) = object.labels().get(crate::CLUSTER_NAME_LABEL) else { return Ok((None, None)) };
        let clusters: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(cluster) = clusters.get_opt(name).await? else { return Ok((None, None)) };
        let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "OpenStackCluster");
        let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let infrastructure = match reference {
            Some(reference) => api.get_opt(&reference.name).await?,
            None => None,
        };
        Ok((Some(cluster), infrastructure))
    }

    /// Returns the operation that has claimed the server. One that is over or absent has no claim.
    pub(super) async fn operation(
        &self,
        object: &OpenStackMachine,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(name) = object.annotations().get(observe::OPERATION).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineOperation> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(operation) = api.get_opt(name).await? else { return Ok(None) };
        let phase = operation.status.as_ref().and_then(|status| status.phase);
        let over = matches!(
            phase,
            Some(OperationPhase::Complete | OperationPhase::Failed | OperationPhase::Cancelled)
        );
        Ok((!over).then(|| name.clone()))
    }

    /// Returns the control plane Machines of the object's cluster that are being deleted.
    pub(super) async fn leaving_control_planes(
        &self,
        object: &OpenStackMachine,
    ) -> Result<Vec<Machine>, ReconcileError> {
        let Some(cluster) = object.labels().get(crate::CLUSTER_NAME_LABEL) else { return Ok(Vec::new()) };
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let selector = format!("{}={cluster},{}", crate::CLUSTER_NAME_LABEL, crate::CONTROL_PLANE_LABEL);
        let mut machines = api.list(&ListParams::default().labels(&selector)).await?.items;
        machines.retain(|machine| machine.metadata.deletion_timestamp.is_some());
        Ok(machines)
    }

    pub(super) async fn cloud(
        &self,
        object: &OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
    ) -> Result<Arc<dyn Cloud>, ReconcileError> {
        Ok(self.connect(object, cluster).await?.cloud)
    }

    /// Connects to the cloud of the object, with its own credentials or those of its cluster.
    pub(super) async fn connect(
        &self,
        object: &OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
    ) -> Result<Connection, ReconcileError> {
        let own = object.spec.identity_ref.as_ref();
        let identity: Option<&OpenStackIdentityReference> =
            own.or_else(|| cluster.map(|it| &it.spec.identity_ref));
        let Some(identity) = identity else {
            return Err(ReconcileError::waiting(
                "WaitingForClusterInfrastructure",
                "neither the OpenStackMachine nor its cluster names credentials",
            ));
        };
        self.context.connect(&object.namespace().unwrap_or_default(), identity).await
    }

    /// Returns the address from which the machine fetches its bootstrap data, if its Cluster wants that.
    async fn user_data_source(
        &self,
        machine: &Machine,
        namespace: &str,
    ) -> Result<Option<UserDataSource>, ReconcileError> {
        if machine.spec.cluster_name.is_empty() {
            return Ok(None);
        }
        let client = &self.context.client;
        let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
        match clusters.get_opt(&machine.spec.cluster_name).await? {
            Some(cluster) => UserDataSource::of(client, &cluster).await,
            None => Ok(None),
        }
    }

    pub(super) async fn bootstrap_data(
        &self,
        object: &OpenStackMachine,
        machine: &Machine,
    ) -> Result<Vec<u8>, ReconcileError> {
        let waiting = |message: String| ReconcileError::waiting("WaitingForBootstrapData", message);
        let namespace = object.namespace().unwrap_or_default();
        let Some(name) = machine.spec.bootstrap.data_secret_name.as_deref().filter(|name| !name.is_empty())
        else {
            return Err(waiting(format!("Machine {} has no bootstrap data yet", machine.name_any())));
        };
        let Some(secret) = self.context.secrets.secret(&namespace, name).await? else {
            return Err(waiting(format!("bootstrap Secret {namespace}/{name} does not exist yet")));
        };
        let mut data = secret.data.unwrap_or_default();
        let Some(value) = data.remove("value").filter(|value| !value.0.is_empty()) else {
            return Err(waiting(format!(
                "Secret {namespace}/{name} has no bootstrap data under the key \"value\""
            )));
        };
        // Bootstrap providers older than the key write cloud-config only.
        let format = data.remove("format").and_then(|format| String::from_utf8(format.0).ok());
        let format = format.filter(|format| !format.is_empty()).unwrap_or_else(|| "cloud-config".to_owned());
        if let Some(UserDataSource { url, ca }) = self.user_data_source(machine, &namespace).await? {
            let data = Data { namespace: &namespace, name, document: &value.0 };
            let stub = delivery::stub(&format, &Source { url, ca }, &data);
            let unknown =
                || waiting(format!("bootstrap data in format {format:?} cannot be fetched by a URL"));
            return stub.map(String::into_bytes).ok_or_else(unknown);
        }
        user_data_of(&format, value.0).map_err(|error| {
            let attempt = format!(
                "prepare the user data of server {:?} from Secret {namespace}/{name}",
                object.name_any()
            );
            CloudError::new(ErrorClass::InvalidSpec, attempt, error.to_string()).into()
        })
    }
}
