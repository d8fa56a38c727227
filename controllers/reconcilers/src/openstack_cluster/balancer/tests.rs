//! Tests of the decisions on a load balancer.

mod parts;

use apiserver_types::{ApiEndpoint, OpenStackCluster, OpenStackClusterSpec};
use controllers_infrastructure::{
    FloatingIp, HealthMonitor, Listener, LoadBalancer, Member, MonitorCheck, Network, Pool, Port, Router,
    Subnet,
};
use controllers_runtime::OwnershipTag;
use jiff::Timestamp;
use serde_json::json;

use super::super::bastion::BastionView;
use super::super::observe::Observed;
use super::repairs::Recreations;
use super::{Backend, BalancerView, BalancerWish, PoolView, allowed_cidrs, clients, decide, health, members};

#[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
fn wish(managed: serde_json::Value, floating: bool) -> BalancerWish {
    let server = json!({"managedLoadBalancer": managed, "fixedIP": "10.6.0.100"});
    let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "apiServer": server});
    let mut spec: OpenStackClusterSpec = serde_json::from_value(spec).unwrap();
    spec.control_plane_endpoint =
        Some(ApiEndpoint { host: Some("203.0.113.9".to_owned()), port: Some(6443) });
    BalancerWish::read(&spec, "base", 6443, floating).unwrap()
}

