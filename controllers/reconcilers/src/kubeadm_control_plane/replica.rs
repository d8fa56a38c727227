//! Replicas: the Machines of a control plane, each with its bootstrap and its infrastructure object.

use apiserver_types::{Condition, ConditionStatus, IntOrString, KubeadmConfig, KubeadmControlPlane, Machine};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::cause::Cause;

/// Conditions of the static pods that every control plane Machine runs.
pub(super) const PODS: [&str; 3] =
    ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy"];

/// Conditions of etcd, where kubeadm runs it on the control plane Machines.
pub(super) const ETCD: [&str; 2] = ["EtcdPodHealthy", "EtcdMemberHealthy"];

/// Condition of the label and the taint that kubeadm sets on a control plane Node.
pub(super) const NODE_LABELS: &str = "NodeKubeadmLabelsAndTaintsSet";

/// Annotation of control plane Machines that holds their deletion until etcd no longer needs them.
pub(super) const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";

/// States of a server in Nova in which nothing runs on it.
const OFF: [&str; 5] = ["SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED", "DELETED"];

/// Smallest number of Machines of which one can go before its replacement comes. Upstream's limit.
const MIN_WITHOUT_SURGE: usize = 3;

/// Machine of a control plane, with its objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Replica {
    pub machine: Machine,
    /// Absent, if the Machine has none, or if it does not exist.
    pub config: Option<KubeadmConfig>,
    /// Absent, if it does not exist.
    pub infrastructure: Option<DynamicObject>,
    /// Causes for which the Machine does not match the control plane.
    pub causes: Vec<Cause>,
}

impl Replica {
    pub(super) fn name(&self) -> String {
        self.machine.name_any()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// Reports whether the Machine is to be replaced. One that is being deleted is not.
    pub(super) fn is_outdated(&self) -> bool {
        !self.is_deleting() && !self.causes.is_empty()
    }

    /// Returns the name of the Machine's Node.
    pub(super) fn node(&self) -> Option<&str> {
        Some(self.machine.status.as_ref()?.node_ref.as_ref()?.name.as_str())
    }

    /// Reports whether there is bootstrap data for the Machine. Its own field follows the status of the KubeadmConfig.
    pub(super) fn has_data(&self) -> bool {
        let status = self.config.as_ref().and_then(|config| config.status.as_ref());
        let of_config = status.and_then(|status| status.data_secret_name.as_deref());
        let of_machine = self.machine.spec.bootstrap.data_secret_name.as_deref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        let is_created = initialization.and_then(|it| it.data_secret_created) == Some(true);
        is_created || [of_config, of_machine].into_iter().flatten().any(|name| !name.is_empty())
    }

    pub(super) fn holds(&self, kind: &str) -> bool {
        self.machine.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    pub(super) fn fails(&self, kind: &str) -> bool {
        self.machine.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::False)
    }

    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.machine.annotations().contains_key(key)
    }

    pub(super) fn failure_domain(&self) -> Option<&str> {
        self.machine.spec.failure_domain.as_deref()
    }

    /// Returns a condition of the infrastructure object.
    pub(super) fn infrastructure_condition(&self, kind: &str) -> Option<Condition> {
        let conditions = self.infrastructure.as_ref()?.data.pointer("/status/conditions")?.as_array()?;
        let is_of_kind = |it: &&serde_json::Value| it.get("type").and_then(|it| it.as_str()) == Some(kind);
        serde_json::from_value(conditions.iter().find(is_of_kind)?.clone()).ok()
    }

    /// Returns the last known state of the server in Nova, if the infrastructure object has one. A server of another
    /// provider has the empty state.
    pub(super) fn server_state(&self) -> Option<&str> {
        let object = &self.infrastructure.as_ref()?.data;
        let text = |pointer: &str| object.pointer(pointer)?.as_str().filter(|it| !it.is_empty());
        let id = || text("/status/instanceID").or_else(|| text("/spec/providerID"));
        text("/status/instanceState").or_else(|| id().map(|_| ""))
    }

