//! Tests of the record of drift, and of what it makes of steps.

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{
    FloatingIp, HealthMonitor, Listener, LoadBalancer, Network, NewSecurityGroupRule, Pool, Router,
    SecurityGroup, SecurityGroupRule, Subnet, TaggedKind,
};
use controllers_runtime::{OwnershipTag, now};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::super::balancer::{self, Backend, PoolView};
use super::super::decide::{Step, next_step};
use super::super::desired::{Desired, EndpointWish};
use super::super::gateway;
use super::super::observe::{Observed, intended};
use super::super::report::{self, Ending};
use super::super::rules::Role;
use super::*;
use crate::applied_tags::TagChange;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

fn correction(field: &str) -> Correction {
    Correction {
        condition: "NetworkReady",
        field: field.to_owned(),
        wish: format!("{field}: wanted"),
        before: "[theirs]".to_owned(),
        after: "[wanted]".to_owned(),
    }
}

fn stored(generation: i64, text: Option<String>) -> OpenStackCluster {
    let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "managedSecurityGroups": {},
        "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["9.9.9.9"]}],
        "apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24"]}},
        "controlPlaneEndpoint": {"host": "203.0.113.9", "port": 6443}});
    let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
    object.metadata.generation = Some(generation);
    object.metadata.uid = Some("u".to_owned());
    object.annotations_mut().extend(text.map(|text| (ANNOTATION.to_owned(), text)));
    object
}

#[test]
fn r16_only_what_the_last_complete_pass_set_for_this_generation_can_drift() {
    let dns = correction("dns");
    let mut drift = Drift::of(&stored(3, None));
    assert_eq!(drift.text(), None);
    assert!(!drift.is_drift(&dns), "a pass that is the first to set it");
    drift.settle(3, std::slice::from_ref(&dns.wish));
    let again = Drift::of(&stored(3, drift.text()));
    assert!(again.is_drift(&dns), "also after a restart");
    let other = Correction { wish: "dns: another".to_owned(), ..dns.clone() };
    assert!(!again.is_drift(&other), "the wish has changed");
    assert!(!Drift::of(&stored(4, drift.text())).is_drift(&dns), "the spec has changed");
    assert!(!Drift::of(&stored(3, Some("nonsense".to_owned()))).is_drift(&dns));
    drift.forget();
    assert!(!drift.is_drift(&dns));
}

#[test]
fn r16_the_third_correction_in_half_an_hour_is_the_last_until_the_spec_changes() {
    for (minutes, expected) in [([0, 10, 20], true), ([0, 15, 30], true), ([0, 15, 31], false)] {
        let mut drift = Drift::of(&stored(3, None));
        let mut last = None;
        for minute in minutes {
            drift = Drift::of(&stored(3, drift.text()));
            assert_eq!(last, None, "{minutes:?}");
            last = drift.note(&correction("dns"), at(minute));
            assert_eq!(
                drift.note(&correction(&format!("other {minute}")), at(minute)),
                None,
                "of each field"
            );
        }
        assert_eq!((last.is_some(), drift.is_stopped("dns")), (expected, expected), "{minutes:?}");
        assert!(!drift.is_stopped("other 0") && drift.fight("RouterReady").is_none());
        let Some(message) = last else { continue };
        for part in ["dns", "before [theirs]", "after [wanted]", "3 within 30 minutes", ANNOTATION] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let again = Drift::of(&stored(3, drift.text()));
        assert_eq!(again.fight("NetworkReady"), Some(message));
        let mut changed = Drift::of(&stored(4, drift.text()));
        assert!(!changed.is_stopped("dns") && changed.text().is_none());
        drift.settle(4, &[]);
        changed.settle(4, &[]);
        assert_eq!(drift, changed, "a spec that changes during a pass");
    }
}

#[test]
fn r16_the_record_does_not_grow_without_end() {
    let mut drift = Drift::default();
    for index in 0..500 {
        drift.note(&correction(&format!("rule {index}")), at(0));
    }
    assert!(drift.text().unwrap().len() < 4096, "{:?}", drift.text());
    let long = Correction { before: "\u{e4}".repeat(5000), ..correction("dns") };
    assert!(long.text().chars().count() < 400, "{}", long.text());
}

