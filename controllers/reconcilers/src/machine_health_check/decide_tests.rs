use std::collections::BTreeMap;

use apiserver_types::{Cluster, Condition, ContractVersionedObjectReference, MachineSpec, Time};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
use serde_json::json;

use super::*;
use crate::machine_health_check::judge::NodeSeen;

fn machine(name: &str, conditions: &[(&str, ConditionStatus)]) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    let of =
        |(kind, status): &(&str, ConditionStatus)| Condition::new(kind, *status, "R", "", Time::default());
    machine.status.get_or_insert_default().conditions = Some(conditions.iter().map(of).collect());
    machine
}

fn sick() -> Verdict {
    Verdict::Unhealthy { cause: Cause::Node, messages: vec!["bad".to_owned()] }
}

fn target(machine: Machine, verdict: Verdict) -> Target {
    Target { machine, node: NodeSeen::Unread, verdict }
}

fn requests(existing: &[(&str, Request)], missing: Option<&str>) -> Requests {
    let template = ContractVersionedObjectReference::default();
    let existing: BTreeMap<String, Request> =
        existing.iter().map(|(name, request)| ((*name).to_owned(), request.clone())).collect();
    Requests { template, missing: missing.map(str::to_owned), existing }
}

fn planned(limit: &str, targets: Vec<Target>, requests: Option<Requests>) -> Plan {
    let remediation = json!({"triggerIf": {"unhealthyLessThanOrEqualTo": limit}});
    let spec = json!({"clusterName": "c", "selector": {}, "remediation": remediation});
    let check = MachineHealthCheck::new("mhc", serde_json::from_value(spec).unwrap());
    let (cluster, now) = (Cluster::default(), Timestamp::UNIX_EPOCH);
    plan(&check, &Observed { cluster, targets, requests, unreachable: None, now }).unwrap()
}

fn order_of(machine: Machine, verdict: Verdict, requests: Option<Requests>) -> Option<Order> {
    let plan = planned("100%", vec![target(machine, verdict)], requests);
    plan.marks.into_iter().next().map(|(_, mark)| mark.order)
}

#[test]
fn an_owner_is_asked_once_and_not_about_a_machine_that_goes() {
    use ConditionStatus::{False, True};
    let of = |conditions: &[(&str, ConditionStatus)]| order_of(machine("m", conditions), sick(), None);
    assert_eq!(of(&[]), Some(Order::Owner));
    assert_eq!(of(&[("OwnerRemediated", True)]), Some(Order::Owner));
    assert_eq!(of(&[("OwnerRemediated", False)]), Some(Order::None), "the owner knows");
    let mut going = machine("m", &[]);
    going.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
    assert_eq!(order_of(going, sick(), None), Some(Order::None));
}

#[test]
fn all_unhealthy_machines_get_a_request_even_if_one_exists() {
    let ours = Request::Ours { uid: "u".to_owned(), deleting: false };
    let targets = ["a", "b", "c"].map(|name| target(machine(name, &[]), sick())).to_vec();
    let existing = requests(&[("a", ours), ("c", Request::Foreign)], None);
    let plan = planned("100%", targets.clone(), Some(existing));
    let orders: Vec<Order> = plan.marks.into_iter().map(|(_, mark)| mark.order).collect();
    assert_eq!(orders, [Order::KeepRequest, Order::CreateRequest, Order::NameTaken]);
    let plan = planned("100%", targets, Some(requests(&[], Some("gone"))));
    let missing = Order::NoTemplate("gone".to_owned());
    assert!(
        plan.marks.iter().all(|(_, mark)| mark.order == missing),
        "all are marked without a template, too"
    );
    assert_eq!(plan.marks.len(), 3);
}

#[test]
fn the_request_of_a_healthy_machine_goes() {
    let of = |request: Option<Request>, conditions: &[(&str, ConditionStatus)]| {
        let existing: Vec<(&str, Request)> = request.into_iter().map(|it| ("m", it)).collect();
        order_of(machine("m", conditions), Verdict::Healthy, Some(requests(&existing, None)))
    };
    let ours = |deleting| Some(Request::Ours { uid: "u".to_owned(), deleting });
    let failed = [("ExternallyRemediated", ConditionStatus::False)];
    assert_eq!(of(ours(false), &failed), Some(Order::DeleteRequest("u".to_owned())));
    assert_eq!(of(ours(true), &failed), Some(Order::None));
    assert_eq!(of(Some(Request::Foreign), &[]), Some(Order::None), "what is no request stays");
    assert_eq!(of(None, &failed), Some(Order::RequestEnded));
    assert_eq!(of(None, &[]), Some(Order::None), "a healthy Machine is marked without a request, too");
}

#[test]
fn too_many_unhealthy_machines_are_marked_and_nothing_else() {
    let all = || {
        vec![
            target(machine("a", &[]), sick()),
            target(machine("b", &[]), sick()),
            target(machine("c", &[]), Verdict::Healthy),
            target(machine("d", &[]), Verdict::Later(SignedDuration::from_secs(9))),
        ]
    };
    for plan in [planned("50%", all(), None), planned("0%", all(), None)] {
        assert!(!plan.allowance.allowed, "the one that is not healthy yet counts");
        assert!(plan.marks.iter().all(|(_, mark)| mark.order == Order::None));
        assert_eq!(plan.marks.len(), 3);
        assert_eq!(plan.next, None);
    }
    let allowed = planned("75%", all(), None);
    assert_eq!(allowed.marks.iter().filter(|(_, mark)| mark.order == Order::Owner).count(), 2);
    assert_eq!(allowed.next, Some(SignedDuration::from_secs(9)));
    assert_eq!(allowed.counts, Counts { expected: 4, healthy: 1, unhealthy: 2 });
}

#[test]
fn a_machine_that_is_not_unhealthy_any_more_loses_the_mark() {
    let later = || Verdict::Later(SignedDuration::from_secs(9));
    let marked = machine("m", &[("HealthCheckSucceeded", ConditionStatus::False)]);
    let mut going = marked.clone();
    going.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
    let plan = planned("100%", vec![target(marked, later())], None);
    assert_eq!(plan.marks[0].1, Mark { health: Health::Succeeded, order: Order::None });
    let plan = planned("100%", vec![target(going, later())], None);
    assert_eq!(plan.marks, [], "a Machine that is being deleted keeps it");
    let plan = planned("100%", vec![target(machine("m", &[]), later())], None);
    assert_eq!(plan.marks, []);
}