    /// Returns the last known state of the server in Nova, if it is one in which nothing runs on the server. The server
    /// may have been started since.
    pub(super) fn off_state(&self) -> Option<&str> {
        self.server_state().filter(|state| OFF.contains(state))
    }

    /// Returns the time of creation. An object without one counts as the oldest.
    pub(super) fn created(&self) -> Timestamp {
        self.machine.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Returns the conditions of the components, in order.
    pub(super) fn components(managed_etcd: bool) -> impl Iterator<Item = &'static str> {
        PODS.into_iter().chain(ETCD.into_iter().filter(move |_| managed_etcd))
    }

    /// Reports whether all components run: the static pods, and etcd where kubeadm runs it.
    pub(super) fn is_healthy(&self, managed_etcd: bool) -> bool {
        Self::components(managed_etcd).all(|kind| self.holds(kind))
    }

    /// Reports whether the Machine is unhealthy, and its health check requests its replacement.
    pub(super) fn needs_remediation(&self) -> bool {
        self.fails("HealthCheckSucceeded") && self.fails("OwnerRemediated")
    }
}

/// Reports whether kubeadm has labelled all Nodes. It does that at the end, which changes no Machine, so no watch wakes the
/// control plane.
pub(super) fn are_labelled(replicas: &[Replica]) -> bool {
    replicas.iter().all(|it| it.node().is_none() || it.holds(NODE_LABELS))
}

/// Reports whether kubeadm runs etcd on the control plane Machines.
pub(super) fn managed_etcd(control_plane: &KubeadmControlPlane) -> bool {
    let spec = control_plane.spec.kubeadm_config_spec.as_ref();
    let etcd = spec.and_then(|spec| spec.cluster_configuration.as_ref()?.etcd.as_ref());
    etcd.is_none_or(|etcd| etcd.external.is_none())
}

