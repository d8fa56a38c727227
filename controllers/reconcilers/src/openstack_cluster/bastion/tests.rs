//! Tests of the decisions on a bastion.

use apiserver_types::{OpenStackCluster, OpenStackServer, OpenStackServerStatus};
use controllers_infrastructure::{FloatingIp, Network, SecurityGroup, Subnet};
use controllers_runtime::{Journal, OwnershipTag};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::desired::Desired;
use super::super::observe::Observed;
use super::super::rules::Role;
use super::decide::{description, next_step};
use super::*;

fn cluster(bastion: &Value) -> OpenStackCluster {
    let spec = json!({
        "identityRef": {"name": "s", "cloudName": "c"}, "managedSecurityGroups": {},
        "managedSubnets": [{"cidr": "10.6.0.0/24"}], "tags": ["team"], "bastion": bastion,
    });
    let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
    object.metadata.namespace = Some("team".to_owned());
    object.metadata.uid = Some("u".to_owned());
    object
}

fn plain() -> Value {
    json!({"spec": {"flavor": {"id": "f"}, "image": {"id": "i"}, "sshKeyName": "key", "tags": ["jump"]}})
}

/// Observed cluster with everything but a bastion.
fn observed() -> Observed {
    let group = SecurityGroup { id: "ba".to_owned(), ..SecurityGroup::default() };
    Observed {
        network: Some(Network { id: "net".to_owned(), ..Network::default() }),
        external: Some(Network { id: "public".to_owned(), ..Network::default() }),
        subnets: vec![Subnet { id: "sub".to_owned(), ..Subnet::default() }],
        groups: [(Role::Bastion, group)].into(),
        ..Observed::default()
    }
}

