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
    let mut member = view(Vec::new(), Vec::new());
    member.listeners[0].idle_timeout = Some(600_000);
    member.listeners[0].member_timeout = Some(50_000);
    assert_eq!(part_step(&wish, member.clone()), "SetIdleTimeout(\"l\")", "that of members alone");
    member.limits.lacks_idle_timeouts = true;
    assert_eq!(part_step(&wish, member), "Nothing", "an Octavia before version 2.1");
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
    let second = Listener {
        id: "l2".to_owned(),
        name: "base-kubeapi-8132".to_owned(),
        protocol_port: 8132,
        ..two.listeners[0].clone()
    };
    two.listeners.push(second);
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
    let foreign = Member { tags: Vec::new(), name: "theirs".to_owned(), ..old.clone() };
    let step = part_step(&wish, view(vec![foreign], machine()));
    assert!(step.starts_with("Wait { reason: \"LoadBalancerMemberError\""), "{step}");
    let untagged = part_step(&wish, view(vec![Member { tags: Vec::new(), ..old }], machine()));
    assert!(untagged.starts_with("RemoveMember"), "without tags the name tells that it is ours: {untagged}");
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

/// A listener that another owner had created on a port of the cluster was taken for ours, and so was its pool.
#[test]
fn r8_5_a_listener_of_another_owner_on_a_port_of_the_cluster_is_named_and_not_changed() {
    let machines = || vec![backend("one", Some("10.6.0.11"))];
    let foreign = |balancing: &mut BalancerView, index: usize| {
        let listener = &mut balancing.listeners[index];
        listener.name = "web".to_owned();
        listener.allowed_cidrs = vec!["192.0.2.0/24".to_owned()];
        listener.provisioning_status = "ERROR".to_owned();
    };
    let mut first = view(Vec::new(), machines());
    foreign(&mut first, 0);
    let observed = Observed { balancing: first.clone(), ..Observed::default() };
    let step = decide::first_listener(&wish(json!({}), true), &tag(), &observed);
    let Some(decide::Step::Wait { reason: "NameTaken", message }) = step else { panic!("{step:?}") };
    let expected =
        "listener web (l) of load balancer base-kubeapi belongs to another owner and has port 6443";
    assert!(message.starts_with(expected), "{message}");

    let two_ports = wish(json!({"additionalPorts": [8132]}), true);
    let mut second = view(Vec::new(), machines());
    let listener = Listener {
        id: "l2".to_owned(),
        protocol_port: 8132,
        default_pool_id: Some("p2".to_owned()),
        ..Listener::default()
    };
    second.listeners.push(listener);
    foreign(&mut second, 1);
    let pool = Pool { id: "p2".to_owned(), provisioning_status: "ERROR".to_owned(), ..Pool::default() };
    second.pools.push(PoolView { pool, members: Vec::new(), monitor: None });
    let step = part_step(&two_ports, second.clone());
    assert!(step.starts_with("AddMembers") && step.contains("6443"), "the other port is served: {step}");
    second.pools[0].members = vec![member("one", "10.6.0.11")];
    let step = part_step(&two_ports, second.clone());
    assert!(step.starts_with("Wait { reason: \"NameTaken\""), "{step}");
    second.listeners[1].protocol = "UDP".to_owned();
    let step = part_step(&two_ports, second);
    assert!(step.starts_with("CreateListener"), "UDP takes no port of TCP: {step}");
}

#[test]
fn r8_5_the_algorithm_of_our_pool_follows_the_provider() {
    let of = |algorithm: &str, provider: &str, name: &str| {
        let mut balancing = view(Vec::new(), Vec::new());
        let pool = &mut balancing.pools[0].pool;
        (pool.algorithm, pool.name) = (algorithm.to_owned(), name.to_owned());
        balancing.balancer.as_mut().unwrap().provider = provider.to_owned();
        part_step(&wish(json!({}), true), balancing)
    };
    let ours = "base-kubeapi-6443";
    assert_eq!(of("ROUND_ROBIN", "amphora", ours), "Nothing");
    let changed = "SetAlgorithm { pool: \"p\", algorithm: \"ROUND_ROBIN\" }";
    assert_eq!(of("LEAST_CONNECTIONS", "amphora", ours), changed);
    assert_eq!(of("SOURCE_IP_PORT", "ovn", ours), "Nothing");
    assert_eq!(of("", "amphora", ours), "Nothing", "a cloud that does not show it");
    assert_eq!(of("LEAST_CONNECTIONS", "amphora", "theirs"), "Nothing");
}

/// An Octavia without tags showed no member as ours, so that members of machines that were gone stayed.
#[test]
fn parts_are_known_by_their_names_in_an_octavia_without_tags() {
    let untagged = |machine: &str| Member { tags: Vec::new(), ..member(machine, "10.6.0.11") };
    let step = |members: Vec<Member>, backends| {
        let mut balancing = view(members, backends);
        balancing.limits.lacks_tags = true;
        part_step(&wish(json!({}), true), balancing)
    };
    assert_eq!(step(vec![untagged("one")], vec![backend("one", Some("10.6.0.11"))]), "Nothing");
    assert!(step(vec![untagged("one")], Vec::new()).starts_with("RemoveMember"));
    let other = Member { name: "web-80".to_owned(), ..untagged("one") };
    assert_eq!(step(vec![other], Vec::new()), "Nothing");
}

#[test]
fn parts_of_other_owners_and_their_tags_are_named_before_the_load_balancer_goes() {
    let foreign = Member { tags: Vec::new(), name: "theirs".to_owned(), ..member("x", "10.6.0.99") };
    let mut balancing = view(vec![member("one", "10.6.0.11"), foreign], Vec::new());
    balancing.listeners.push(Listener {
        id: "l2".to_owned(),
        name: "web".to_owned(),
        protocol_port: 80,
        ..Listener::default()
    });
    let titles = super::super::foreign_parts::titles(&wish(json!({}), true), &tag(), &balancing);
    let expected = [
        "listener web (l2, port 80) of another owner on load balancer base-kubeapi",
        "member theirs (id-x, 10.6.0.99:6443) of another owner on load balancer base-kubeapi",
    ];
    assert_eq!(titles, expected);
    let held = ["capstan-u", "blue", "kube_service_kubernetes_default_web", "capstan-other"];
    let held: Vec<String> = held.iter().map(|tag| (*tag).to_owned()).collect();
    assert_eq!(super::super::foreign_parts::other_tags(&tag(), &[], &held), held[2..]);
    let own = ["capstan-other".to_owned()];
    assert_eq!(
        super::super::foreign_parts::other_tags(&tag(), &own, &held),
        held[2..3],
        "the user's own tag"
    );
}

/// The warning came only with a later change of the list, because the endpoint was not known at the first listener.
#[test]
fn r8_17_the_way_to_the_api_is_known_before_the_first_listener() {
    let target = super::super::observe::target;
    let mut observed = Observed { balancing: view(Vec::new(), Vec::new()), ..Observed::default() };
    let (inside, floating) = (wish(json!({}), false), wish(json!({}), true));
    assert_eq!(target(&inside, &observed), Some(("10.6.0.5".to_owned(), 6443)));
    assert_eq!(target(&floating, &observed), None, "its floating IP is not known yet");
    observed.endpoint = Some(("203.0.113.9".to_owned(), 443));
    assert_eq!(target(&floating, &observed), Some(("203.0.113.9".to_owned(), 443)));
}
