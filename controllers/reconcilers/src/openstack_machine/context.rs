//! Context of an OpenStackMachine: its owner, cluster, cloud and operation.

use std::sync::Arc;

use apiserver_types::{
    Cluster, Machine, MachineOperation, OpenStackCluster, OpenStackIdentityReference, OpenStackMachine,
    OperationPhase,
};
use controllers_bootstrap::cloud_config::user_data_of;
use controllers_infrastructure::{Cloud, CloudError, Connection, ErrorClass};
use controllers_runtime::ReconcileError;
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
        let Some(value) = data.remove("value") else {
            return Err(waiting(format!("Secret {namespace}/{name} has no key \"value\"")));
        };
        // Bootstrap providers older than the key write cloud-config only.
        let format = data.remove("format").and_then(|format| String::from_utf8(format.0).ok());
        let format = format.filter(|format| !format.is_empty()).unwrap_or_else(|| "cloud-config".to_owned());
        user_data_of(&format, value.0).map_err(|error| {
            let attempt = format!(
                "prepare the user data of server {:?} from Secret {namespace}/{name}",
                object.name_any()
            );
            CloudError::new(ErrorClass::InvalidSpec, attempt, error.to_string()).into()
        })
    }
}
