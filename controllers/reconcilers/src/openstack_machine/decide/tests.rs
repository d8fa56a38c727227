//! Tests of the decision: each state has its step.

use apiserver_types::OpenStackMachineSpec;
use controllers_infrastructure::FixedIp;

use super::*;

fn desired() -> Desired {
    Desired {
        name: "m1".to_owned(),
        ports: vec![ResolvedPortSpec { name: "m1-0".to_owned(), ..ResolvedPortSpec::default() }],
        region: "R".to_owned(),
        ..Desired::default()
    }
}

fn tag() -> OwnershipTag {
    let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
    object.metadata.uid = Some("u".to_owned());
    OwnershipTag::of(&object)
}

fn fixed(subnet: &str, address: &str) -> FixedIp {
    FixedIp { subnet_id: Some(subnet.to_owned()), ip_address: Some(address.to_owned()) }
}

fn server(status: &str) -> Option<Server> {
    let tags = vec!["capstan-u".to_owned()];
    Some(Server { id: "s".to_owned(), status: status.to_owned(), tags, ..Server::default() })
}

#[test]
fn each_state_has_its_step() {
    let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
    object.metadata.uid = Some("u".to_owned());
    let tag = OwnershipTag::of(&object);
    let mut journal = Journal::default();
    for (kind, name) in [(names::PORT, "m1-0"), (names::SERVER, "m1")] {
        journal.intend(kind, name);
    }
    let port = Port { id: "p".to_owned(), tags: vec![tag.text()], ..Port::default() };
    let ports: BTreeMap<_, _> = [("m1-0".to_owned(), port.clone())].into();
    let bare = Port { tags: Vec::new(), ..port };
    let base = Observed { journal, ports, ..Observed::default() };
    let known = Some("openstack://R/s".to_owned());
    let table = [
        ("nothing yet", Observed::default(), "Journal"),
        ("journalled", Observed { ports: BTreeMap::new(), ..base.clone() }, "CreatePort"),
        ("not tagged", Observed { ports: [("m1-0".to_owned(), bare)].into(), ..base.clone() }, "TagPort"),
        ("with its port", base.clone(), "CreateServer"),
        ("building", Observed { server: server("BUILD"), ..base.clone() }, "Wait(Server"),
        ("broken", Observed { server: server("ERROR"), ..base.clone() }, "DeleteBroken"),
        (
            "broken, of an id that a user wrote",
            Observed { server: server("ERROR"), provider_id: known.clone(), ..base.clone() },
            "Wait(Unavailable",
        ),
        ("built", Observed { server: server("ACTIVE"), ..base.clone() }, "SetProviderId(\"openstack://R/s"),
        (
            "complete",
            Observed { server: server("ACTIVE"), provider_id: known.clone(), ..base.clone() },
            "Nothing",
        ),
        (
            "broken later",
            Observed {
                server: server("ERROR"),
                provisioned: true,
                provider_id: known.clone(),
                ..base.clone()
            },
            "Nothing",
        ),
        (
            "powered off by an operation or a user",
            Observed {
                server: server("SHUTOFF"),
                provisioned: true,
                provider_id: known.clone(),
                ..base.clone()
            },
            "Nothing",
        ),
        (
            "powered off while it was built",
            Observed { server: server("SHUTOFF"), ..base.clone() },
            "Wait(Server",
        ),
        (
            "gone later",
            Observed { provisioned: true, provider_id: known.clone(), ..base.clone() },
            "Wait(Unavailable",
        ),
        ("id known, no server", Observed { provider_id: known.clone(), ..base.clone() }, "Wait(Unavailable"),
        ("in an operation", Observed { in_operation: true, ..base.clone() }, "Wait(Unavailable"),
        (
            "broken in an operation",
            Observed { in_operation: true, server: server("ERROR"), provider_id: known, ..base },
            "Nothing",
        ),
    ];
    for (case, observed, expected) in table {
        let step = format!("{:?}", next_step(&desired(), &tag, &observed));
        assert!(step.starts_with(expected), "{case}: {step}");
    }
}

