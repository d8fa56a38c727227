//! Tests of decisions on a cluster. Names begin with the id of the requirement.

use apiserver_types::{OpenStackCluster, Time};
use controllers_infrastructure::{FloatingIp, LoadBalancer, Network, Subnet};
use controllers_runtime::{OwnershipTag, ReconcileError};
use serde_json::{Value, json};

use super::decide::{Step, clients, next_step};
use super::desired::{Desired, EndpointWish, SubnetWish};
use super::observe::{Observed, intended, sort_subnets};
use super::report;

fn object(changes: &Value) -> OpenStackCluster {
    let mut spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
    object.metadata.uid = Some("u".to_owned());
    object
}

/// Returns a cluster with everything in the journal and an existing network.
fn noted(object: &OpenStackCluster) -> (Desired, OwnershipTag, Observed) {
    let desired = Desired::read(object, "c");
    let mut observed = Observed {
        network: Some(Network { id: "n".to_owned(), ..Network::default() }),
        subnets: vec![subnet("s", "10.6.0.0/24", "2026-01")],
        external: Some(Network { id: "e".to_owned(), external: true, ..Network::default() }),
        ..Observed::default()
    };
    for (kind, name) in intended(&desired) {
        observed.journal.intend(kind, &name);
    }
    (desired, OwnershipTag::of(object), observed)
}

fn subnet(id: &str, cidr: &str, created_at: &str) -> Subnet {
    let text = str::to_owned;
    Subnet { id: text(id), cidr: text(cidr), created_at: text(created_at), ..Subnet::default() }
}

#[test]
fn r2_2_all_that_will_be_created_is_noted_with_one_write_before_the_first_call() {
    let spec = json!({
        "managedSubnets": [{"cidr": "10.6.0.0/24"}], "managedSecurityGroups": {},
        "apiServer": {"managedLoadBalancer": {}},
    });
    let object = object(&spec);
    let desired = Desired::read(&object, "c");
    let mut observed = Observed::default();
    let Step::Journal(entries) = next_step(&desired, &OwnershipTag::of(&object), &observed) else {
        panic!("a call was made before the journal was written");
    };
    let kinds: Vec<&str> = entries.iter().map(|(kind, _)| *kind).collect();
    let expected = [
        "network",
        "subnet",
        "router",
        "security-group",
        "security-group",
        "vip-port",
        "load-balancer",
        "floating-ip",
    ];
    assert_eq!(kinds, expected);
    for (kind, name) in entries {
        observed.journal.intend(kind, &name);
    }
    assert_eq!(next_step(&desired, &OwnershipTag::of(&object), &observed), Step::CreateNetwork);
}

#[test]
fn r2_11_an_address_that_is_reported_down_and_a_load_balancer_that_is_offline_are_used() {
    let object = object(&json!({"network": {"id": "n"}}));
    let (desired, tag, mut observed) = noted(&object);
    for status in ["ACTIVE", "DOWN", "ERROR", ""] {
        let text = str::to_owned;
        let ip = FloatingIp { address: text("203.0.113.9"), status: text(status), ..FloatingIp::default() };
        observed.floating_ip = Some(ip);
        let step = next_step(&desired, &tag, &observed);
        assert!(
            matches!(&step, Step::SetEndpoint { host, .. } if host == "203.0.113.9"),
            "{status}: {step:?}"
        );
    }
    // The operating status of Octavia is not even read.
    let known = format!("{:?}", LoadBalancer::default());
    assert!(known.contains("provisioning_status") && !known.contains("operating_status"), "{known}");
}

#[test]
fn r5_3_subnets_have_one_order_whatever_the_list_of_neutron_has() {
    let mut subnets = vec![
        subnet("a", "2001:db8::/64", "2026-01-01T00:00:00Z"),
        subnet("b", "10.7.0.0/24", "2026-01-03T00:00:00Z"),
        subnet("c", "10.6.0.0/24", "2026-01-02T00:00:00Z"),
        subnet("d", "10.8.0.0/24", "2026-01-02T00:00:00Z"),
    ];
    for _ in 0..subnets.len() {
        subnets.rotate_left(1);
        sort_subnets(&mut subnets);
        let ids: Vec<&str> = subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!(ids, ["c", "d", "b", "a"]);
    }
}

#[test]
fn r5_4_a_managed_network_has_one_subnet_and_an_existing_one_may_have_both_ip_versions() {
    let managed = json!({"managedSubnets": [{"cidr": "10.6.0.0/24"}, {"cidr": "2001:db8::/64"}]});
    let desired = Desired::read(&object(&managed), "c");
    assert!(matches!(&desired.subnets, SubnetWish::Managed { cidr, .. } if cidr == "10.6.0.0/24"));
    assert_eq!(intended(&desired).iter().filter(|(kind, _)| *kind == crate::names::SUBNET).count(), 1);
    let existing = json!({"network": {"id": "n"}, "subnets": [{"id": "four"}, {"id": "six"}]});
    let desired = Desired::read(&object(&existing), "c");
    let SubnetWish::Existing(queries) = desired.subnets else { panic!("{:?}", desired.subnets) };
    let ids: Vec<_> = queries.iter().filter_map(|query| query.id.as_deref()).collect();
    assert_eq!(ids, ["four", "six"]);
}

