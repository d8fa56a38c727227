//! Tests of the condition `APIEndpointReady` of a cluster with a load balancer that served its API.

use apiserver_types::{ConditionStatus, OpenStackCluster, Time};
use controllers_infrastructure::{
    CloudError, ErrorClass, FailedStep, FloatingIp, Listener, LoadBalancer, Network, Subnet,
};
use controllers_runtime::{OwnershipTag, ReconcileError};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::balancer::BalancerView;
use super::balancer::act::set_status;
use super::desired::Desired;
use super::observe::{Observed, intended};
use super::report::{Ending, report};

const NOW: &str = "2026-01-02T00:00:00Z";

fn object(condition: &Value) -> OpenStackCluster {
    let spec = json!({
        "identityRef": {"name": "s", "cloudName": "c"}, "network": {"id": "n"},
        "controlPlaneEndpoint": {"host": "203.0.113.9", "port": 6443},
        "apiServer": {"managedLoadBalancer": {}},
    });
    let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
    object.metadata.uid = Some("u".to_owned());
    let status = json!({"initialization": {"provisioned": true}, "conditions": [condition]});
    object.status = serde_json::from_value(status).unwrap();
    object
}

/// Returns a cluster whose load balancer works.
fn observed(object: &OpenStackCluster, desired: &Desired) -> Observed {
    let text = str::to_owned;
    let balancer = LoadBalancer {
        id: text("lb"),
        name: text("k8s-kubeapi"),
        provisioning_status: text("ACTIVE"),
        vip_address: text("10.6.0.5"),
        vip_port_id: text("vip"),
        changed_at: text("2026-01-01T00:00:00Z"),
        admin_state_up: true,
        ..LoadBalancer::default()
    };
    let listener = Listener {
        name: format!("{}-kubeapi-6443", desired.name),
        protocol_port: 6443,
        tags: OwnershipTag::of(object).tags(None),
        ..Listener::default()
    };
    let balancing = BalancerView {
        balancer: Some(balancer),
        listeners: vec![listener],
        ..BalancerView::begin(object, Vec::new())
    };
    let floating_ip = FloatingIp {
        address: text("203.0.113.9"),
        port_id: Some(text("vip")),
        tags: OwnershipTag::of(object).tags(None),
        ..FloatingIp::default()
    };
    let mut observed = Observed {
        network: Some(Network { id: text("n"), ..Network::default() }),
        subnets: vec![Subnet { id: text("s"), cidr: text("10.6.0.0/24"), ..Subnet::default() }],
        external: Some(Network { id: text("e"), external: true, ..Network::default() }),
        floating_ip: Some(floating_ip),
        endpoint: Some((text("203.0.113.9"), 6443)),
        balancing: BalancerView { now: NOW.parse().unwrap(), ..balancing },
        complete: true,
        ..Observed::default()
    };
    for (kind, name) in intended(desired) {
        observed.journal.intend(kind, &name);
    }
    observed
}

fn condition(status: &str, reason: &str) -> Value {
    json!({"type": "APIEndpointReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T12:00:00Z"})
}

/// Returns the condition after a pass that observed this: `status reason: message`.
fn after(before: &Value, change: impl FnOnce(&mut Observed), ending: &Ending<'_>) -> String {
    let mut object = object(before);
    let desired = Desired::read(&object, "c");
    let mut seen = observed(&object, &desired);
    change(&mut seen);
    report(&mut object, &desired, &seen, ending, &Time(NOW.to_owned()));
    let found = object.condition("APIEndpointReady").unwrap();
    let status = if found.status == ConditionStatus::True { "True" } else { "False" };
    format!("{status} {}: {}", found.reason, found.message)
}

fn with(change: impl FnOnce(&mut LoadBalancer)) -> impl FnOnce(&mut Observed) {
    |observed| change(observed.balancing.balancer.as_mut().unwrap())
}

fn in_state(status: &str, changed_at: &str) -> impl FnOnce(&mut Observed) {
    with(move |balancer| {
        balancer.provisioning_status = status.to_owned();
        balancer.changed_at = changed_at.to_owned();
    })
}