/// Returns a complete cluster with a load balancer, and its observed parts.
fn complete(object: &OpenStackCluster) -> (Desired, OwnershipTag, Observed) {
    let (desired, tag) = (Desired::read(object, "c"), OwnershipTag::of(object));
    let text = str::to_owned;
    let (description, tags) = (tag.description(), tag.tags(None));
    let mut observed = Observed {
        network: Some(Network { id: text("n"), tags: tags.clone(), ..Network::default() }),
        subnets: vec![Subnet {
            id: text("s"),
            cidr: text("10.6.0.0/24"),
            dns_nameservers: vec![text("9.9.9.9")],
            tags: tags.clone(),
            ..Subnet::default()
        }],
        external: Some(Network { id: text("e"), external: true, ..Network::default() }),
        router: Some(Router {
            id: text("r"),
            external_network_id: Some(text("e")),
            tags: tags.clone(),
            ..Router::default()
        }),
        connected: true,
        complete: true,
        floating_ip: Some(FloatingIp {
            id: text("f"),
            address: text("203.0.113.9"),
            port_id: Some(text("vip")),
            description,
            tags: tags.clone(),
            ..FloatingIp::default()
        }),
        endpoint: Some((text("203.0.113.9"), 6443)),
        drift: Drift::of(object),
        ..Observed::default()
    };
    for wish in &desired.groups {
        let id = text(wish.role.word());
        observed
            .groups
            .insert(wish.role, SecurityGroup { id, tags: tags.clone(), ..SecurityGroup::default() });
    }
    observed.balancing = balancing(&tag);
    for (kind, name) in intended(&desired) {
        observed.journal.intend(kind, &name);
    }
    (desired, tag, observed)
}

fn balancing(tag: &OwnershipTag) -> balancer::BalancerView {
    let text = str::to_owned;
    let balancer = LoadBalancer {
        id: text("lb"),
        provisioning_status: text("ACTIVE"),
        vip_address: text("10.6.0.5"),
        vip_port_id: text("vip"),
        admin_state_up: true,
        tags: tag.tags(None),
        ..LoadBalancer::default()
    };
    let listener = Listener {
        id: text("l"),
        tags: tag.tags(None),
        provisioning_status: text("ACTIVE"),
        protocol: text("TCP"),
        protocol_port: 6443,
        default_pool_id: Some(text("p")),
        ..Listener::default()
    };
    let pool =
        Pool { id: text("p"), tags: tag.tags(None), provisioning_status: text("ACTIVE"), ..Pool::default() };
    let monitor =
        HealthMonitor { id: text("m"), provisioning_status: text("ACTIVE"), ..HealthMonitor::default() };
    balancer::BalancerView {
        balancer: Some(balancer),
        listeners: vec![listener],
        pools: vec![PoolView { pool, members: Vec::new(), monitor: Some(monitor) }],
        backends: vec![Backend {
            machine: text("cp-1"),
            address: Some((text("10.6.0.7"), None)),
            ..Backend::default()
        }],
        ..balancer::BalancerView::default()
    }
}