/// Returns the clients that the groups have to check for a load balancer of a provider.
fn checked_clients(provider: &str, cidrs: &[&str]) -> Vec<String> {
    let balancer = json!({"provider": provider, "allowedCIDRs": cidrs});
    let object = object(&json!({"network": {"id": "n"}, "apiServer": {"managedLoadBalancer": balancer}}));
    let (desired, _, mut observed) = noted(&object);
    let made = LoadBalancer { provider: provider.to_owned(), ..LoadBalancer::default() };
    observed.balancing.balancer = Some(made);
    clients(&desired, &observed)
}

#[test]
fn r6_2_the_port_of_the_api_is_open_to_anyone_unless_the_load_balancer_cannot_check_clients() {
    assert!(checked_clients("amphora", &["192.0.2.0/24"]).is_empty(), "the load balancer checks");
    assert!(checked_clients("ovn", &[]).is_empty(), "the user admits everyone");
    assert!(checked_clients("ovn", &["192.0.2.0/24"]).contains(&"192.0.2.0/24".to_owned()));
}

#[test]
fn r6_10_health_checks_from_the_subnet_of_the_members_stay_allowed() {
    let allowed = checked_clients("ovn", &["192.0.2.7"]);
    assert_eq!(allowed, ["10.6.0.0/24", "192.0.2.7/32"]);
}

#[test]
fn r7_8_a_known_endpoint_is_never_replaced() {
    let text = str::to_owned;
    let ip =
        FloatingIp { address: text("203.0.113.9"), tags: vec![text("capstan-u")], ..FloatingIp::default() };
    let balancer = LoadBalancer {
        id: text("lb"),
        provisioning_status: text("ACTIVE"),
        vip_address: text("10.6.0.5"),
        admin_state_up: true,
        ..LoadBalancer::default()
    };
    let servers = [
        json!({}),
        json!({"floatingIP": "203.0.113.9"}),
        json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9"}),
        json!({"managedLoadBalancer": {}}),
        json!({"managedLoadBalancer": {}, "enableFloatingIP": false}),
    ];
    for server in servers {
        let endpoint = json!({"host": "192.0.2.1", "port": 6443});
        let spec = json!({"network": {"id": "n"}, "apiServer": server, "controlPlaneEndpoint": endpoint});
        let (desired, tag, observed) = noted(&object(&spec));
        for (floating_ip, balancer) in [(None, None), (Some(ip.clone()), Some(balancer.clone()))] {
            let mut observed = Observed { floating_ip, ..observed.clone() };
            observed.balancing.balancer = balancer;
            for (port, expected) in [(6443, false), (0, true)] {
                observed.endpoint = Some((text("192.0.2.1"), port));
                if let Step::SetEndpoint { host, .. } = next_step(&desired, &tag, &observed) {
                    assert!(expected, "{server}: a complete endpoint was written again");
                    assert_eq!(host, "192.0.2.1", "{server}");
                }
            }
        }
    }
}

#[test]
fn r7_8_a_given_endpoint_has_its_own_port_and_hides_no_load_balancer() {
    let server = json!({"port": 8443, "managedLoadBalancer": {}});
    let given = |port: i32| json!({"host": "192.0.2.1", "port": port});
    let table = [(given(443), 443), (given(0), 8443), (json!({}), 8443)];
    for (endpoint, expected) in table {
        let spec = json!({"network": {"id": "n"}, "apiServer": server, "controlPlaneEndpoint": endpoint});
        let desired = Desired::read(&object(&spec), "c");
        assert_eq!(desired.port, expected, "{endpoint}");
        assert!(matches!(desired.endpoint, EndpointWish::LoadBalancer(_)), "{endpoint}");
    }
    assert_eq!(Desired::read(&object(&json!({"network": {"id": "n"}})), "c").port, 6443);
}

#[test]
fn the_primary_subnet_of_the_spec_precedes_the_first_one() {
    let object = object(&json!({"network": {"id": "n"}, "primarySubnet": {"id": "second"}}));
    let (desired, _, mut observed) = noted(&object);
    assert_eq!(desired.primary.and_then(|query| query.id).as_deref(), Some("second"));
    assert_eq!(observed.own_subnet().unwrap().id, "s");
    observed.primary = Some(subnet("second", "10.7.0.0/24", ""));
    assert_eq!(observed.own_subnet().unwrap().id, "second");
}

#[test]
fn a_cluster_that_a_person_has_to_correct_is_stalled_until_it_is_paused() {
    let mut object = object(&json!({}));
    let shown = |object: &OpenStackCluster| {
        ["Reconciling", "Stalled"].map(|kind| object.condition(kind).map(|it| it.reason.clone()))
    };
    let stop = |object: &mut OpenStackCluster, reason| {
        report::report_stopped(object, &ReconcileError::waiting(reason, "because"), &Time::default());
    };
    stop(&mut object, "LoadBalancerPending");
    assert_eq!(shown(&object), [Some("LoadBalancerPending".to_owned()), None]);
    stop(&mut object, "MarkInUse");
    assert_eq!(shown(&object), [None, Some("MarkInUse".to_owned())]);
    report::report_pause(&mut object);
    assert_eq!(shown(&object), [None, None]);
    assert!(object.condition("Ready").is_some(), "nothing else changes");
}
