//! Stage of a Machine on its way to a control plane Node, for people. Pure.
//!
//! The server, its console, the members of etcd and the Nodes each know a part. Together they say how far kubeadm has
//! come, also if it neither ends nor fails.

use apiserver_types::{Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_members::{addresses, belongs};
use super::etcd_projection::Member;
use super::observe::Observed;
use super::replica::Replica;
use super::surplus::{JOINS, started};
use crate::aggregate::one_line;

/// Condition of an infrastructure object: what the console of the server says about the bootstrap.
const BOOTSTRAP: &str = "BootstrapSucceeded";

/// State of a server that could not be built.
const NOT_BUILT: &str = "ERROR";

/// Text of kubeadm before the phase that failed.
const KUBEADM: &str = "error execution phase";

/// Returns the stage of a Machine without a Node. If the Machine has had enough time, advice follows.
pub(super) fn of(replica: &Replica, observed: &Observed) -> String {
    let stage = describe(replica, observed.workload.members(), observed.workload.nodes());
    if !is_late(replica, observed.now) {
        return stage;
    }
    let (minutes, name) = (JOINS.as_secs() / 60, replica.name());
    format!("{stage}. It has had more than {minutes} minutes. Delete Machine {name} if it does not join")
}

/// Reports whether a Machine has had enough time to join.
fn is_late(replica: &Replica, now: Timestamp) -> bool {
    now.duration_since(started(replica)) >= JOINS
}

/// Reports whether a Machine has no Node, and none is near: it has no server, its bootstrap has failed, or it has had
/// enough time. Such a Machine can go before the others. With a server, it may have a member of etcd. That member is known
/// by its address, and leaves before the Machine does. So a Machine whose address is not known stays. So does one whose
/// server is not ready yet: kubeadm may run at this moment, and add its member after the last look at etcd.
pub(super) fn is_expendable(replica: &Replica, now: Timestamp) -> bool {
    let bootstrap = replica.infrastructure_condition(BOOTSTRAP);
    let has_failed = bootstrap.is_some_and(|it| it.status == ConditionStatus::False);
    let was_ready = replica.holds("InfrastructureReady") || replica.off_state().is_some();
    let is_over = has_failed || (was_ready && is_late(replica, now));
    let may_go = is_over && !addresses(replica).is_empty();
    replica.node().is_none() && (may_go || !has_server(replica))
}

/// Reports whether kubeadm may run for a Machine. A server boots before it is ready, for example while it waits for the load
/// balancer. One that could not be built does not.
pub(super) fn has_server(replica: &Replica) -> bool {
    let has_id = replica.machine.spec.provider_id.as_deref().is_some_and(|id| !id.is_empty());
    has_id
        || replica.holds("InfrastructureReady")
        || !addresses(replica).is_empty()
        || replica.server_state().is_some_and(|state| state != NOT_BUILT)
}

/// Returns the stage of a Machine without a Node. Members and Nodes are absent if they are not known.
pub(super) fn describe(replica: &Replica, members: Option<&[Member]>, nodes: Option<&[Node]>) -> String {
    let condition = |kind: &str| replica.machine.condition(kind);
    if !replica.has_data() {
        return with_cause("it has no bootstrap data yet", condition("BootstrapConfigReady"));
    }
    let Some(server) = condition("InfrastructureReady").filter(|it| it.holds()) else {
        return with_cause("its server is not ready", condition("InfrastructureReady"));
    };
    let since = format!("its server is ready since {}", server.last_transition_time.0);
    let parts = [
        Some(since),
        members.map(|members| of_member(replica, members)),
        nodes.and_then(|nodes| of_node(replica, nodes)),
        replica.infrastructure_condition(BOOTSTRAP).and_then(|it| of_bootstrap(replica, &it)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Adds what a condition says.
fn with_cause(text: &str, condition: Option<&Condition>) -> String {
    let cause = condition.map(|it| if it.message.is_empty() { &it.reason } else { &it.message });
    match cause.filter(|it| !it.is_empty()) {
        Some(cause) => format!("{text}: {}", one_line(cause)),
        None => text.to_owned(),
    }
}

fn of_member(replica: &Replica, members: &[Member]) -> String {
    match members.iter().find(|it| belongs(it, replica)) {
        None if addresses(replica).is_empty() => "its addresses are not known yet".to_owned(),
        None => "no member of etcd has its address".to_owned(),
        Some(it) if it.name.is_empty() => format!("its member of etcd {:x} has not started", it.id),
        Some(it) if it.is_learner => {
            format!("its member of etcd {} has started, and is a learner without a vote", it.name)
        }
        Some(it) => format!("its member of etcd {} has a vote", it.name),
    }
}

/// Returns the state of the Node with the name of the Machine, if it exists.
fn of_node(replica: &Replica, nodes: &[Node]) -> Option<String> {
    let name = replica.name();
    let node = nodes.iter().find(|it| it.name_any() == name)?;
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
    Some(match id {
        Some(id) => format!("Node {name} has spec.providerID {id}"),
        None => format!("Node {name} has no spec.providerID"),
    })
}

/// Returns what the console says. A failure is named by the phase of kubeadm, and the object has the rest.
fn of_bootstrap(replica: &Replica, condition: &Condition) -> Option<String> {
    match condition.status {
        ConditionStatus::True => None,
        ConditionStatus::Unknown => Some(one_line(&condition.message)).filter(|text| !text.is_empty()),
        ConditionStatus::False => {
            let infrastructure = &replica.machine.spec.infrastructure_ref;
            let cause = condition.message.lines().find(|line| line.contains(KUBEADM));
            let cause = cause.map(|line| format!(": {line}")).unwrap_or_default();
            Some(format!(
                "its bootstrap has failed with {}{cause}. See {BOOTSTRAP} of {} {}",
                condition.reason, infrastructure.kind, infrastructure.name
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::Time;
    use serde_json::json;

    use super::super::replica::examples::{addressed, healthy, off, provided, replica, set};
    use super::*;

    /// Time at which the server is ready.
    const READY: &str = "1970-01-01T00:01:40Z";

    /// Returns a Machine with bootstrap data, whose server is ready, and what its console says.
    fn boots(status: &str, message: &str) -> Replica {
        let mut replica = addressed(replica("d", 1), "10.0.0.4");
        replica.machine.spec.bootstrap.data_secret_name = Some("d".to_owned());
        replica.machine.spec.infrastructure_ref.kind = "OpenStackMachine".to_owned();
        replica.machine.spec.infrastructure_ref.name = "d".to_owned();
        set(&mut replica, "InfrastructureReady", ConditionStatus::True);
        let conditions = replica.machine.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].last_transition_time = Time(READY.to_owned());
        let condition = json!({"type": BOOTSTRAP, "status": status, "reason": "KubeadmFailed", "message": message,
            "lastTransitionTime": READY});
        provided(replica, &json!({"conditions": [condition]}))
    }

    fn member(name: &str, is_learner: bool) -> Member {
        let peer_urls = vec!["https://10.0.0.4:2380".to_owned()];
        Member { id: 255, name: name.to_owned(), is_learner, peer_urls, ..Member::default() }
    }

    #[test]
    fn each_stage_of_the_bootstrap_has_its_text() {
        let running = || boots("Unknown", "the machine is no Node yet");
        let failed = || {
            let message = "The console of the server says:\ncapstan-bootstrap: d kubeadm 1\n\
                error execution phase etcd-join: timeout\nnext";
            boots("False", message)
        };
        let node = |id: Option<&str>| -> Vec<Node> {
            let node = json!({"metadata": {"name": "d"}, "spec": {"providerID": id}});
            vec![serde_json::from_value(node).unwrap()]
        };
        let end = "the machine is no Node yet";
        let table = [
            (replica("d", 1), vec![], vec![], "it has no bootstrap data yet".to_owned()),
            (running(), vec![], vec![], format!("no member of etcd has its address; {end}")),
            (running(), vec![member("", true)], vec![], format!("its member of etcd ff has not started; {end}")),
            (
                running(),
                vec![member("d", true)],
                node(None),
                format!(
                    "its member of etcd d has started, and is a learner without a vote; Node d has no \
                     spec.providerID; {end}"
                ),
            ),
            (
                running(),
                vec![member("d", false)],
                node(Some("x")),
                format!("its member of etcd d has a vote; Node d has spec.providerID x; {end}"),
            ),
            (
                failed(),
                vec![],
                vec![],
                "no member of etcd has its address; its bootstrap has failed with KubeadmFailed: error execution phase \
                 etcd-join: timeout. See BootstrapSucceeded of OpenStackMachine d"
                    .to_owned(),
            ),
        ];
        for (replica, members, nodes, expected) in table {
            let begin = if replica.has_data() {
                format!("its server is ready since {READY}; ")
            } else {
                String::new()
            };
            assert_eq!(describe(&replica, Some(&members), Some(&nodes)), format!("{begin}{expected}"));
        }
        let unknown = describe(&running(), None, None);
        assert_eq!(
            unknown,
            format!("its server is ready since {READY}; {end}"),
            "etcd is external, or unknown"
        );
    }

    #[test]
    fn an_obstacle_before_the_boot_is_named_with_its_cause() {
        let mut replica = boots("Unknown", "");
        set(&mut replica, "InfrastructureReady", ConditionStatus::False);
        assert_eq!(describe(&replica, None, None), "its server is not ready: Reason");
        let conditions = replica.machine.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].message = "the server is in\nBUILD".to_owned();
        assert_eq!(describe(&replica, None, None), "its server is not ready: the server is in BUILD");
    }

    #[test]
    fn a_machine_that_has_had_enough_time_comes_with_advice() {
        let at =
            |second: i64| Observed { now: Timestamp::from_second(second).unwrap(), ..Observed::default() };
        let replica = boots("Unknown", "");
        let advice = "It has had more than 10 minutes. Delete Machine d if it does not join";
        assert!(!of(&replica, &at(699)).contains(advice));
        assert!(of(&replica, &at(700)).ends_with(advice));
    }

    #[test]
    fn a_machine_is_expendable_while_no_node_of_it_is_near() {
        let mut found = boots("Unknown", "");
        found.machine.spec.provider_id = Some("openstack:///1".to_owned());
        set(&mut found, "InfrastructureReady", ConditionStatus::False);
        let built =
            |state: &str| provided(replica("d", 1), &json!({"instanceID": "s", "instanceState": state}));
        let without_address = |mut replica: Replica| {
            replica.machine.status.as_mut().unwrap().addresses = None;
            replica
        };
        let table = [
            ("it has a Node", healthy("d", 1), 5000, false),
            ("it has no server", replica("d", 1), 2, true),
            ("its server could not be built", built("ERROR"), 2, true),
            ("its server boots, and waits for the load balancer", built("ACTIVE"), 2, false),
            ("it has an address before it is ready", addressed(replica("d", 1), "10.0.0.4"), 2, false),
            ("it boots", boots("Unknown", ""), 699, false),
            ("its server is there, and is not ready at the moment", found.clone(), 5000, false),
            ("its server is off", off(found), 5000, true),
            ("its bootstrap has failed", boots("False", "timeout"), 101, true),
            ("it has had enough time", boots("Unknown", ""), 700, true),
            ("its member of etcd could not be known", without_address(boots("False", "timeout")), 700, false),
        ];
        for (case, replica, second, expected) in table {
            let now = Timestamp::from_second(second).unwrap();
            assert_eq!(is_expendable(&replica, now), expected, "{case}");
        }
    }
}