#[test]
fn r7_1_the_floating_ip_of_the_api_goes_to_the_port_on_the_network_of_the_cluster() {
    let spec = |name: &str, network: &str| ResolvedPortSpec {
        name: name.to_owned(),
        network_id: network.to_owned(),
        ..ResolvedPortSpec::default()
    };
    let port = |name: &str| {
        let tags = vec!["capstan-u".to_owned()];
        (name.to_owned(), Port { id: format!("{name}-id"), tags, ..Port::default() })
    };
    let desired = Desired {
        ports: vec![spec("storage", "other"), spec("api", "net")],
        network: Some("net".to_owned()),
        takes_endpoint: true,
        ..desired()
    };
    let observed = Observed {
        server: server("ACTIVE"),
        provider_id: Some("openstack://R/s".to_owned()),
        ports: [port("storage"), port("api")].into(),
        endpoint_ip: Some(FloatingIp { id: "fip".to_owned(), ..FloatingIp::default() }),
        ..Observed::default()
    };
    let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
    object.metadata.uid = Some("u".to_owned());
    let tag = OwnershipTag::of(&object);
    let step = next_step(&desired, &tag, &observed);
    let free = FloatingIp { id: "fip".to_owned(), ..FloatingIp::default() };
    let take = |port: &str, from: Option<&str>| Step::TakeEndpoint {
        floating_ip: free.clone(),
        port: port.to_owned(),
        address: None,
        from: from.map(str::to_owned),
    };
    assert_eq!(step, take("api-id", None));
    let only_other = Desired { network: Some("elsewhere".to_owned()), ..desired.clone() };
    let step = next_step(&only_other, &tag, &observed);
    assert!(matches!(step, Step::TakeEndpoint { port, .. } if port == "storage-id"));
    let taken = FloatingIp { port_id: Some("api-id".to_owned()), ..FloatingIp::default() };
    let taken = Observed { endpoint_ip: Some(taken), ..observed.clone() };
    assert_eq!(next_step(&desired, &tag, &taken), Step::Nothing);
    let stopped = Observed { server: server("SHUTOFF"), provisioned: true, ..observed.clone() };
    assert_eq!(next_step(&desired, &tag, &stopped), Step::Nothing, "a stopped server takes nothing");
    let leaving = Desired { is_leaving: true, ..desired.clone() };
    assert_eq!(next_step(&leaving, &tag, &observed), Step::Nothing);
    let worker = Desired { takes_endpoint: false, ..desired };
    assert_eq!(next_step(&worker, &tag, &observed), Step::Nothing);
}

#[test]
fn r7_2_the_floating_ip_leaves_a_dead_machine_for_a_node_only() {
    let holder = FloatingIp { port_id: Some("p-dead".to_owned()), ..FloatingIp::default() };
    let port = Port {
        id: "p".to_owned(),
        tags: vec!["capstan-u".to_owned()],
        fixed_ips: vec![fixed("s1", "10.0.0.1"), fixed("s2", "10.0.0.2")],
        ..Port::default()
    };
    let observed = Observed {
        server: server("ACTIVE"),
        provider_id: Some("openstack://R/s".to_owned()),
        provisioned: true,
        ports: [("m1-0".to_owned(), port)].into(),
        endpoint_ip: Some(holder.clone()),
        endpoint_holder: Holder::Dead("server d is SHUTOFF".to_owned()),
        primary_subnet: Some("s2".to_owned()),
        ..Observed::default()
    };
    let node = Desired { takes_endpoint: true, is_node: true, ..desired() };
    let expected = Step::TakeEndpoint {
        floating_ip: holder,
        port: "p".to_owned(),
        address: Some("10.0.0.2".to_owned()),
        from: Some("server d is SHUTOFF".to_owned()),
    };
    let tag = tag();
    assert_eq!(next_step(&node, &tag, &observed), expected);
    let alive = Observed { endpoint_holder: Holder::Settled, ..observed.clone() };
    assert_eq!(next_step(&node, &tag, &alive), Step::Nothing);
    let booting = Desired { is_node: false, ..node.clone() };
    assert_eq!(next_step(&booting, &tag, &observed), Step::Nothing);
    let why = "Machine d is being deleted";
    let leaving = Observed { endpoint_holder: Holder::Leaving(why.to_owned()), ..observed };
    assert_eq!(next_step(&node, &tag, &leaving), Step::Nothing, "the holder serves, and this one does not");
    let healthy = Desired { is_api_healthy: true, ..node };
    let Step::TakeEndpoint { from, .. } = next_step(&healthy, &tag, &leaving) else { panic!("not taken") };
    assert_eq!(from.as_deref(), Some(why));
}

#[test]
fn a_port_becomes_the_parent_of_a_tagged_trunk_before_the_server_is_created() {
    let mut desired = desired();
    desired.ports[0].trunk = Some(true);
    let tag = tag();
    let mut observed = Observed::default();
    let Step::Journal(entries) = next_step(&desired, &tag, &observed) else { panic!("no journal") };
    assert!(entries.contains(&(names::TRUNK, "m1-0".to_owned())), "{entries:?}");
    for (kind, name) in entries {
        observed.journal.intend(kind, &name);
    }
    let port = Port { id: "p".to_owned(), tags: vec![tag.text()], ..Port::default() };
    observed.ports.insert("m1-0".to_owned(), port);
    let expected = Step::CreateTrunk { name: "m1-0".to_owned(), port: "p".to_owned() };
    assert_eq!(next_step(&desired, &tag, &observed), expected);
    let trunk = Trunk { id: "t".to_owned(), ..Trunk::default() };
    observed.trunks.insert("m1-0".to_owned(), trunk);
    let step = next_step(&desired, &tag, &observed);
    assert!(matches!(&step, Step::TagTrunk { change, .. } if change.added == [tag.text()]), "{step:?}");
    observed.trunks.get_mut("m1-0").unwrap().tags = vec![tag.text()];
    assert_eq!(next_step(&desired, &tag, &observed), Step::CreateServer);
}