/// Each step sets what the record of a complete pass has, so that the same step in a later pass is drift.
#[test]
fn r16_the_wishes_of_a_complete_pass_have_each_correction_of_a_later_one() {
    let object = stored(3, None);
    let (desired, tag, mut observed) = complete(&object);
    let text = str::to_owned;
    let wishes = wishes(&desired, &tag, &observed);
    observed.drift.settle(3, &wishes);
    let surplus = NewSecurityGroupRule { group_id: text("worker"), ..NewSecurityGroupRule::default() };
    let worker = observed.groups.get_mut(&Role::Worker).unwrap();
    worker.rules.push(SecurityGroupRule { id: text("surplus"), rule: surplus.clone() });
    let EndpointWish::LoadBalancer(wish) = &desired.endpoint else { panic!("{:?}", desired.endpoint) };
    let part = Step::Balance;
    let backends = observed.balancing.backends.clone();
    let cidrs = balancer::allowed_cidrs(wish, &observed);
    let own = tag.tags(Some(&desired.tags));
    let change = TagChange { added: own.clone(), removed: Vec::new() };
    let kind = TaggedKind::Router;
    let missing = NewSecurityGroupRule { port_min: Some(22), ..surplus.clone() };
    let steps = [
        (Step::SetDnsNameservers { subnet: text("s"), nameservers: vec![text("9.9.9.9")] }, "NetworkReady"),
        (Step::SetGateway { router: text("r"), network: text("e") }, "RouterReady"),
        (Step::Tag { kind, id: text("r"), change }, "RouterReady"),
        (Step::AddRules { role: Role::Worker, rules: vec![missing] }, "SecurityGroupsReady"),
        (Step::RemoveRule { role: Role::Worker, id: text("surplus") }, "SecurityGroupsReady"),
        (part(balancer::Step::Associate { floating_ip: text("f"), port: text("vip") }), "APIEndpointReady"),
        (part(balancer::Step::SetCidrs { listener: text("l"), cidrs }), "APIEndpointReady"),
        (part(balancer::Step::SetIdleTimeout(text("l"))), "APIEndpointReady"),
        (
            part(balancer::Step::SetAlgorithm { pool: text("p"), algorithm: "ROUND_ROBIN" }),
            "APIEndpointReady",
        ),
        (part(balancer::Step::UpdateMonitor(text("m"))), "APIEndpointReady"),
        (part(balancer::Step::AddMembers { pool: text("p"), port: 6443, backends }), "APIEndpointReady"),
        (part(balancer::Step::SetTags { id: text("lb"), tags: own }), "APIEndpointReady"),
    ];
    for (step, condition) in steps {
        let corrections = of(&step, &desired, &tag, &observed);
        let [correction] = corrections.as_slice() else { panic!("{step:?}: {corrections:?}") };
        assert_eq!(correction.condition, condition, "{step:?}");
        assert!(observed.drift.is_drift(correction), "{step:?}: {correction:?}");
        for minute in 0..3 {
            assert!(permitted(step.clone(), &observed).is_some(), "{step:?}");
            observed.drift.note(correction, at(minute));
        }
        assert_eq!(permitted(step.clone(), &observed), None, "{step:?}");
    }
    assert!(of(&Step::CreateNetwork, &desired, &tag, &observed).is_empty());
}

#[test]
fn r16_another_machine_or_client_is_a_change_and_no_drift() {
    let (desired, tag, mut observed) = complete(&stored(3, None));
    let wishes = wishes(&desired, &tag, &observed);
    observed.drift.settle(3, &wishes);
    let new = Backend {
        machine: "cp-2".to_owned(),
        address: Some(("10.6.0.8".to_owned(), None)),
        ..Backend::default()
    };
    observed.balancing.backends.push(new.clone());
    let add = balancer::Step::AddMembers { pool: "p".to_owned(), port: 6443, backends: vec![new] };
    let corrections = of(&Step::Balance(add), &desired, &tag, &observed);
    assert!(corrections.iter().all(|it| !observed.drift.is_drift(it)), "{corrections:?}");
    // A gateway with another address changes the clients, too.
    let set = Step::SetGateway { router: "r".to_owned(), network: "e".to_owned() };
    assert!(observed.drift.is_drift(&of(&set, &desired, &tag, &observed)[0]));
    observed.drift.forget();
    assert!(!observed.drift.is_drift(&of(&set, &desired, &tag, &observed)[0]));
}

