//! Whole passes over a control plane, with an API server in memory.

use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::{Crash, FakeApi};

const KCP: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmcontrolplanes/blue";
const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/blue";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const POOLS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinepools";

/// Stores a control plane that is being deleted, and its Cluster, whose status was lost.
fn deleted() -> FakeApi {
    let api = FakeApi::default();
    api.put(CLUSTER, json!({"spec": {}}));
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blue", "uid": "uid-blue"});
    let metadata = json!({"finalizers": [FINALIZER], "deletionTimestamp": "2026-11-26T10:00:00Z",
        "ownerReferences": [owner]});
    let template = json!({"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "t"}}});
    let spec = json!({"replicas": 3, "version": "v1.33.0", "machineTemplate": template});
    api.put(KCP, json!({"metadata": metadata, "spec": spec}));
    api.put(POOLS, json!({"items": []}));
    list(&api, &[]);
    api
}

/// Stores Machines: each with whether the control plane controls it.
fn list(api: &FakeApi, machines: &[(&str, bool)]) {
    let machine = |(name, ours): &(&str, bool)| {
        let owner = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "name": "blue", "uid": "uid-blue", "controller": true});
        let owners = if *ours { json!([owner]) } else { json!([]) };
        let object = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "blue", "cluster.x-k8s.io/control-plane": ""},
                "annotations": {replica::HOOK: ""}, "ownerReferences": owners},
            "spec": {"clusterName": "blue", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": name}},
        });
        let path = format!("{MACHINES}/{name}");
        api.put(&path, object);
        api.get(&path).unwrap()
    };
    let items: Vec<Value> = machines.iter().map(machine).collect();
    api.put(MACHINES, json!({"items": items}));
}

async fn pass(api: &FakeApi) -> Result<Requeue, kube::Error> {
    let object: KubeadmControlPlane = serde_json::from_value(api.get(KCP).unwrap()).unwrap();
    KubeadmControlPlaneReconciler::new(api.context(CONTROLLER.identity)).reconcile(&object).await
}

fn deleting(api: &FakeApi) -> (String, String) {
    let object: KubeadmControlPlane = serde_json::from_value(api.get(KCP).unwrap()).unwrap();
    let condition = object.condition("Deleting").unwrap();
    (condition.reason.clone(), condition.message.clone())
}

#[tokio::test]
async fn d13_machines_without_a_controller_keep_those_of_the_control_plane() {
    let api = deleted();
    list(&api, &[("a", true), ("standalone", false)]);
    assert_eq!(pass(&api).await.unwrap(), Requeue::After(preflight::DELETING));
    let (reason, message) = deleting(&api);
    assert_eq!(reason, "WaitingForWorkersDeletion");
    assert!(message.starts_with("Waiting for the deletion of Machine standalone. "), "{message}");
    for name in ["a", "standalone"] {
        let machine = api.get(&format!("{MACHINES}/{name}")).unwrap();
        assert_eq!(machine["metadata"]["annotations"][replica::HOOK], "", "{name} is not touched");
    }
}

#[tokio::test]
async fn d13_the_hook_of_each_machine_goes_and_then_the_machine_and_the_finalizer_last() {
    let api = deleted();
    list(&api, &[("a", true), ("b", true)]);
    api.crash_at(Some((2, Crash::Before)));
    pass(&api).await.unwrap_err();
    let hook = |name: &str| {
        let machine = api.get(&format!("{MACHINES}/{name}"));
        machine.map(|machine| machine["metadata"]["annotations"][replica::HOOK].clone())
    };
    assert_eq!((hook("a"), hook("b")), (Some(Value::Null), Some("".into())), "the hook goes first");
    api.crash_at(None);
    assert_eq!(pass(&api).await.unwrap(), Requeue::After(preflight::DELETING));
    assert_eq!((hook("a"), hook("b")), (None, None), "both at once");
    let message = "Waiting for the deletion of Machines a, b".to_owned();
    assert_eq!(deleting(&api), ("WaitingForMachineDeletion".to_owned(), message));
    list(&api, &[]);
    pass(&api).await.unwrap();
    assert_eq!(api.get(KCP).unwrap()["metadata"]["finalizers"], json!([]));
    assert_eq!(deleting(&api).0, "DeletionCompleted");
}

