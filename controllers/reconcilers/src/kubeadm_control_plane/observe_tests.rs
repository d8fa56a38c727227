//! Tests of the observation, over an API server in memory.

use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::FakeApi;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const POOLS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinepools";

fn machine(name: &str, labels: &Value, controller: Option<&str>) -> Value {
    let owner =
        |kind| json!({"apiVersion": "g/v1", "kind": kind, "name": "o", "uid": kind, "controller": true});
    let reference = json!({"apiGroup": "g", "kind": "K", "name": name});
    json!({
        "metadata": {"name": name, "namespace": "ns", "labels": labels,
            "ownerReferences": controller.into_iter().map(owner).collect::<Vec<_>>()},
        "spec": {"clusterName": "blue", "bootstrap": {}, "infrastructureRef": reference},
    })
}

/// Stores Machines of all kinds of owners, and a MachinePool.
fn stored() -> FakeApi {
    let api = FakeApi::default();
    let ours = json!({CLUSTER_NAME_LABEL: "blue", CONTROL_PLANE_LABEL: ""});
    let worker = json!({CLUSTER_NAME_LABEL: "blue"});
    let machines = [
        machine("ours", &ours, Some("uid")),
        machine("standalone", &ours, None),
        machine("worker", &worker, Some("MachineSet")),
    ];
    api.put(MACHINES, json!({"items": machines}));
    let template = json!({"spec": {"clusterName": "blue", "bootstrap": {},
        "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "p"}}});
    let pool = json!({"metadata": {"name": "pool", "namespace": "ns"},
        "spec": {"clusterName": "blue", "template": template}});
    api.put(POOLS, json!({"items": [pool]}));
    api
}

fn control_plane(is_deleting: bool) -> KubeadmControlPlane {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.name = Some("blue".to_owned());
    control_plane.metadata.namespace = Some("ns".to_owned());
    control_plane.metadata.uid = Some("uid".to_owned());
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
    control_plane.metadata.deletion_timestamp = is_deleting.then_some(time);
    control_plane
}

#[tokio::test]
async fn d13_all_machines_that_are_not_of_the_control_plane_are_others() {
    let api = stored();
    let context = api.context("test");
    for (is_deleting, expected) in
        [(false, vec![]), (true, vec!["Machine worker", "Machine standalone", "MachinePool pool"])]
    {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("blue".to_owned());
        let observed = observe(&context, &control_plane(is_deleting), cluster).await.unwrap();
        assert_eq!(observed.others, expected);
        let names: Vec<String> = observed.replicas.iter().map(Replica::name).collect();
        assert_eq!(names, ["ours"]);
    }
}
