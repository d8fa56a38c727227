//! Initial state of the cloud: the projects, images, flavors and networks of the lab.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::address::Network;
use crate::keystone::{ApplicationCredential, Project, User};
use crate::neutron::{ResourceKind, security_groups};
use crate::nova::model::{Flavor, KeyPair};
use crate::object::{new_id, object, seconds, text};
use crate::state::CloudState;

/// The projects, each with a user of its name, whose password is its name too.
const PROJECTS: [&str; 4] = ["admin", "demo", "demo2", "tiny"];

/// Id of the external network. It is the same in each cloud, so that a manifest can contain it.
const PUBLIC_NETWORK: &str = "11111111-2222-4333-8444-555555555555";

/// Limits of all projects except `tiny`.
const QUOTAS: [(&str, i64); 15] = [
    ("cores", 8000),
    ("instances", 2000),
    ("ram", 16_384_000),
    ("key_pairs", 200),
    ("metadata_items", 128),
    ("server_groups", 200),
    ("server_group_members", 500),
    ("network", 500),
    ("subnet", 500),
    ("port", 20_000),
    ("router", 200),
    ("floatingip", 500),
    ("security_group", 1000),
    ("security_group_rule", 10_000),
    ("volumes", 500),
];

/// Limits that a cluster of one small machine already reaches. The network, subnet and router of the project
/// itself are added to the lab's limits.
const TINY_QUOTAS: [(&str, i64); 14] = [
    ("cores", 2),
    ("instances", 2),
    ("ram", 4096),
    ("key_pairs", 2),
    ("server_groups", 1),
    ("network", 2),
    ("subnet", 2),
    ("port", 4),
    ("router", 1),
    ("floatingip", 1),
    ("security_group", 2),
    ("security_group_rule", 12),
    ("volumes", 2),
    ("gigabytes", 20),
];

/// Fills an empty state with the initial resources.
pub(crate) fn seed(state: &mut CloudState, external_cidr: &str, external: &Network, now: Timestamp) {
    seed_users(state, now);
    seed_flavors(state);
    seed_images(state, now);
    let public = seed_public_network(state, external_cidr, external, now);
    let owners: Vec<(String, String)> =
        state.projects.iter().map(|project| (project.name.clone(), project.id.clone())).collect();
    for (position, (name, id)) in owners.iter().enumerate() {
        security_groups::make_default(state, id, now);
        if name != "admin" {
            let outside = external.nth(u128::try_from(position).unwrap_or_default() + 2);
            seed_private_network(state, id, &public, outside, position, now);
        }
    }
    state.seeds = state.network.ids().cloned().collect();
}

fn simple_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn seed_users(state: &mut CloudState, now: Timestamp) {
    for name in PROJECTS {
        let project = Project { id: simple_id(), name: name.to_owned() };
        let user = User {
            id: simple_id(),
            name: name.to_owned(),
            password: name.to_owned(),
            project_id: project.id.clone(),
            admin: name == "admin",
            reader: false,
        };
        // It is guessable on purpose: a test needs no call to get it.
        state.application_credentials.push(ApplicationCredential {
            id: format!("{name}-application-credential"),
            name: name.to_owned(),
            secret: format!("{name}-secret"),
            user_id: user.id.clone(),
            project_id: project.id.clone(),
            expires_at: None,
            description: String::new(),
            unrestricted: false,
            access_rules: None,
        });
        state.key_pairs.push(KeyPair {
            id: u64::try_from(state.key_pairs.len()).unwrap_or_default() + 1,
            user_id: user.id.clone(),
            name: "default".to_owned(),
            kind: "ssh".to_owned(),
            public_key: format!(
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtRkq0Fvh4zPdcZ0bL1q3t2o9mY6wT5vYgVdG6xk3aB {name}"
            ),
            fingerprint: "2c:45:06:b1:9e:7f:c8:b5:43:9b:51:cd:3d:c6:1c:21".to_owned(),
            created: now,
        });
        let limits = state.quotas.entry(project.id.clone()).or_default();
        limits.extend(QUOTAS.map(|(resource, limit)| (resource.to_owned(), limit)));
        limits.insert("gigabytes".to_owned(), 100_000);
        if name == "tiny" {
            limits.extend(TINY_QUOTAS.map(|(resource, limit)| (resource.to_owned(), limit)));
        }
        state.projects.push(project);
        state.users.push(user);
    }
}

fn seed_flavors(state: &mut CloudState) {
    let flavors = [
        ("1", "m1.tiny", 1, 512, 1),
        ("2", "m1.small", 1, 2048, 20),
        ("3", "m1.medium", 2, 4096, 40),
        ("4", "m1.large", 4, 8192, 80),
        ("impossible", "x1.impossible", 2, 4_194_304, 10),
    ];
    state.flavors = flavors
        .map(|(id, name, vcpus, ram, disk)| Flavor {
            id: id.to_owned(),
            name: name.to_owned(),
            vcpus,
            ram,
            disk,
        })
        .to_vec();
}