#[test]
fn r8_4_the_endpoint_is_not_ready_while_its_load_balancer_forwards_nothing() {
    let ready = condition("True", "Ready");
    let complete = Ending::Complete;
    assert_eq!(after(&ready, |_| (), &complete), "True Ready: ");
    let assert = |text: String, start: &str, remedy: &str| {
        assert!(text.starts_with(start) && text.contains(remedy), "{text}");
    };
    assert(
        after(&ready, with(|it| it.admin_state_up = false), &complete),
        "False LoadBalancerDisabled: another client has switched load balancer k8s-kubeapi (lb) off",
        "Stop that client",
    );
    assert(
        after(&ready, in_state("PENDING_DELETE", "2026-01-01T23:59:00Z"), &complete),
        "False LoadBalancerBeingDeleted: another client deletes load balancer k8s-kubeapi (lb)",
        "creates another one",
    );
    assert(
        after(&ready, in_state("PENDING_UPDATE", "2026-01-01T23:00:00Z"), &complete),
        "False LoadBalancerStuck: load balancer k8s-kubeapi (lb) of provider \"\" has been in PENDING_UPDATE since",
        "Only the operator of the cloud can end that",
    );
    assert(
        after(&ready, in_state("PENDING_CREATE", "2026-01-01T23:59:00Z"), &complete),
        "False LoadBalancerPending: load balancer k8s-kubeapi (lb) is in PENDING_CREATE",
        "",
    );
    assert(
        after(&ready, in_state("ERROR", ""), &complete),
        "False LoadBalancerError: load balancer k8s-kubeapi (lb) is in ERROR",
        "Capstan requests a failover",
    );
    assert(
        after(&ready, |observed| observed.balancing.is_port_lost = true, &complete),
        "False VIPLost: port vip with the address 10.6.0.5 of load balancer k8s-kubeapi (lb) does not exist",
        "capstan.dev/recreate-load-balancer",
    );
    assert(
        after(&ready, |observed| observed.balancing.listeners.clear(), &complete),
        "False LoadBalancerPending: load balancer k8s-kubeapi (lb) has no listener for port 6443",
        "",
    );
    let taken = |observed: &mut Observed| {
        observed.balancing.balancer = None;
        observed.balancing.taken =
            Some("load balancer k8s-kubeapi (other) belongs to another owner".to_owned());
    };
    assert(after(&ready, taken, &complete), "False NameTaken: load balancer k8s-kubeapi (other)", "");
    let lost = ReconcileError::waiting("VIPLost", "another port has the address");
    let absent = |observed: &mut Observed| observed.balancing.balancer = None;
    assert(after(&ready, absent, &Ending::Stopped(&lost)), "False VIPLost: another port has the address", "");
}

/// A floating IP and a load balancer were deleted by hand. The condition promised a listener for ever, and only an
/// Event had the cause.
#[test]
fn an_error_that_keeps_the_listener_from_being_created_is_the_cause() {
    let stopped = |service: &'static str| {
        let step = Some(Box::new(FailedStep::new("APIEndpointConfigFailed", "FailedCreateFloatingIP")));
        let error =
            CloudError::new(ErrorClass::Forbidden, "allocate the floating IP", "disallowed by policy");
        ReconcileError::Cloud(CloudError { step, ..error.of_service(service) })
    };
    let deleted = |observed: &mut Observed| {
        observed.floating_ip = None;
        observed.balancing.listeners.clear();
    };
    let ready = condition("True", "Ready");
    for (service, reason) in [("Neutron", "APIEndpointConfigFailed"), ("Octavia", "LoadBalancerUnavailable")]
    {
        let text = after(&ready, deleted, &Ending::Stopped(&stopped(service)));
        let expected = format!("False {reason}: allocate the floating IP: {service}: disallowed by policy");
        assert_eq!(text, expected);
    }
    let waits = ReconcileError::waiting("LoadBalancerPending", "Octavia changes it");
    let text = after(&ready, deleted, &Ending::Stopped(&waits));
    assert!(text.contains("has no listener for port 6443"), "{text}");
}

#[test]
fn an_ordinary_change_of_a_load_balancer_interrupts_nothing_and_ends_no_interruption() {
    let pending = || in_state("PENDING_UPDATE", "2026-01-01T23:59:50Z");
    let complete = Ending::Complete;
    assert_eq!(after(&condition("True", "Ready"), pending(), &complete), "True Ready: ");
    let text = after(&condition("False", "LoadBalancerError"), pending(), &complete);
    assert!(text.starts_with("False LoadBalancerPending: "), "a failover goes on: {text}");
}

#[test]
fn the_status_of_a_change_has_the_time_of_that_change() {
    let text = after(
        &condition("True", "Ready"),
        |observed| {
            let before: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            assert!(before < observed.balancing.now);
            set_status(observed, "PENDING_UPDATE");
        },
        &Ending::Complete,
    );
    assert_eq!(text, "True Ready: ", "the change began a day ago, so it is stuck");
}
