//! Tests of infrastructure objects without an owning Machine or Cluster.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::{Controllers, CrashPoint, World};

const NAMESPACE: &str = "unowned";

const MANIFEST: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackCluster
metadata: {name: c, namespace: NAMESPACE}
spec:
  identityRef: {name: credentials, cloudName: openstack}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackMachine
metadata: {name: m, namespace: NAMESPACE, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  flavor: {filter: {name: m1.small}}
  image: {filter: {name: ubuntu-2204-kube-v1.29.0}}
";

/// Conditions were written to an OpenStackMachine that no Machine owns. A client that had just created
/// it, and changed it by the revision it had got, was refused with a conflict.
#[tokio::test]
async fn an_object_without_an_owner_is_not_changed() {
    let world = World::start().await.unwrap();
    world.create(&MANIFEST.replace("NAMESPACE", NAMESPACE)).await.unwrap();
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = (clusters.get("c").await.unwrap(), machines.get("m").await.unwrap());
    let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
    for _ in 0..3 {
        controllers.round().await.unwrap();
    }
    assert_eq!((clusters.get("c").await.unwrap(), machines.get("m").await.unwrap()), before);
    assert!(before.1.status.is_none() && before.1.finalizers().is_empty(), "{:?}", before.1);
}

/// The owner is what the object refers to by uid, and not what has the same name.
#[tokio::test]
async fn an_object_with_a_missing_owner_is_not_changed() {
    let world = World::start().await.unwrap();
    let manifest = MANIFEST.replace("NAMESPACE", NAMESPACE);
    let owner = |kind: &str| json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "gone", "uid": "gone"}]);
    let manifest = manifest.replace("name: c,", &format!("name: c, ownerReferences: {},", owner("Cluster")));
    let manifest = manifest.replace("name: m,", &format!("name: m, ownerReferences: {},", owner("Machine")));
    world.create(&manifest).await.unwrap();
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = (clusters.get("c").await.unwrap(), machines.get("m").await.unwrap());
    assert_eq!((before.0.owner_references().len(), before.1.owner_references().len()), (1, 1));
    let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
    for _ in 0..3 {
        controllers.round().await.unwrap();
    }
    assert_eq!((clusters.get("c").await.unwrap(), machines.get("m").await.unwrap()), before);
}