fn seed_images(state: &mut CloudState, now: Timestamp) {
    let owner = state.project("admin").map(|project| project.id.clone()).unwrap_or_default();
    let kubernetes =
        (29..=34).map(|minor| (format!("ubuntu-2204-kube-v1.{minor}.0"), "ubuntu", vec!["kubernetes"]));
    // A patch of one minor, for workers that are upgraded to the version of their control plane.
    let patch = [("ubuntu-2204-kube-v1.33.1".to_owned(), "ubuntu", vec!["kubernetes"])];
    let others = [("cirros".to_owned(), "cirros", Vec::new())];
    for (name, distribution, tags) in kubernetes.chain(patch).chain(others) {
        let id = new_id();
        let image = json!({
            "id": id, "name": name, "os_distro": distribution, "tags": tags, "disk_format": "raw",
            "container_format": "bare", "visibility": "public", "size": 1024, "virtual_size": 1024,
            "status": "active", "checksum": "0f343b0931126a20f133d67c2b018a3b", "protected": false,
            "min_ram": 0, "min_disk": 0, "owner": owner, "os_hidden": false, "os_hash_algo": "sha512",
            "os_hash_value": "8efb4f73c5655351c444eb109230c556d39e2c7624e9c11abc9e3fb4b9b9254218cc5085b454a969",
            "created_at": seconds(now), "updated_at": seconds(now), "self": format!("/v2/images/{id}"),
            "file": format!("/v2/images/{id}/file"), "schema": "/v2/schemas/image",
        });
        state.images.push(object(image));
    }
}

/// Inserts a network resource, with the attributes that all of them have.
fn put(
    state: &mut CloudState,
    kind: ResourceKind,
    project: &str,
    now: Timestamp,
    attributes: Value,
) -> String {
    let mut whole = object(json!({
        "id": new_id(), "project_id": project, "tenant_id": project, "description": "", "tags": [],
        "created_at": seconds(now), "updated_at": seconds(now), "revision_number": 1,
    }));
    whole.extend(object(attributes));
    let id = text(&whole, "id").to_owned();
    state.insert(kind, whole);
    id
}

fn network(name: &str, mtu: u16, external: bool) -> Value {
    json!({
        "name": name, "admin_state_up": true, "mtu": mtu, "status": "ACTIVE", "shared": false,
        "availability_zone_hints": [], "availability_zones": [], "ipv4_address_scope": null,
        "ipv6_address_scope": null, "router:external": external, "is_default": false,
        "port_security_enabled": true, "l2_adjacency": true,
    })
}

fn subnet(name: &str, network: &str, cidr: &str, gateway: &str, pool: (&str, &str), dhcp: bool) -> Value {
    let servers = if dhcp { json!(["192.0.2.53"]) } else { json!([]) };
    json!({
        "name": name, "network_id": network, "ip_version": 4, "subnetpool_id": null, "enable_dhcp": dhcp,
        "ipv6_ra_mode": null, "ipv6_address_mode": null, "gateway_ip": gateway, "cidr": cidr,
        "allocation_pools": [{"start": pool.0, "end": pool.1}], "host_routes": [], "dns_nameservers": servers,
        "service_types": [],
    })
}

/// Creates the external network and its subnet, and returns their ids.
fn seed_public_network(
    state: &mut CloudState,
    cidr: &str,
    range: &Network,
    now: Timestamp,
) -> (String, String) {
    let admin = state.project("admin").map(|project| project.id.clone()).unwrap_or_default();
    let mut public = network("public", 1500, true);
    public["id"] = PUBLIC_NETWORK.into();
    let id = put(state, ResourceKind::Network, &admin, now, public);
    let gateway = range.gateway();
    let pool = range.pools(Some(gateway)).last().copied().unwrap_or((gateway, gateway));
    let pool = (pool.0.to_string(), pool.1.to_string());
    let pool = (pool.0.as_str(), pool.1.as_str());
    let attributes = subnet("public-subnet", &id, cidr, &gateway.to_string(), pool, false);
    let subnet = put(state, ResourceKind::Subnet, &admin, now, attributes);
    (id, subnet)
}

fn seed_private_network(
    state: &mut CloudState,
    project: &str,
    public: &(String, String),
    outside: IpAddr,
    position: usize,
    now: Timestamp,
) {
    // demo has 10.6.0.0/16 and demo2 10.7.0.0/16, as in the lab.
    let prefix = format!("10.{}", position + 5);
    let network_id = put(state, ResourceKind::Network, project, now, network("private", 1450, false));
    let gateway = format!("{prefix}.0.1");
    let (low, high) = (format!("{prefix}.0.2"), format!("{prefix}.255.254"));
    let range = (low.as_str(), high.as_str());
    let attributes =
        subnet("private-subnet", &network_id, &format!("{prefix}.0.0/16"), &gateway, range, true);
    let subnet_id = put(state, ResourceKind::Subnet, project, now, attributes);
    let way_out = json!({"subnet_id": public.1, "ip_address": outside.to_string()});
    let router = json!({
        "name": "router", "admin_state_up": true, "status": "ACTIVE", "availability_zones": [],
        "availability_zone_hints": [], "routes": [], "flavor_id": null,
        "external_gateway_info": {
            "network_id": public.0, "enable_snat": true, "external_fixed_ips": [way_out],
        },
    });
    let router_id = put(state, ResourceKind::Router, project, now, router);
    let interface = json!({
        "name": "", "network_id": network_id, "mac_address": format!("fa:16:3e:00:00:{position:02x}"),
        "admin_state_up": true, "status": "DOWN", "device_id": router_id,
        "device_owner": "network:router_interface",
        "fixed_ips": [{"subnet_id": subnet_id, "ip_address": gateway}], "allowed_address_pairs": [],
        "extra_dhcp_opts": [], "security_groups": [], "binding:vnic_type": "normal",
        "port_security_enabled": false, "ip_allocation": "immediate",
    });
    put(state, ResourceKind::Port, project, now, interface);
}
