//! Reconcilers, and the controllers without a cloud: garbage collector, namespaces, event expiry. They are clients of
//! the API like any other, over a transport inside the process, each with an identity of its own.
//!
//! A reconciler has four parts. *Observe* reads. *Decide* is a pure, total function that returns one step.
//! *Act* makes that step's effect. *Report* computes the whole status, which is written once.

mod aggregate;
#[cfg(test)]
mod api_in_memory;
pub mod application_credential;
mod applied;
mod applied_tags;
mod blocked_drains;
pub mod bootstrap_data;
mod capstan_remediation;
mod change_predicate;
mod cidrs;
pub mod cluster;
mod cluster_certificates;
pub mod cluster_class;
pub mod cluster_resource_set;
pub mod cluster_resource_set_binding;
mod cluster_role_aggregation;
pub mod cluster_topology;
mod condition_order;
mod credential_watch;
mod deletion_timeouts;
mod deprecated_conditions;
mod duplicates;
mod endpoint_hosts;
mod event_expiry;
pub mod extension_config;
mod finalizers;
mod first_attempts;
mod garbage_collector;
mod generated_names;
mod image;
mod in_place;
mod kept_revisions;
mod kstatus;
pub mod kubeadm_config;
pub mod kubeadm_control_plane;
mod last_known;
mod login;
mod lost_calls;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
mod machine_labels;
mod machine_names;
pub mod machine_set;
mod machine_versions;
mod names;
mod namespace;
mod object_refs;
pub mod openstack_cluster;
pub mod openstack_floating_ip_pool;
pub mod openstack_machine;
pub mod openstack_machine_template;
pub mod openstack_server;
mod ownership;
mod paused;
mod plan;
pub mod planner;
mod pre_terminate;
mod preflight;
mod project;
mod protection;
mod queries;
mod quota_forecast;
mod remediation_urgency;
mod replica_counts;
mod replica_status;
mod resource_events;
mod retries;
mod rollout_gate;
mod selectors;
mod summary;
mod tag_conflict;
mod templates;
mod topology_templates;
mod workload_changes;

use controllers_runtime::ControllerSpec;

/// Every controller of this crate. To add one, write its module and add its line.
pub const ALL: &[ControllerSpec] = &[
    cluster::CONTROLLER,
    cluster_class::CONTROLLER,
    cluster_topology::CONTROLLER,
    extension_config::CONTROLLER,
    kubeadm_config::CONTROLLER,
    kubeadm_control_plane::CONTROLLER,
    machine::CONTROLLER,
    machine_set::CONTROLLER,
    machine_deployment::CONTROLLER,
    machine_health_check::CONTROLLER,
    capstan_remediation::CONTROLLER,
    openstack_cluster::CONTROLLER,
    application_credential::CONTROLLER,
    openstack_floating_ip_pool::CONTROLLER,
    openstack_machine::CONTROLLER,
    openstack_machine_template::CONTROLLER,
    openstack_server::CONTROLLER,
    image::CONTROLLER,
    cluster_resource_set::CONTROLLER,
    cluster_resource_set_binding::CONTROLLER,
    garbage_collector::CONTROLLER,
    event_expiry::CONTROLLER,
    cluster_role_aggregation::CONTROLLER,
    namespace::CONTROLLER,
];

/// Returns true if an object is deleted because it was moved to another server. Its cloud resources are
/// kept then.
pub(crate) fn moved<K: kube::Resource>(object: &K) -> bool {
    let annotations = object.meta().annotations.as_ref();
    annotations
        .is_some_and(|annotations| annotations.contains_key("clusterctl.cluster.x-k8s.io/delete-for-move"))
}

/// Returns the error of a pass with more steps than any object needs, because two of them undo each
/// other.
pub(crate) fn endless() -> controllers_runtime::ReconcileError {
    let class = controllers_infrastructure::ErrorClass::Broken;
    let message = "the cloud returns other values than were written; see the Events for the repeated steps";
    controllers_infrastructure::CloudError::new(class, "reconcile the object with the cloud", message).into()
}

/// Annotation with the time at which the certificates of a control plane Machine expire, in RFC 3339.
pub(crate) const CERTIFICATES_EXPIRY_ANNOTATION: &str = "machine.cluster.x-k8s.io/certificates-expiry";

/// Label of every object of a Cluster.
pub(crate) const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Label of control plane Machines. Its value has no meaning.
pub(crate) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