fn tag() -> OwnershipTag {
    let mut object = OpenStackCluster::new("c", OpenStackClusterSpec::default());
    object.metadata.uid = Some("u".to_owned());
    OwnershipTag::of(&object)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn balancer(status: &str) -> LoadBalancer {
    LoadBalancer {
        id: "lb".to_owned(),
        provisioning_status: status.to_owned(),
        vip_address: "10.6.0.5".to_owned(),
        vip_port_id: "vip".to_owned(),
        admin_state_up: true,
        ..LoadBalancer::default()
    }
}

fn member(machine: &str, address: &str) -> Member {
    Member {
        id: format!("id-{machine}"),
        name: format!("base-kubeapi-6443-{machine}"),
        tags: vec!["capstan-u".to_owned(), format!("machine-uid-{machine}")],
        address: address.to_owned(),
        protocol_port: 6443,
        provisioning_status: "ACTIVE".to_owned(),
        weight: 1,
        ..Member::default()
    }
}

fn backend(machine: &str, address: Option<&str>) -> Backend {
    Backend {
        machine: machine.to_owned(),
        tags: [format!("machine-uid-{machine}"), String::new()],
        ports: Vec::new(),
        address: address.map(|address| (address.to_owned(), None)),
    }
}

/// Returns a view of a complete load balancer with these members.
fn view(members: Vec<Member>, backends: Vec<Backend>) -> BalancerView {
    let pool = Pool { id: "p".to_owned(), provisioning_status: "ACTIVE".to_owned(), ..Pool::default() };
    let listener = Listener {
        id: "l".to_owned(),
        name: "base-kubeapi-6443".to_owned(),
        protocol_port: 6443,
        default_pool_id: Some("p".to_owned()),
        provisioning_status: "ACTIVE".to_owned(),
        ..Listener::default()
    };
    BalancerView {
        balancer: Some(balancer("ACTIVE")),
        listeners: vec![listener],
        pools: vec![PoolView { pool, members, monitor: None }],
        backends,
        no_monitors: true,
        now: at(10_000),
        ..BalancerView::default()
    }
}

#[test]
fn the_spec_names_ports_numbers_and_addresses() {
    let managed = json!({"additionalPorts": [8132, 6443], "monitor": {"delay": 0, "timeout": 7}});
    let read = wish(managed.clone(), true);
    assert_eq!((read.name.as_str(), read.ports.as_slice()), ("base-kubeapi", [6443, 8132].as_slice()));
    let times = &read.times;
    assert_eq!((times.delay, times.timeout, times.max_retries, times.max_retries_down), (10, 7, 5, 3));
    assert_eq!(read.floating_ip.as_deref(), Some("203.0.113.9"));
    let read = wish(managed, false);
    assert_eq!((read.floating_ip, read.address.as_deref()), (None, Some("10.6.0.100")));
}

#[test]
fn r8_20_to_r8_25_members_follow_the_machines() {
    let (wish, tag) = (wish(json!({}), true), tag());
    let one = || member("one", "10.6.0.11");
    let two = |weight| Member { weight, ..member("two", "10.6.0.12") };
    let known = |address| vec![backend("one", Some(address))];
    let foreign = Member { tags: Vec::new(), name: "theirs".to_owned(), ..member("other", "10.6.0.99") };
    let table = [
        ("absent", vec![], known("10.6.0.11"), "AddMembers"),
        ("without an address yet", vec![], vec![backend("one", None)], "Nothing"),
        ("present", vec![one()], known("10.6.0.11"), "Nothing"),
        ("present, address unknown", vec![one()], vec![backend("one", None)], "Nothing"),
        ("at another address", vec![one()], known("10.6.0.12"), "RemoveMember"),
        ("of a machine that leaves last", vec![one()], vec![], "RemoveMember"),
        ("of a machine that leaves others", vec![one(), two(1)], known("10.6.0.11"), "DrainMember"),
        (
            "of a machine that drains",
            vec![one(), Member { changed_at: at(9_995).to_string(), ..two(0) }],
            known("10.6.0.11"),
            "Wait { reason: \"LoadBalancerPending\"",
        ),
        (
            "of a machine that has drained",
            vec![one(), Member { changed_at: at(9_990).to_string(), ..two(0) }],
            known("10.6.0.11"),
            "RemoveMember",
        ),
        ("of another owner", vec![foreign], vec![], "Nothing"),
        (
            "in error",
            vec![Member { provisioning_status: "ERROR".to_owned(), ..one() }],
            known("10.6.0.11"),
            "SetAgain { part: Member { pool: \"p\", id: \"id-one\" }",
        ),
        (
            "of another owner, in error",
            vec![Member {
                provisioning_status: "ERROR".to_owned(),
                tags: Vec::new(),
                name: "theirs".to_owned(),
                ..member("x", "10.6.0.99")
            }],
            vec![],
            "Nothing",
        ),
    ];
    for (case, members, backends, expected) in table {
        let observed = Observed { balancing: view(members, backends), ..Observed::default() };
        let step = decide::parts(&wish, &tag, &observed);
        let step = step.map_or_else(|| "Nothing".to_owned(), |step| format!("{step:?}"));
        assert!(step.starts_with(expected), "{case}: {step}");
    }
}

#[test]
fn broken_parts_of_other_owners_stay() {
    let (wish, tag) = (wish(json!({}), true), tag());
    let broken = || "ERROR".to_owned();
    let step = |change: &dyn Fn(&mut BalancerView)| {
        let mut view = view(vec![member("one", "10.6.0.11")], vec![backend("one", Some("10.6.0.11"))]);
        change(&mut view);
        let observed = Observed { balancing: view, ..Observed::default() };
        decide::parts(&wish, &tag, &observed).map_or_else(|| "Nothing".to_owned(), |step| format!("{step:?}"))
    };
    let listener = |port, tags| Listener {
        id: "other".to_owned(),
        protocol_port: port,
        provisioning_status: broken(),
        tags,
        ..Listener::default()
    };
    let ours = || vec!["capstan-u".to_owned()];
    let pool = |tags| PoolView {
        pool: Pool { id: "other".to_owned(), provisioning_status: broken(), tags, ..Pool::default() },
        members: Vec::new(),
        monitor: None,
    };
    assert_eq!(step(&|view| view.listeners.push(listener(9000, Vec::new()))), "Nothing");
    let again = "SetAgain { part: Listener(\"other\")";
    assert!(step(&|view| view.listeners.push(listener(9000, ours()))).starts_with(again));
    assert_eq!(step(&|view| view.pools.push(pool(Vec::new()))), "Nothing");
    assert!(step(&|view| view.pools.push(pool(ours()))).starts_with("SetAgain { part: Pool(\"other\")"));
    let needed = step(&|view| view.pools[0].pool.provisioning_status = broken());
    assert!(needed.starts_with("SetAgain { part: Pool(\"p\")"), "a port of the spec needs it: {needed}");
}

/// A part that Octavia could not configure was deleted at once, and again without end.
#[test]
fn a_part_in_error_is_set_again_then_deleted_and_left_alone_after_three_deletions() {
    let (wish, tag) = (wish(json!({"additionalPorts": [8132]}), true), tag());
    let mut view = view(Vec::new(), vec![backend("one", Some("10.6.0.11"))]);
    let extra = Listener {
        id: "l2".to_owned(),
        name: "base-kubeapi-8132".to_owned(),
        protocol_port: 8132,
        provisioning_status: "ERROR".to_owned(),
        ..Listener::default()
    };
    view.listeners.push(extra);
    let decided = |view: &BalancerView| {
        let observed = Observed { balancing: view.clone(), ..Observed::default() };
        decide::parts(&wish, &tag, &observed).unwrap()
    };
    for _ in 0..3 {
        let decide::Step::SetAgain { repairs, .. } = decided(&view) else { panic!("{:?}", decided(&view)) };
        view.repairs = repairs;
        let decide::Step::RemoveBroken { repairs, .. } = decided(&view) else {
            panic!("{:?}", decided(&view))
        };
        view.repairs = repairs;
        // Its successor has another id.
        view.listeners[1].id.push('x');
    }
    let decide::Step::SetAgain { repairs, .. } = decided(&view) else { panic!("{:?}", decided(&view)) };
    view.repairs = repairs;
    let step = decided(&view);
    assert!(
        matches!(&step, decide::Step::AddMembers { port: 6443, .. }),
        "the other port is served nevertheless: {step:?}"
    );
    let message = health::given_up(&wish, &tag, &view).unwrap();
    let expected = "in ERROR, also after it was created again three times within an hour: listener/base-kubeapi-8132 \
        (l2xxx)";
    assert!(message.starts_with(expected), "{message}");
    view.now = at(10_000 + 3_600);
    assert!(matches!(decided(&view), decide::Step::RemoveBroken { .. }));
    assert_eq!(health::given_up(&wish, &tag, &view), None);
}

#[test]
fn r8_24_the_removal_of_the_last_member_is_noticed() {
    let (one, two) = (member("one", "10.6.0.11"), member("two", "10.6.0.12"));
    let last = view(vec![one.clone()], vec![]);
    let pool = last.pools[0].pool.id.clone();
    assert!(last.is_last_member(&pool, &one.id));
    let others = Member { id: "two".to_owned(), ..two };
    assert!(!view(vec![one.clone(), others], vec![]).is_last_member(&pool, &one.id));
    assert!(!last.is_last_member("another", &one.id));
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn a_load_balancer_in_error_is_healed_without_another_address() {
    let endpoint = Some(("203.0.113.9".to_owned(), 6443));
    let broken = BalancerView { balancer: Some(balancer("ERROR")), ..view(Vec::new(), Vec::new()) };
    let tried = BalancerView { failed_over: Some(at(9_900)), ..broken.clone() };
    let pending = |since| {
        let balancer = LoadBalancer { changed_at: at(since).to_string(), ..balancer("PENDING_UPDATE") };
        BalancerView { balancer: Some(balancer), ..view(vec![], vec![]) }
    };
    let replaced_at = |seconds| Recreations::default().after(at(seconds));
    let unproven = |seconds| BalancerView { recreations: replaced_at(seconds), ..broken.clone() };
    let silent = |since| BalancerView { silent_since: Some(at(since)), ..tried.clone() };
    let table = [
        ("never worked", broken.clone(), None, "Replace { id: \"lb\", why: \"Octavia could not"),
        ("worked", broken.clone(), endpoint.clone(), "FailOver"),
        ("failed over just now", tried.clone(), endpoint.clone(), "Wait { reason: \"LoadBalancerError\""),
        (
            "failed over an hour ago",
            BalancerView { failed_over: Some(at(6_400)), ..broken.clone() },
            endpoint.clone(),
            "FailOver",
        ),
        (
            "still forwards",
            BalancerView { answers: true, ..tried.clone() },
            endpoint.clone(),
            "Wait { reason: \"LoadBalancerDegraded\"",
        ),
        ("silent for a minute", silent(9_940), endpoint.clone(), "Wait"),
        ("silent for six minutes", silent(9_640), endpoint.clone(), "Replace"),
        (
            "requested",
            BalancerView { recreate: Some("1".to_owned()), answers: true, ..tried.clone() },
            endpoint.clone(),
            "Replace",
        ),
        (
            "silent, and replaced a quarter of an hour ago",
            BalancerView { recreations: replaced_at(9_100).proven(), ..silent(9_640) },
            endpoint.clone(),
            "Wait { reason: \"LoadBalancerError\"",
        ),
        (
            "silent, and replaced half an hour ago",
            BalancerView { recreations: replaced_at(8_200).proven(), ..silent(9_640) },
            endpoint.clone(),
            "Replace",
        ),
        (
            "requested, and replaced a quarter of an hour ago",
            BalancerView {
                recreate: Some("1".to_owned()),
                recreations: replaced_at(9_100).proven(),
                ..tried.clone()
            },
            endpoint.clone(),
            "Wait",
        ),
        ("never worked, half a minute ago", unproven(9_970), None, "Wait { reason: \"LoadBalancerError\""),
        ("never worked, a minute ago", unproven(9_940), None, "Replace"),
        ("the one in place of another, half a minute ago", unproven(9_970), endpoint.clone(), "Wait"),
        (
            "still there, half a minute after its replacement was noted",
            BalancerView { replaced: Some("lb".to_owned()), ..unproven(9_970) },
            endpoint.clone(),
            "Replace",
        ),
        ("the one in place of another, a minute ago", unproven(9_940), endpoint.clone(), "Replace"),
        (
            "the one in place of another, which forwards",
            BalancerView { answers: true, ..unproven(9_940) },
            endpoint.clone(),
            "FailOver",
        ),
        (
            "ACTIVE in place of another",
            BalancerView { balancer: Some(balancer("ACTIVE")), ..unproven(9_940) },
            endpoint.clone(),
            "NoteActive",
        ),
        ("pending", pending(9_940), endpoint.clone(), "Wait { reason: \"LoadBalancerPending\""),
        ("pending for half an hour", pending(8_200), endpoint, "Wait { reason: \"LoadBalancerStuck\""),
    ];
    for (case, balancing, endpoint, expected) in table {
        let observed = Observed { balancing, endpoint, ..Observed::default() };
        let step = format!("{:?}", decide::state(&observed).unwrap());
        assert!(step.starts_with(expected), "{case}: {step}");
    }
}

#[test]
fn a_floating_ip_in_use_by_another_owner_is_not_taken_away() {
    let (wish, tag) = (wish(json!({}), true), tag());
    let step = |port: Option<&str>, tags: Vec<String>| {
        let ip = FloatingIp { port_id: port.map(str::to_owned), tags, ..FloatingIp::default() };
        let balancing = view(Vec::new(), Vec::new());
        let observed = Observed { floating_ip: Some(ip), balancing, ..Observed::default() };
        decide::floating_ip(&wish, &tag, &observed).map(|step| format!("{step:?}"))
    };
    assert!(step(None, Vec::new()).unwrap().starts_with("Associate"));
    assert_eq!(step(Some("vip"), Vec::new()), None);
    assert!(step(Some("other"), Vec::new()).unwrap().contains("FloatingIPInUse"));
    assert!(step(Some("other"), vec![tag.text()]).unwrap().starts_with("Associate"));
}

#[test]
fn r8_15_to_r8_19_allowed_cidrs_have_the_addresses_of_the_cluster_and_one_family() {
    let managed = json!({"allowedCIDRs": ["192.0.2.7", "2001:db8::/64", "nonsense", "192.0.2.7/32"]});
    let subnet = Subnet { cidr: "10.6.0.0/24".to_owned(), ..Subnet::default() };
    let router = Router { external_ips: vec!["172.24.0.9".to_owned()], ..Router::default() };
    let observed = Observed {
        subnets: vec![subnet],
        router: Some(router),
        balancing: view(Vec::new(), Vec::new()),
        ..Observed::default()
    };
    let wanted = wish(managed, true);
    let expected = ["10.6.0.0/24", "172.24.0.9/32", "192.0.2.7/32"];
    assert_eq!(allowed_cidrs(&wanted, &observed), expected);
    let warnings = clients::warnings(&wanted, &observed);
    assert_eq!(warnings.len(), 2, "R8.15: one of another version and one that is none: {warnings:?}");
    let mut own = observed.clone();
    for (address, expected) in [("198.51.100.1", 3), ("10.6.0.7", 2)] {
        own.balancing.egress = Some(address.parse().unwrap());
        let warnings = clients::warnings(&wanted, &own);
        assert_eq!(warnings.len(), expected, "R8.17: {warnings:?}");
    }
    let bastion =
        BastionView { port: Some(("p".to_owned(), Some("10.6.0.9".to_owned()))), ..Default::default() };
    let with_bastion = Observed { bastion, ..observed.clone() };
    assert!(allowed_cidrs(&wanted, &with_bastion).contains(&"10.6.0.9/32".to_owned()), "R8.19");
    let mut passing = observed.clone();
    passing.balancing.balancer.as_mut().unwrap().provider = "ovn".to_owned();
    assert_eq!(clients::warnings(&wanted, &passing)[0].0, "AllowedCIDRsUnsupported", "R8.16");
    assert!(allowed_cidrs(&wish(json!({}), true), &observed).is_empty());
}

#[test]
fn r8_15_a_list_without_a_fitting_client_neither_opens_the_load_balancer_nor_closes_it() {
    let tag = tag();
    for entries in [json!(["2001:db8::/64"]), json!(["nonsense"])] {
        let wanted = wish(json!({"allowedCIDRs": entries}), true);
        let mut without = Observed { balancing: view(Vec::new(), Vec::new()), ..Observed::default() };
        without.balancing.listeners.clear();
        let step = decide::first_listener(&wanted, &tag, &without);
        let Some(decide::Step::Wait { reason, message }) = step else { panic!("{step:?}") };
        assert_eq!(reason, "APIEndpointConfigFailed");
        assert!(message.contains("allowedCIDRs: none of the entries is a CIDR of IPv4"), "{message}");
        let mut ovn = without.clone();
        ovn.balancing.balancer.as_mut().unwrap().provider = "ovn".to_owned();
        ovn.subnets = vec![Subnet { cidr: "10.6.0.0/24".to_owned(), ..Subnet::default() }];
        assert!(!allowed_cidrs(&wanted, &ovn).is_empty(), "an empty list would be any client");
    }
    let mut with = Observed { balancing: view(Vec::new(), Vec::new()), ..Observed::default() };
    for listener in &mut with.balancing.listeners {
        listener.allowed_cidrs = vec!["192.0.2.0/24".to_owned()];
    }
    let wanted = wish(json!({"allowedCIDRs": ["2001:db8::/64"]}), true);
    let step = decide::parts(&wanted, &tag, &with);
    assert!(matches!(step, Some(decide::Step::Wait { .. })), "the listener keeps its list: {step:?}");
}