/// Returns the view of a bastion in this state, made from this spec.
fn view(object: &OpenStackCluster, state: &str) -> BastionView {
    let wish = BastionWish::read(&object.spec, "c", true).unwrap();
    let mut server = OpenStackServer::new("c-bastion", wish.server("net", Some("ba")));
    server.metadata.annotations = Some([(HASH.to_owned(), wish.hash)].into());
    server.status = Some(OpenStackServerStatus {
        ready: state == "ACTIVE",
        instance_state: Some(state.to_owned()),
        ..OpenStackServerStatus::default()
    });
    let port = Some(("port".to_owned(), Some("10.6.0.9".to_owned()))).filter(|_| state == "ACTIVE");
    BastionView { server: Some(server), port, now: at(10_000), ..BastionView::default() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn ip(port: Option<&str>, description: &str) -> Option<FloatingIp> {
    Some(FloatingIp {
        id: "ip".to_owned(),
        port_id: port.map(str::to_owned),
        description: description.to_owned(),
        ..FloatingIp::default()
    })
}

fn step(object: &OpenStackCluster, observed: &Observed) -> String {
    format!("{:?}", next_step(&Desired::read(object, "c"), &OwnershipTag::of(object), observed))
}

#[test]
fn r9_4_a_bastion_is_created_with_an_address_and_waits_for_what_it_needs() {
    let object = cluster(&plain());
    let active = view(&object, "ACTIVE");
    let with = |bastion: BastionView| Observed { bastion, ..observed() };
    let mut leaving = active.clone();
    leaving.server.as_mut().unwrap().metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    let ours = description(&OwnershipTag::of(&object));
    let failed = |count: usize| BastionView { replaced: vec![at(9_000); count], ..view(&object, "ERROR") };
    let table = [
        ("no network", Observed { network: None, ..observed() }, "Wait { reason: \"WaitingForNetwork\""),
        ("no group", Observed { groups: [].into(), ..observed() }, "Wait { reason: \"WaitingForNetwork\""),
        ("absent", observed(), "Create"),
        ("leaving", with(leaving), "Wait { reason: \"BastionDeleting\""),
        (
            "of another owner",
            with(BastionView { foreign: true, ..active.clone() }),
            "Wait { reason: \"NameTaken\"",
        ),
        ("building", with(view(&object, "BUILD")), "Wait { reason: \"InstanceNotReady\""),
        ("in error", with(failed(2)), "Delete { why: \"its server is in ERROR\", failed: true }"),
        ("in error again and again", with(failed(3)), "Wait { reason: \"InstanceStateError\""),
        ("without an address", with(active.clone()), "CreateFloatingIp { external: \"public\""),
        (
            "with an unused address",
            with(BastionView { floating_ip: ip(None, ""), ..active.clone() }),
            "Associate { floating_ip: \"ip\", port: \"port\" }",
        ),
        (
            "with the address of the last server",
            with(BastionView { floating_ip: ip(Some("old"), &ours), ..active.clone() }),
            "Associate",
        ),
        (
            "with an address in use",
            with(BastionView { floating_ip: ip(Some("other"), ""), ..active.clone() }),
            "Wait { reason: \"FloatingIPError\"",
        ),
        ("complete", with(BastionView { floating_ip: ip(Some("port"), &ours), ..active }), "Nothing"),
    ];
    for (case, observed, expected) in table {
        let step = step(&object, &observed);
        assert!(step.starts_with(expected), "{case}: {step}");
    }
}

#[test]
fn r9_3_only_a_change_of_the_server_itself_rebuilds_a_bastion() {
    let object = cluster(&plain());
    let bastion = BastionView { floating_ip: ip(Some("port"), ""), ..view(&object, "ACTIVE") };
    let observed = Observed { bastion, ..observed() };
    let changed = |field: &str, value: Value| {
        let mut bastion = plain();
        bastion["spec"][field] = value;
        step(&cluster(&bastion), &observed)
    };
    assert_eq!(step(&object, &observed), "Nothing");
    assert!(changed("flavor", json!({"id": "larger"})).starts_with("Delete"));
    assert!(changed("sshKeyName", json!("other")).starts_with("Delete"));
    assert_eq!(changed("tags", json!(["other"])), "SetTags");
    assert_eq!(changed("identityRef", json!({"name": "t", "cloudName": "c"})), "SetIdentity");
    let elsewhere = json!({"name": "t", "cloudName": "c", "region": "r"});
    assert!(changed("identityRef", elsewhere).starts_with("Delete"));
    let mut zoned = plain();
    zoned["availabilityZone"] = json!("az2");
    assert!(step(&cluster(&zoned), &observed).starts_with("Delete"));
}

#[test]
fn r6_8_a_disabled_bastion_leaves_nothing() {
    let mut bastion = plain();
    bastion["enabled"] = json!(false);
    let object = cluster(&bastion);
    let (tag, desired) = (OwnershipTag::of(&object), Desired::read(&object, "c"));
    let mut left = Observed { groups: [].into(), ..observed() };
    left.bastion = view(&cluster(&plain()), "ACTIVE");
    left.bastion.floating_ip = ip(Some("port"), &description(&tag));
    left.bastion.retired_group = Some(SecurityGroup::default());
    left.journal = Journal::default();
    left.journal.intend("floating-ip", FLOATING_IP);
    left.journal.intend("security-group", &desired.bastion_group);

    assert!(step(&object, &left).starts_with("Release"));
    left.bastion.floating_ip = ip(Some("port"), "another owner's");
    assert!(step(&object, &left).starts_with("Delete"));
    left.bastion.server = None;
    assert!(step(&object, &left).starts_with("Strike { kind: \"floating-ip\""));
    left.journal.strike("floating-ip", FLOATING_IP);
    assert!(step(&object, &left).starts_with("RemoveGroup"));
    left.bastion.retired_group = None;
    assert!(step(&object, &left).starts_with("Strike { kind: \"security-group\""));
    left.journal.strike("security-group", &desired.bastion_group);
    assert_eq!(step(&object, &left), "Nothing");
}

#[test]
fn r9_2_the_server_of_a_bastion_has_what_its_cluster_has_and_no_user_data() {
    let mut bastion = plain();
    bastion["spec"]["ports"] = json!([
        {}, {"network": {"id": "other"}, "securityGroups": [{"id": "own"}]}, {"enablePortSecurity": false}]);
    bastion["spec"]["securityGroups"] = json!([{"id": "more"}]);
    let mut object = cluster(&bastion);
    object.spec.primary_subnet = Some(serde_json::from_value(json!({"id": "sub"})).unwrap());
    let wish = BastionWish::read(&object.spec, "c", false).unwrap();
    assert_eq!(wish.floating, None);
    let spec = serde_json::to_value(wish.server("net", Some("ba"))).unwrap();
    let cluster_port = json!({
        "network": {"id": "net"}, "fixedIPs": [{"subnet": {"id": "sub"}}],
        "securityGroups": [{"id": "ba"}, {"id": "more"}]});
    assert_eq!(spec["ports"][0], cluster_port);
    assert_eq!(spec["ports"][1]["securityGroups"], json!([{"id": "own"}, {"id": "more"}]));
    assert_eq!(spec["ports"][2].get("securityGroups"), None);
    assert_eq!(spec["tags"], json!(["jump", "team"]));
    assert_eq!(spec.get("userDataRef"), None, "R9.2");
    assert_eq!((&spec["flavorID"], &spec["sshKeyName"]), (&json!("f"), &json!("key")));
    assert_eq!(view(&cluster(&plain()), "ACTIVE").server.unwrap().name_any(), "c-bastion");
}
