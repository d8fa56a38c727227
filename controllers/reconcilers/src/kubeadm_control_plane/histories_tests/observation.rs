//! The model as the controller observes it.

use apiserver_types::{Condition, ConditionStatus, MachineAddress, Time, set_condition};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::super::cause::Cause;
use super::super::etcd_projection::Member;
use super::super::inspection::{Inspection, Workload};
use super::super::observe::Observed;
use super::super::remediation_record::FOR;
use super::super::replica::examples::{going, replica, set};
use super::super::replica::{HOOK, NODE_LABELS, Replica};
use super::super::workload_settings::{Change, Settings};
use super::{EtcdMember, Going, Model, SLOT, Server, Stage};
use crate::pre_terminate;

impl Model {
    pub(super) fn observed(&self) -> Observed {
        let mut observed = Observed {
            replicas: self.servers.iter().map(|it| self.replica(it)).collect(),
            now: Timestamp::from_second(self.clock).unwrap(),
            ..Observed::default()
        };
        observed.replicas.sort_by_key(|it| (it.created(), it.name()));
        let cluster = json!({"metadata": {"name": "blue"}, "spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}}});
        observed.cluster = serde_json::from_value(cluster).unwrap();
        observed.certificates.examined = true;
        let template = json!({"apiVersion": "g/v1", "kind": "KTemplate", "metadata": {"name": "t"}});
        observed.template = Some(serde_json::from_value(template).unwrap());
        let is_outdated = observed.replicas.iter().any(Replica::is_outdated);
        observed.workload = self.workload();
        let is_reached = matches!(observed.workload, Workload::Reached(_));
        observed.slot = (self.slot && is_reached).then_some(SLOT);
        if is_outdated && matches!(observed.workload, Workload::Reached(_)) {
            let differs = self.prepared != self.settings;
            let changes = differs.then(|| Change::Record(self.settings.to_string(), None));
            observed.settings = Settings::Read(changes.into_iter().collect());
        }
        observed
    }

    fn workload(&self) -> Workload {
        if !self.is_initialized() {
            return Workload::NotInitialized { message: String::new(), failed: false };
        }
        if !self.has_quorum_without(None) {
            let message = "no quorum".to_owned();
            return Workload::Unreachable { message, is_over: true, reason: "ConnectionDown" };
        }
        let member = |it: &EtcdMember| Member {
            id: it.id,
            // A learner has no name until it has started.
            name: if it.votes || it.alive { it.name.clone() } else { String::new() },
            is_learner: !it.votes,
            has_alarm: false,
            peer_urls: vec![format!("https://10.0.0.{}:2380", it.number)],
        };
        let members = Ok(self.etcd.iter().map(member).collect());
        Workload::Reached(Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members })
    }

    fn replica(&self, server: &Server) -> Replica {
        let mut replica = replica(&server.name, server.created);
        let annotations = replica.machine.annotations_mut();
        if server.going != Some(Going::Free) {
            annotations.insert(HOOK.to_owned(), String::new());
        }
        annotations.extend(server.record.clone().map(|text| (FOR.to_owned(), text)));
        let status = replica.machine.status.get_or_insert_default();
        let address = MachineAddress {
            address: format!("10.0.0.{}", server.number),
            ..serde_json::from_value(json!({"type": "InternalIP", "address": ""})).unwrap()
        };
        status.addresses = Some(vec![address]);
        let has_node = matches!(server.stage, Stage::Learner | Stage::Voter);
        if has_node {
            status.node_ref = Some(apiserver_types::NodeReference { name: server.name.clone() });
        }
        self.set_conditions(&mut replica, server, has_node);
        if server.settings != self.settings {
            replica.causes = vec![Cause::Config];
        }
        if server.going.is_none() { replica } else { going(replica) }
    }

    fn set_conditions(&self, replica: &mut Replica, server: &Server, has_node: bool) {
        use ConditionStatus::{False, True, Unknown};
        let created = Timestamp::from_second(server.created).unwrap();
        let ready = Condition::new("InfrastructureReady", True, "Ready", "", Time(created.to_string()));
        let status = replica.machine.status.get_or_insert_default();
        set_condition(status.conditions.get_or_insert_default(), ready);
        for kind in Replica::components(true).chain([NODE_LABELS]).filter(|_| has_node) {
            let status = match (server.going, server.alive, server.stage) {
                (Some(_), ..) => False,
                (None, false, _) => Unknown,
                (None, true, Stage::Learner) if kind == "EtcdMemberHealthy" => False,
                (None, true, _) => True,
            };
            set(replica, kind, status);
        }
        if server.sick {
            set(replica, "HealthCheckSucceeded", False);
            set(replica, "OwnerRemediated", False);
        }
        if matches!(server.going, Some(Going::Drained)) {
            let deleting = Condition::new("Deleting", True, pre_terminate::REASON, "", Time::default());
            let status = replica.machine.status.get_or_insert_default();
            set_condition(status.conditions.get_or_insert_default(), deleting);
        }
    }
}