#[tokio::test]
async fn d1_a_paused_control_plane_gets_its_condition_and_nothing_else() {
    let api = deleted();
    list(&api, &[("a", true)]);
    let mut paused = api.get(CLUSTER).unwrap();
    paused["spec"]["paused"] = true.into();
    api.put(CLUSTER, paused);
    assert_eq!(pass(&api).await.unwrap(), Requeue::OnChange);
    let conditions = api.get(KCP).unwrap()["status"]["conditions"].clone();
    let kinds: Vec<&str> =
        conditions.as_array().unwrap().iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds, ["Paused"]);
    assert!(api.get(&format!("{MACHINES}/a")).is_some());
}

#[tokio::test]
async fn d1_a_control_plane_without_a_cluster_waits_and_gets_its_finalizer_before_all_else() {
    let api = deleted();
    let mut new = api.get(KCP).unwrap();
    new["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| !matches!(key.as_str(), "deletionTimestamp" | "finalizers"));
    let mut alone = new.clone();
    alone["metadata"]["ownerReferences"] = json!([]);
    api.put(KCP, alone);
    assert_eq!(pass(&api).await.unwrap(), Requeue::OnChange, "the Cluster's controller sets the reference");
    assert!(api.get(KCP).unwrap()["metadata"]["finalizers"].is_null());
    api.put(KCP, new);
    pass(&api).await.unwrap();
    let stored = api.get(KCP).unwrap();
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(stored["status"].is_null(), "the pass ends there");
}

#[tokio::test]
async fn d12_an_adopted_machine_gets_the_control_plane_as_controller_after_its_authorities() {
    let api = deleted();
    let mut kept = api.get(KCP).unwrap();
    kept["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    api.put(KCP, kept);
    let config = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/a";
    api.put(config, json!({"spec": {}}));
    list(&api, &[("a", false)]);
    let path = format!("{MACHINES}/a");
    let mut machine = api.get(&path).unwrap();
    machine["spec"]["version"] = "v1.32.0".into();
    let reference = json!({"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "a"});
    machine["spec"]["bootstrap"] = json!({"configRef": reference});
    api.put(&path, machine);
    api.put(MACHINES, json!({"items": [api.get(&path).unwrap()]}));
    let secrets = "/api/v1/namespaces/ns/secrets";
    let owner = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "name": "a", "uid": "uid-a",
        "controller": true});
    for (name, kind) in [("blue-ca", "cluster.x-k8s.io/secret"), ("blue-etcd", "kubernetes.io/tls")] {
        let metadata = json!({"ownerReferences": [owner]});
        api.put(
            &format!("{secrets}/{name}"),
            json!({"metadata": metadata, "type": kind, "data": {"tls.crt": "eA=="}}),
        );
    }
    let controller = |path: &str| {
        let object = api.get(path).unwrap();
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let controller = owners.iter().find(|it| it["controller"] == true).map(|it| it["kind"].clone());
        controller.unwrap_or_default()
    };
    api.crash_at(Some((2, Crash::Before)));
    pass(&api).await.unwrap_err();
    assert_eq!(controller(&format!("{secrets}/blue-ca")), "KubeadmControlPlane", "the authorities go first");
    assert_eq!(controller(&format!("{secrets}/blue-etcd")), "KubeadmConfig", "it is the user's");
    assert_eq!(controller(&path), Value::Null);
    api.crash_at(None);
    pass(&api).await.unwrap();
    assert_eq!(controller(&path), "KubeadmControlPlane");
}
