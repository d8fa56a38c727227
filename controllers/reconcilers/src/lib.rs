//! The controllers. They are clients of the API like any other, over a transport inside the
//! process, each with an identity of its own.
//!
//! Each has four parts. *Observe* reads. *Decide* is a pure, total function that returns one step.
//! *Act* makes that step's effect. *Report* computes the whole status, which is written once.

mod change_predicate;
pub mod cluster;
mod event_expiry;
mod finalizers;
mod garbage_collector;
pub mod machine;
mod names;
mod namespace;
pub mod openstack_cluster;
pub mod openstack_machine;
mod ownership;
mod paused;
mod queries;
mod summary;

use controllers_runtime::ControllerSpec;

/// Every controller of this crate. To add one, write its module and add its line.
pub const ALL: &[ControllerSpec] = &[
    cluster::CONTROLLER,
    machine::CONTROLLER,
    openstack_cluster::CONTROLLER,
    openstack_machine::CONTROLLER,
    garbage_collector::CONTROLLER,
    event_expiry::CONTROLLER,
    namespace::CONTROLLER,
];

/// Whether an object is deleted because it was moved to another server: then the cloud stays as it is.
pub(crate) fn moved<K: kube::Resource>(object: &K) -> bool {
    let annotations = object.meta().annotations.as_ref();
    annotations
        .is_some_and(|annotations| annotations.contains_key("clusterctl.cluster.x-k8s.io/delete-for-move"))
}

/// A pass did more than any object needs, so two of its steps undo each other.
pub(crate) fn endless() -> controllers_runtime::ReconcileError {
    let class = controllers_infrastructure::ErrorClass::Broken;
    let message =
        "what was written to the cloud reads otherwise each time; see the Events for what is repeated";
    controllers_infrastructure::CloudError::new(class, "bring the object to the cloud", message).into()
}

/// Label that everything of a cluster bears.
pub(crate) const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
