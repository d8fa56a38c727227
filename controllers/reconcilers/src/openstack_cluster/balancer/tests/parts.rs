//! Tests of single sentences about a load balancer: one step for each state.

use super::*;

/// Returns the next step for the parts of a load balancer.
fn part_step(wish: &BalancerWish, balancing: BalancerView) -> String {
    let observed = Observed { balancing, ..Observed::default() };
    let step = decide::parts(wish, &tag(), &observed);
    step.map_or_else(|| "Nothing".to_owned(), |step| format!("{step:?}"))
}

#[test]
fn r8_2_the_address_is_the_last_one_then_that_of_the_spec_then_that_of_the_host_name() {
    let fixed = wish(json!({}), false);
    let plain = BalancerWish { address: None, ..fixed.clone() };
    let text = |text: &str| Some(text.to_owned());
    let last = BalancerView { last_address: text("10.6.0.5"), ..BalancerView::default() };
    let named = BalancerView { named_address: text("10.6.0.9"), ..BalancerView::default() };
    let address = |view: &BalancerView, wish: &BalancerWish| view.wanted_address(wish).cloned();
    assert_eq!(address(&last, &fixed), text("10.6.0.5"));
    assert_eq!(address(&named, &fixed), text("10.6.0.100"));
    assert_eq!(address(&named, &plain), text("10.6.0.9"));
    assert_eq!(address(&BalancerView::default(), &plain), None);
    let mut observed = Observed { unresolvable: text("no such host"), ..Observed::default() };
    observed.network = Some(Network::default());
    observed.subnets = vec![Subnet::default()];
    let step = format!("{:?}", decide::base(&plain, &observed).unwrap());
    assert!(step.contains("EndpointNotResolvable"), "{step}");
}

#[test]
fn r8_6_no_second_load_balancer_is_created_on_a_port() {
    let wish = wish(json!({}), true);
    let step = |balancing: BalancerView| {
        let observed = Observed { balancing, ..Observed::default() };
        decide::base(&wish, &observed).map(|step| format!("{step:?}"))
    };
    let port = BalancerView { vip_port: Some(Port::default()), ..BalancerView::default() };
    assert_eq!(step(port.clone()).as_deref(), Some("Create"));
    for status in ["ACTIVE", "ERROR", "PENDING_CREATE", "PENDING_DELETE"] {
        assert_eq!(step(BalancerView { balancer: Some(balancer(status)), ..port.clone() }), None, "{status}");
    }
}

#[test]
fn r8_8_nothing_is_changed_before_octavia_has_finished_the_last_change() {
    for (status, reason) in [
        ("PENDING_CREATE", "LoadBalancerPending"),
        ("PENDING_UPDATE", "LoadBalancerPending"),
        ("PENDING_DELETE", "LoadBalancerBeingDeleted"),
    ] {
        let balancing = BalancerView { balancer: Some(balancer(status)), ..BalancerView::default() };
        let observed = Observed { balancing, ..Observed::default() };
        let step = format!("{:?}", decide::state(&observed).unwrap());
        assert!(step.starts_with(&format!("Wait {{ reason: {reason:?}")), "{status}: {step}");
    }
}

#[test]
fn r8_9_machines_that_wait_become_members_with_one_call() {
    let machines = vec![backend("one", Some("10.6.0.11")), backend("two", Some("10.6.0.12"))];
    let step = part_step(&wish(json!({}), true), view(Vec::new(), machines));
    assert!(step.starts_with("AddMembers") && step.contains("one") && step.contains("two"), "{step}");
}

#[test]
fn r8_12_the_timeouts_of_a_listener_are_compared_unless_the_provider_has_none() {
    let wish = wish(json!({}), true);
    let with = |timeout, provider: &str| {
        let mut balancing = view(Vec::new(), Vec::new());
        balancing.listeners[0].tags = vec![tag().text()];
        balancing.listeners[0].idle_timeout = timeout;
        balancing.balancer.as_mut().unwrap().provider = provider.to_owned();
        part_step(&wish, balancing)
    };
    assert_eq!(with(Some(50_000), "amphora"), "SetIdleTimeout(\"l\")");
    assert_eq!(with(Some(600_000), "amphora"), "Nothing");
    assert_eq!(with(None, "amphora"), "Nothing", "an Octavia without timeouts");
    assert_eq!(with(Some(50_000), "ovn"), "Nothing");
}

#[test]
fn r8_14_a_monitor_that_checks_in_another_way_is_created_again() {
    let of = |wanted, known| {
        let wish = BalancerWish { check: wanted, ..wish(json!({}), true) };
        let mut balancing = view(Vec::new(), Vec::new());
        let monitor = HealthMonitor {
            id: "hm".to_owned(),
            check: known,
            times: wish.times.clone(),
            ..HealthMonitor::default()
        };
        balancing.pools[0].monitor = Some(monitor);
        part_step(&wish, balancing)
    };
    let (tcp, https) = (MonitorCheck::Tcp, MonitorCheck::HttpsReadyz);
    assert_eq!(of(tcp, tcp), "Nothing");
    assert_eq!(of(https, https), "Nothing");
    assert_eq!(of(https, tcp), "RemoveMonitor(\"hm\")");
    assert_eq!(of(tcp, https), "RemoveMonitor(\"hm\")");
    let mut object = OpenStackCluster::new("c", OpenStackClusterSpec::default());
    assert_eq!(super::super::wish::check(&object), tcp);
    object.metadata.annotations =
        Some([("capstan.dev/monitor".to_owned(), "https-readyz".to_owned())].into());
    assert_eq!(super::super::wish::check(&object), https);
}

