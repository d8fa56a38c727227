//! Checks of a life from outside: the resources of others, and the quorum of etcd.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use controllers_infrastructure::{NetworkQuery, NewFloatingIp, NewNetwork, NewPort, NewVolume};
use serde_json::Value;
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::World;

/// Resources of another user in the same project, with names like those of the cluster.
pub(super) struct Foreign {
    inventory: Value,
    ids: Vec<String>,
}

impl Foreign {
    /// Makes them.
    pub(super) async fn make(world: &World) -> Self {
        let cloud = world.project().await.unwrap();
        let group = "k8s-cluster-life-blue2-secgroup-worker";
        cloud.create_security_group(group, "of another user").await.unwrap();
        cloud.create_server_group("life-blue-blue-md-0-00000000", "anti-affinity").await.unwrap();
        let name = "k8s-clusterapi-cluster-life-blue2".to_owned();
        let network =
            cloud.create_network(&NewNetwork { name: name.clone(), ..NewNetwork::default() }).await.unwrap();
        let port = NewPort { name: "blue-md-0-x-0".to_owned(), network_id: network.id, ..NewPort::default() };
        cloud.create_port(&port).await.unwrap();
        let public = NetworkQuery { name: Some("public".to_owned()), ..NetworkQuery::default() };
        let public = cloud.networks(&public).await.unwrap().remove(0);
        let address = NewFloatingIp { network_id: public.id, description: name, ..NewFloatingIp::default() };
        cloud.create_floating_ip(&address).await.unwrap();
        let volume = NewVolume { name: "blue-md-0-x-root".to_owned(), size_gib: 1, ..NewVolume::default() };
        cloud.create_volume(&volume).await.unwrap();
        world.cloud.clear_log();
        let inventory = serde_json::to_value(world.cloud.inventory("demo")).unwrap();
        let kinds = inventory.as_object().unwrap().values();
        let items = kinds.filter_map(Value::as_array).flatten();
        let ids = items.map(|item| item["id"].as_str().unwrap().to_owned()).collect();
        Self { inventory, ids }
    }

    /// Checks that the project has these resources and no others, and that no call tried to change one of them.
    pub(super) fn check(&self, world: &World) {
        let after = serde_json::to_value(world.cloud.inventory("demo")).unwrap();
        assert_eq!(after, self.inventory, "the project is not as it was");
        let calls = world.cloud.log();
        let touched = calls
            .iter()
            .filter(|call| call.method != "GET" && self.ids.iter().any(|id| call.path.contains(id.as_str())));
        let touched: Vec<String> = touched.map(|call| format!("{} {}", call.method, call.path)).collect();
        assert!(touched.is_empty(), "resources of another user were changed: {touched:?}");
    }
}

/// Checks that no etcd cluster has lost its quorum so far. The plans take no server without which one has none.
pub(super) fn check_quorum(hollow: &HollowClusters) {
    let losses: BTreeMap<SocketAddr, u64> =
        hollow.endpoints().into_iter().map(|endpoint| (endpoint, hollow.quorum_losses(endpoint))).collect();
    assert!(losses.values().all(|losses| *losses == 0), "etcd has lost its quorum: {losses:?}");
}