/// Reports whether the API server of the control plane has been reached once.
pub(super) fn initialized(control_plane: &KubeadmControlPlane) -> bool {
    let status = control_plane.status.as_ref();
    let initialization = status.and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

/// Returns how many Machines there may be above the desired number while Machines are replaced: 0 or 1. Fewer than three
/// Machines have one more, because etcd has no member to spare.
pub(super) fn surge(control_plane: &KubeadmControlPlane) -> usize {
    let strategy = control_plane.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    let value = strategy.and_then(|it| it.rolling_update.as_ref()?.max_surge.as_ref());
    let is_zero = match value {
        Some(IntOrString::Int(number)) => *number == 0,
        // A text that is no number counts as 0, as in admission.
        Some(IntOrString::String(text)) => text.parse::<i32>().unwrap_or_default() == 0,
        None => false,
    };
    usize::from(!is_zero || desired_replicas(control_plane) < MIN_WITHOUT_SURGE)
}

/// Returns the desired number of Machines.
pub(super) fn desired_replicas(control_plane: &KubeadmControlPlane) -> usize {
    let is_deleting = control_plane.metadata.deletion_timestamp.is_some();
    let replicas = if is_deleting { 0 } else { control_plane.spec.replicas.unwrap_or(1) };
    usize::try_from(replicas).unwrap_or_default()
}

/// Replicas for tests of decisions.
#[cfg(test)]
pub(super) mod examples {
    use apiserver_types::{
        MachineAddress, MachineAddressType, MachineSpec, MachineStatus, NodeReference, OpenStackMachine,
        Time, set_condition,
    };
    use kube::api::ApiResource;
    use serde_json::json;

    use super::*;

    /// Returns a replica that was created this many seconds after the epoch.
    pub(in super::super) fn replica(name: &str, second: i64) -> Replica {
        let mut machine = Machine::new(name, MachineSpec::default());
        let created = Timestamp::from_second(second).unwrap();
        machine.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
        Replica { machine, ..Replica::default() }
    }

    /// Returns a replica with a Node and healthy components.
    pub(in super::super) fn healthy(name: &str, second: i64) -> Replica {
        let mut replica = replica(name, second);
        let node_ref = Some(NodeReference { name: name.to_owned() });
        replica.machine.status = Some(MachineStatus { node_ref, ..MachineStatus::default() });
        for kind in Replica::components(true) {
            set(&mut replica, kind, ConditionStatus::True);
        }
        replica
    }

    pub(in super::super) fn set(replica: &mut Replica, kind: &str, status: ConditionStatus) {
        let status_of = replica.machine.status.get_or_insert_default();
        let conditions = status_of.conditions.get_or_insert_default();
        set_condition(conditions, Condition::new(kind, status, "Reason", "", Time::default()));
    }

    pub(in super::super) fn going(mut replica: Replica) -> Replica {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        replica.machine.metadata.deletion_timestamp = Some(now);
        replica
    }

    pub(in super::super) fn within(mut replica: Replica, domain: &str) -> Replica {
        replica.machine.spec.failure_domain = Some(domain.to_owned());
        replica
    }

    pub(in super::super) fn addressed(mut replica: Replica, address: &str) -> Replica {
        let address = MachineAddress { address: address.to_owned(), kind: MachineAddressType::InternalIP };
        replica.machine.status.get_or_insert_default().addresses = Some(vec![address]);
        replica
    }

    /// Returns a replica with this status of its infrastructure object.
    pub(in super::super) fn provided(mut replica: Replica, status: &serde_json::Value) -> Replica {
        let kind = ApiResource::erase::<OpenStackMachine>(&());
        let object = DynamicObject::new(&replica.name(), &kind).data(json!({"status": status}));
        replica.infrastructure = Some(object);
        replica
    }

    /// Returns a replica whose server is off.
    pub(in super::super) fn off(replica: Replica) -> Replica {
        provided(replica, &json!({"instanceState": "SHUTOFF"}))
    }

    pub(in super::super) fn outdated(mut replica: Replica) -> Replica {
        let (known, wished) = ("v1.32.0".to_owned(), "v1.33.0".to_owned());
        replica.causes = vec![Cause::Version { known, wished }];
        replica
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;
    use serde_json::json;

    use super::examples::{healthy, off, provided, replica, set};
    use super::*;

    /// Such a Machine was not ready for up to ten minutes after kubeadm had labelled its Node.
    #[test]
    fn a_node_without_labels_is_looked_at_again_soon() {
        let mut joined = healthy("a", 1);
        assert!(!are_labelled(std::slice::from_ref(&joined)));
        set(&mut joined, NODE_LABELS, ConditionStatus::False);
        assert!(!are_labelled(&[joined.clone(), replica("b", 2)]));
        set(&mut joined, NODE_LABELS, ConditionStatus::True);
        // The other one boots, and its Node will change its Machine.
        assert!(are_labelled(&[joined, replica("b", 2)]));
    }

    #[test]
    fn a_server_is_off_only_if_its_infrastructure_object_says_so() {
        assert_eq!(healthy("a", 1).off_state(), None, "the state of the server is not known");
        let active = provided(healthy("a", 1), &json!({"instanceState": "ACTIVE"}));
        assert_eq!(active.off_state(), None);
        assert_eq!(off(healthy("a", 1)).off_state(), Some("SHUTOFF"));
    }

    #[test]
    fn a_condition_of_the_infrastructure_object_is_read_by_its_type() {
        let condition = json!({"type": "Ready", "status": "False", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-11-26T10:00:00Z"});
        let provided = provided(healthy("a", 1), &json!({"conditions": [condition]}));
        assert_eq!(provided.infrastructure_condition("Ready").map(|it| it.reason).as_deref(), Some("R"));
        assert_eq!(provided.infrastructure_condition("Other"), None);
        assert_eq!(healthy("a", 1).infrastructure_condition("Ready"), None);
    }
}