#[test]
fn r8_18_allowed_cidrs_are_compared_as_sets_on_each_listener_and_opened_again() {
    let of = |wanted: serde_json::Value, known: &[&str]| {
        let mut balancing = view(Vec::new(), Vec::new());
        let known: Vec<String> = known.iter().map(|cidr| (*cidr).to_owned()).collect();
        balancing.listeners[0].allowed_cidrs = known;
        part_step(&wish(json!({"allowedCIDRs": wanted}), true), balancing)
    };
    let both = json!(["192.0.2.0/24", "198.51.100.7"]);
    assert_eq!(of(both.clone(), &["198.51.100.7/32", "192.0.2.0/24"]), "Nothing", "in another order");
    let changed = of(both, &["192.0.2.0/24"]);
    assert_eq!(changed, "SetCidrs { listener: \"l\", cidrs: [\"192.0.2.0/24\", \"198.51.100.7/32\"] }");
    assert_eq!(of(json!([]), &["192.0.2.0/24"]), "SetCidrs { listener: \"l\", cidrs: [] }");
    let mut two = view(Vec::new(), Vec::new());
    two.listeners.push(Listener { id: "l2".to_owned(), protocol_port: 8132, ..two.listeners[0].clone() });
    two.listeners[0].allowed_cidrs = vec!["192.0.2.0/24".to_owned()];
    let managed = json!({"allowedCIDRs": ["192.0.2.0/24"], "additionalPorts": [8132]});
    assert!(part_step(&wish(managed, true), two).starts_with("SetCidrs { listener: \"l2\""));
}

#[test]
fn r8_21_a_member_names_its_subnet_its_machine_and_its_owner() {
    let mut machine = backend("one", None);
    machine.address = Some(("10.6.0.11".to_owned(), Some("subnet".to_owned())));
    let member = members::new_member(&wish(json!({}), true), &tag(), 8132, &machine);
    assert_eq!((member.name.as_str(), member.protocol_port), ("base-kubeapi-8132-one", 8132));
    assert_eq!((member.address.as_str(), member.subnet_id.as_deref()), ("10.6.0.11", Some("subnet")));
    assert_eq!(member.tags, ["capstan-u", "machine-uid-one"]);
}

#[test]
fn r8_22_a_member_at_the_address_of_a_machine_is_removed_if_it_is_ours_and_named_otherwise() {
    let wish = wish(json!({}), true);
    let machine = || vec![backend("new", Some("10.6.0.11"))];
    let old = member("old", "10.6.0.11");
    assert!(part_step(&wish, view(vec![old.clone()], machine())).starts_with("RemoveMember"));
    let foreign = Member { tags: Vec::new(), ..old };
    let step = part_step(&wish, view(vec![foreign], machine()));
    assert!(step.starts_with("Wait { reason: \"LoadBalancerMemberError\""), "{step}");
    assert!(step.contains("id-old") && step.contains("10.6.0.11:6443 of new"), "{step}");
}

#[test]
fn r8_26_without_a_floating_ip_the_endpoint_is_the_address_of_the_load_balancer() {
    let balancing = view(Vec::new(), Vec::new());
    let mut observed = Observed { balancing, ..Observed::default() };
    assert_eq!(observed.balanced_host(&wish(json!({}), false)).as_deref(), Some("10.6.0.5"));
    assert_eq!(observed.balanced_host(&wish(json!({}), true)), None, "not before the floating IP is known");
    let ip = FloatingIp { address: "203.0.113.9".to_owned(), ..FloatingIp::default() };
    observed.floating_ip = Some(ip);
    assert_eq!(observed.balanced_host(&wish(json!({}), true)).as_deref(), Some("203.0.113.9"));
}

#[test]
fn r16_2_the_tags_of_a_load_balancer_follow_the_spec() {
    let mut observed = Observed { balancing: view(Vec::new(), Vec::new()), ..Observed::default() };
    let own = tag().tags(Some(&["blue".to_owned()]));
    assert_eq!(decide::tags(&own, &tag(), &observed), None, "an Octavia without tags");
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<String>>();
    observed.balancing.balancer.as_mut().unwrap().tags = tags(&["capstan-u", "old", "theirs"]);
    observed.applied_tags = ["old".to_owned()].into();
    let expected = tags(&["capstan-u", "theirs", "blue"]);
    let expected = decide::Step::SetTags { id: "lb".to_owned(), tags: expected };
    assert_eq!(decide::tags(&own, &tag(), &observed), Some(expected));
}
