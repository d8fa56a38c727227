//! Objects of one cluster, read from the API.

use std::fmt::Debug;

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, KubeadmConfig, KubeadmControlPlane, Machine,
    MachineDeployment, MachineOperation, MachineSet, OpenStackCluster, OpenStackMachine,
};
use futures::{FutureExt, TryFutureExt};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::error::Failure;

/// Label with the name of the Cluster that an object belongs to.
const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// A Cluster and the objects that belong to it.
#[derive(Debug, Clone, Default)]
pub struct ClusterObjects {
    /// The Cluster.
    pub cluster: Cluster,
    /// Infrastructure of the Cluster.
    pub infrastructure: Option<OpenStackCluster>,
    /// Control plane of the Cluster.
    pub control_plane: Option<KubeadmControlPlane>,
    /// MachineDeployments of the Cluster.
    pub deployments: Vec<MachineDeployment>,
    /// MachineSets of the Cluster.
    pub sets: Vec<MachineSet>,
    /// Machines of the Cluster.
    pub machines: Vec<Machine>,
    /// OpenStackMachines of the Cluster's Machines.
    pub servers: Vec<OpenStackMachine>,
    /// KubeadmConfigs of the Cluster's Machines.
    pub configs: Vec<KubeadmConfig>,
    /// MachineOperations in the namespace.
    pub operations: Vec<MachineOperation>,
}

impl ClusterObjects {
    /// Reads the objects of a cluster, with at most 12 requests.
    ///
    /// Kinds that the server does not serve count as empty, so that other servers of Cluster API work, too.
    ///
    /// # Errors
    /// The Cluster does not exist, the user may not read a kind, or the server cannot be reached.
    pub async fn read(client: &Client, namespace: &str, name: &str) -> Result<Self, Failure> {
        let reader = Reader { client, namespace, cluster: name };
        let api: Api<Cluster> = Api::namespaced(client.clone(), namespace);
        let cluster =
            api.get(name).await.map_err(|error| Failure::api("read", "Cluster", namespace, name, &error))?;
        let (infrastructure, control_plane, deployments, sets, machines, servers, configs, operations) = futures::try_join!(
            reader.referenced(cluster.spec.infrastructure_ref.as_ref()).boxed(),
            reader.referenced(cluster.spec.control_plane_ref.as_ref()).boxed(),
            reader.labelled().boxed(),
            reader.labelled().boxed(),
            reader.labelled().boxed(),
            reader.labelled().boxed(),
            reader.labelled().boxed(),
            reader.list(ListParams::default()).boxed(),
        )?;
        let mut objects = Self {
            cluster,
            infrastructure,
            control_plane,
            deployments,
            sets,
            machines,
            servers,
            configs,
            operations,
        };
        objects.complete(&reader).await?;
        Ok(objects)
    }

    /// Lists the whole namespace for kinds of which a referenced object was not found by its label.
    async fn complete(&mut self, reader: &Reader<'_>) -> Result<(), Failure> {
        let servers = self.machines.iter().map(|it| it.spec.infrastructure_ref.name.as_str());
        if let Some(all) = reader.unlabelled(&self.servers, servers.collect()).await? {
            self.servers = all;
        }
        let configs = self.machines.iter().filter_map(|it| it.spec.bootstrap.config_ref.as_ref());
        if let Some(all) =
            reader.unlabelled(&self.configs, configs.map(|it| it.name.as_str()).collect()).await?
        {
            self.configs = all;
        }
        Ok(())
    }
}

/// Client with the cluster whose objects it reads.
struct Reader<'a> {
    client: &'a Client,
    namespace: &'a str,
    cluster: &'a str,
}

impl Reader<'_> {
    /// Reads a referenced object. An object of another kind, or one that does not exist, is none.
    async fn referenced<K>(
        &self,
        reference: Option<&ContractVersionedObjectReference>,
    ) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let Some(reference) = reference.filter(|it| it.kind == K::kind(&())) else { return Ok(None) };
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        let failure = |error| Failure::api("read", &reference.kind, self.namespace, &reference.name, &error);
        api.get_opt(&reference.name).map_err(failure).await
    }

    /// Lists the objects with the label of the cluster.
    async fn labelled<K>(&self) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        self.list(ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={}", self.cluster))).await
    }

    async fn list<K>(&self, parameters: ListParams) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        match api.list(&parameters).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(Failure::api("list", &K::plural(&()), self.namespace, "", &error)),
        }
    }

    /// Lists the namespace if one of `names` is not in `found`.
    async fn unlabelled<K>(&self, found: &[K], names: Vec<&str>) -> Result<Option<Vec<K>>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let is_found = |name: &&str| found.iter().any(|object| object.name_any() == **name);
        if names.iter().all(is_found) {
            return Ok(None);
        }
        self.list(ListParams::default()).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api::{FakeApi, block_on};

    const LABEL: &str = "labelSelector=cluster.x-k8s.io/cluster-name=prod";

    fn cluster() -> Value {
        json!({"metadata": {"name": "prod", "namespace": "team"},
            "spec": {"infrastructureRef": {"apiGroup": "a", "kind": "OpenStackCluster", "name": "net"}}})
    }

    fn machine(name: &str, server: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"clusterName": "prod", "bootstrap": {},
            "infrastructureRef": {"apiGroup": "a", "kind": "OpenStackMachine", "name": server}}})
    }

    fn server(name: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"flavor": {}, "image": {}}})
    }

    fn api() -> FakeApi {
        let network =
            json!({"metadata": {"name": "net"}, "spec": {"identityRef": {"name": "c", "cloudName": "o"}}});
        FakeApi::default()
            .answer("clusters/prod", 200, cluster())
            .answer("openstackclusters/net", 200, network)
            .list(&format!("machines?{LABEL}"), &json!([machine("m", "s")]))
    }

    #[test]
    fn each_kind_is_requested_once_and_an_unserved_kind_is_empty() {
        let api = api().list(&format!("openstackmachines?{LABEL}"), &json!([server("s")]));
        let objects = block_on(async { ClusterObjects::read(&api.client(), "team", "prod").await }).unwrap();
        assert_eq!(objects.infrastructure.map(|it| it.name_any()).as_deref(), Some("net"));
        assert_eq!((objects.machines.len(), objects.servers.len(), objects.sets.len()), (1, 1, 0));
        let received = api.received();
        assert_eq!(received.len(), 8, "{received:?}");
    }

    #[test]
    fn a_referenced_object_without_the_label_is_found() {
        let api = api().list("openstackmachines", &json!([server("other"), server("s")]));
        let objects = block_on(async { ClusterObjects::read(&api.client(), "team", "prod").await }).unwrap();
        assert_eq!(objects.servers.len(), 2);
        assert!(api.received().len() <= 12);
    }

    #[test]
    fn a_kind_that_the_user_may_not_list_is_named() {
        let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"});
        let api = api().answer("machineoperations", 403, denied);
        let failure =
            block_on(async { ClusterObjects::read(&api.client(), "team", "prod").await }).unwrap_err();
        assert!(
            failure
                .to_string()
                .starts_with("error: cannot list machineoperations in namespace team: no permission"),
            "{failure}"
        );
    }
}
