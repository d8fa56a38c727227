//! Order of the deletion of a cluster, made visible by finalizers of the test that work as brakes.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;

use super::looks::Looks;
use super::objects::{Object, Objects};
use super::observer::Observer;

/// Finalizer that only the test removes.
const BRAKE: &str = "test.capstan.dev/brake";

/// Time for which a brake is held after the deletion has come to it. A deletion that ignored it would go on in less.
const HELD: Duration = Duration::from_millis(700);

/// Group of objects: the kind, and for Machines whether they are of the control plane.
type Group = (&'static str, Option<bool>);

/// Groups in the order in which they go. Each one has one object.
const ORDER: [Group; 5] = [
    ("Machine", Some(false)),
    ("Machine", Some(true)),
    ("KubeadmControlPlane", None),
    ("OpenStackCluster", None),
    ("Cluster", None),
];

/// Group whose deletion begins, but does not end, before that of another one: a control plane deletes its own Machines.
const BEGINS_EARLIER: [(Group, Group); 1] = [(ORDER[1], ORDER[2])];

/// Kinds of which no object is left once the brake of the first group is off and the second group goes.
const WORKERS: [&str; 2] = ["MachineDeployment", "MachineSet"];

fn is_of((kind, control_plane): Group, object: &Object) -> bool {
    let label = object.metadata["labels"].get("cluster.x-k8s.io/control-plane").is_some();
    object.kind == kind && control_plane.is_none_or(|control_plane| control_plane == label)
}

/// Returns the only object of a group.
async fn one(objects: &Objects, group: Group) -> Object {
    let mut found = objects.of(group.0).await;
    found.retain(|object| is_of(group, object));
    assert_eq!(found.len(), 1, "{group:?}: {found:?}");
    found.remove(0)
}

/// Deletes the Cluster, and checks that each group waits for the brakes of the groups before it.
pub(crate) async fn check(observer: &Observer, objects: &Objects) {
    for group in ORDER {
        let object = one(objects, group).await;
        let mut finalizers = object.list("finalizers");
        finalizers.push(BRAKE.into());
        objects.change(&object, &json!({ "finalizers": finalizers })).await;
    }
    observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    for (at, group) in ORDER.into_iter().enumerate() {
        let mut looks = Looks::begin();
        loop {
            let object = one(objects, group).await;
            if object.is_deleting() && object.list("finalizers") == [json!(BRAKE)] {
                break;
            }
            looks.again(&format!("{} with its brake alone: {}", object.title(), object.metadata)).await;
        }
        tokio::time::sleep(HELD).await;
        let all = objects.all().await;
        for later in ORDER.into_iter().skip(at + 1).filter(|later| !BEGINS_EARLIER.contains(&(group, *later)))
        {
            let early = all.iter().find(|it| is_of(later, it) && it.is_deleting() && it.kind != "Cluster");
            assert!(early.is_none(), "{group:?} is held: {early:?}");
        }
        let left: Vec<String> =
            all.iter().filter(|it| WORKERS.contains(&it.kind.as_str())).map(Object::title).collect();
        assert_eq!(left.is_empty(), at > 0, "{group:?} is held, of the workers are left: {left:?}");
        objects.change(&one(objects, group).await, &json!({"finalizers": null})).await;
    }
    observer.until_gone().await;
}