#[test]
fn r10_2_a_leftover_volume_of_another_size_is_created_again() {
    let wish = VolumeWish {
        name: "m1-root".to_owned(),
        size_gib: 20,
        kind: None,
        zone: None,
        root: true,
        tag: "root".to_owned(),
    };
    let desired = Desired { volumes: vec![wish], ..desired() };
    let mut observed = Observed::default();
    for (kind, name) in [(names::VOLUME, "m1-root"), (names::PORT, "m1-0"), (names::SERVER, "m1")] {
        observed.journal.intend(kind, name);
    }
    let volume =
        Volume { id: "v".to_owned(), status: "available".to_owned(), size_gib: 10, ..Volume::default() };
    observed.volumes.insert("m1-root".to_owned(), volume);
    let step = next_step(&desired, &tag(), &observed);
    assert!(
        matches!(&step, Step::DeleteBrokenVolume { status, .. } if status.contains("10 GiB instead of 20"))
    );
}

#[test]
fn a_server_gets_the_tags_that_it_lacks_and_keeps_those_of_other_tools() {
    let observed = |tags: &[&str]| {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let server = Server { id: "s".to_owned(), status: "ACTIVE".to_owned(), tags, ..Server::default() };
        let provider_id = Some("openstack://R/s".to_owned());
        Observed { server: Some(server), provider_id, provisioned: true, ..Observed::default() }
    };
    let desired = Desired { server_tags: vec!["capstan-u".to_owned(), "blue".to_owned()], ..desired() };
    let step = |tags: &[&str]| next_step(&desired, &tag(), &observed(tags));
    let change = TagChange { added: vec!["blue".to_owned()], removed: Vec::new() };
    assert_eq!(step(&["capstan-u", "other"]), Step::TagServer { id: "s".to_owned(), change });
    assert_eq!(step(&["capstan-u", "blue"]), Step::Nothing);
    assert_eq!(step(&["other"]), Step::Nothing, "a server of another owner, or one that Nova cannot read");
}

/// The restored object may be older than the time in which the server worked.
#[test]
fn hv_35_a_server_in_error_stays_for_a_while_after_a_restore() {
    let why = "the objects were restored".to_owned();
    let mut observed = Observed { server: server("ERROR"), ..Observed::default() };
    observed.after_restore = Some(why.clone());
    assert_eq!(next_step(&desired(), &tag(), &observed), Step::Wait(Waiting::Restored(why)));
    observed.after_restore = None;
    assert!(matches!(next_step(&desired(), &tag(), &observed), Step::DeleteBroken { id, .. } if id == "s"));
}

#[test]
fn only_a_server_of_capstan_that_never_worked_is_a_failed_build() {
    let failed = Observed { server: server("ERROR"), ..Observed::default() };
    let foreign = Server { status: "ERROR".to_owned(), ..Server::default() };
    let table = [
        ("failed", failed.clone(), true),
        ("active", Observed { server: server("ACTIVE"), ..Observed::default() }, false),
        ("complete", Observed { provisioned: true, ..failed.clone() }, false),
        ("in an operation", Observed { in_operation: true, ..failed.clone() }, false),
        ("with an id", Observed { provider_id: Some("openstack://R/s".to_owned()), ..failed }, false),
        ("of another owner", Observed { server: Some(foreign), ..Observed::default() }, false),
        ("none", Observed::default(), false),
    ];
    for (case, observed, expected) in table {
        assert_eq!(is_failed_build(&tag(), &observed), expected, "{case}");
    }
}

#[test]
fn r10_1_a_server_that_failed_for_the_third_time_stays() {
    let failed = |count| {
        let failed_builds = FailedBuilds { count, ..FailedBuilds::default() };
        let observed = Observed { server: server("ERROR"), failed_builds, ..Observed::default() };
        format!("{:?}", next_step(&desired(), &tag(), &observed))
    };
    assert!(failed(1).starts_with("DeleteBroken"), "{}", failed(1));
    assert_eq!(failed(2), "Wait(Unavailable)");
}