#[test]
fn r16_a_member_that_is_left_alone_is_added_at_another_address() {
    let (desired, tag, mut observed) = complete(&stored(3, None));
    let add = |observed: &Observed| {
        let backends = observed.balancing.backends.clone();
        Step::Balance(balancer::Step::AddMembers { pool: "p".to_owned(), port: 6443, backends })
    };
    let correction = of(&add(&observed), &desired, &tag, &observed).remove(0);
    (0..3).for_each(|minute| drop(observed.drift.note(&correction, at(minute))));
    (0..3).for_each(|minute| drop(observed.drift.note(&self::correction("dns"), at(minute))));
    assert_eq!(permitted(add(&observed), &observed), None);
    forget_old_members(&mut observed);
    assert_eq!(permitted(add(&observed), &observed), None, "the address is still wanted");

    observed.balancing.backends[0].address = Some(("10.6.0.8".to_owned(), None));
    assert!(permitted(add(&observed), &observed).is_some());
    assert!(observed.drift.fight("APIEndpointReady").is_some());
    forget_old_members(&mut observed);
    assert_eq!(observed.drift.fight("APIEndpointReady"), None, "the old member is not wanted any more");
    assert!(observed.drift.is_stopped("dns"), "only members are forgotten");
}

#[test]
fn r16_the_removal_of_a_part_in_error_makes_the_other_differences_no_drift() {
    let (desired, tag, mut observed) = complete(&stored(3, None));
    let wishes = wishes(&desired, &tag, &observed);
    observed.drift.settle(3, &wishes);
    let set = Step::SetGateway { router: "r".to_owned(), network: "e".to_owned() };
    forget_dependent(&set, &mut observed);
    assert!(observed.drift.is_drift(&of(&set, &desired, &tag, &observed)[0]), "the cloud may refuse it");
    let replace = balancer::Step::Replace { id: "lb".to_owned(), why: String::new(), failed: false };
    forget_dependent(&Step::Balance(replace), &mut observed);
    assert!(!observed.drift.is_drift(&of(&set, &desired, &tag, &observed)[0]));
}

#[test]
fn r16_the_tags_of_a_resource_that_is_adopted_later_are_no_drift() {
    let (desired, tag, mut observed) = complete(&stored(3, None));
    observed.router.as_mut().unwrap().tags.clear();
    let wishes = wishes(&desired, &tag, &observed);
    observed.drift.settle(3, &wishes);
    let change = TagChange { added: tag.tags(None), removed: Vec::new() };
    let step = Step::Tag { kind: TaggedKind::Router, id: "r".to_owned(), change };
    assert!(!observed.drift.is_drift(&of(&step, &desired, &tag, &observed)[0]));
}

#[test]
fn r16_a_field_that_is_left_alone_holds_up_no_other_part_and_is_reported() {
    let mut object = stored(3, None);
    let (desired, tag, mut observed) = complete(&object);
    observed.subnets[0].dns_nameservers = vec!["1.1.1.1".to_owned()];
    let step = next_step(&desired, &tag, &observed);
    let Step::SetDnsNameservers { .. } = &step else { panic!("{step:?}") };
    let correction = of(&step, &desired, &tag, &observed).remove(0);
    assert_eq!((correction.before.as_str(), correction.after.as_str()), ("[1.1.1.1]", "[9.9.9.9]"));
    let messages: Vec<_> = (0..3).filter_map(|minute| observed.drift.note(&correction, at(minute))).collect();
    let step = next_step(&desired, &tag, &observed);
    assert!(matches!(step, Step::AddRules { .. }), "the next part follows: {step:?}");
    report::report(&mut object, &desired, &observed, &Ending::Complete, &now());
    let network = object.condition("NetworkReady").unwrap();
    assert_eq!((network.holds(), network.reason.as_str()), (true, FIGHT), "it works, with a defect");
    assert_eq!(messages, std::slice::from_ref(&network.message));

    // A gateway is a part without which the router is not as the spec says.
    observed.router.as_mut().unwrap().external_network_id = Some("other".to_owned());
    let set = Step::SetGateway { router: "r".to_owned(), network: "e".to_owned() };
    let correction = of(&set, &desired, &tag, &observed).remove(0);
    assert!(correction.before.contains("network other"), "{correction:?}");
    (0..3).for_each(|minute| drop(observed.drift.note(&correction, at(minute))));
    report::report(&mut object, &desired, &observed, &Ending::Complete, &now());
    let router = object.condition("RouterReady").unwrap();
    assert_eq!((router.holds(), router.reason.as_str()), (false, FIGHT));
    assert_eq!(gateway::step(&desired, &observed), None);
}
