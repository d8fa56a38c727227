//! Requests of the script. Each error is a line of the table of answers in the provider's specification.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One request, with the expected code and a part of the words of its error.
pub(crate) struct Step {
    pub(crate) title: &'static str,
    pub(crate) service: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: fn(&Found) -> Value,
    /// Name under which later requests find the id of the created resource.
    pub(crate) creates: Option<&'static str>,
    pub(crate) status: u16,
    pub(crate) words: &'static str,
}

/// Ids of the resources, by name.
#[derive(Debug, Default)]
pub(crate) struct Found(BTreeMap<&'static str, String>);

impl Found {
    pub(crate) fn set(&mut self, key: &'static str, id: &str) {
        self.0.insert(key, id.to_owned());
    }

    fn id(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Replaces `{name}` in a path by the id of that name.
    pub(crate) fn fill(&self, path: &str) -> String {
        self.0.iter().fold(path.to_owned(), |path, (key, id)| path.replace(&format!("{{{key}}}"), id))
    }
}

/// Resources that both clouds have: name, service, path of the list, and name of the id.
pub(crate) const LOOKUPS: [(&str, &str, &str, &str); 4] = [
    ("ubuntu-2204-kube-v1.29.0", "image", "/images", "image"),
    ("m1.tiny", "compute", "/flavors", "flavor"),
    ("public", "network", "/networks", "public"),
    ("private", "network", "/networks", "private"),
];

/// Resources to delete at the end, in order.
pub(crate) const CLEANUP: [(&str, &str); 6] = [
    ("network", "/floatingips/{floating-ip}"),
    ("network", "/ports/{port}"),
    ("network", "/subnets/{subnet}"),
    ("network", "/networks/{network}"),
    ("network", "/security-groups/{group}"),
    ("compute", "/os-server-groups/{server-group}"),
];

/// Returns the types of a service in catalogs.
pub(crate) fn aliases(service: &str) -> &'static [&'static str] {
    match service {
        "volume" => &["volumev3", "block-storage"],
        "compute" => &["compute"],
        "network" => &["network"],
        "image" => &["image"],
        "load-balancer" => &["load-balancer"],
        _ => &["identity-tokens"],
    }
}

/// Returns the version in the paths of a service.
pub(crate) fn version(service: &str) -> &'static str {
    match service {
        "volume" | "identity" => "/v3",
        "compute" => "/v2.1",
        "network" => "/v2.0",
        "image" => "/v2",
        _ => "/v2/lbaas",
    }
}

const ABSENT: &str = "00000000-0000-4000-8000-000000000000";

const fn refused(
    title: &'static str,
    service: &'static str,
    (method, path): (&'static str, &'static str),
    body: fn(&Found) -> Value,
    (status, words): (u16, &'static str),
) -> Step {
    Step { title, service, method, path, body, creates: None, status, words }
}

const fn created(
    title: &'static str,
    service: &'static str,
    path: &'static str,
    body: fn(&Found) -> Value,
    (status, creates): (u16, &'static str),
) -> Step {
    Step { title, service, method: "POST", path, body, creates: Some(creates), status, words: "" }
}

fn nothing(_: &Found) -> Value {
    Value::Null
}

/// Returns the body of a server with one other attribute.
fn server(found: &Found, key: &str, value: Value) -> Value {
    let mut server = json!({
        "name": "script", "imageRef": found.id("image"), "flavorRef": found.id("flavor"),
        "networks": [{"uuid": found.id("private")}],
    });
    server[key] = value;
    json!({"server": server})
}

fn rule(found: &Found) -> Value {
    json!({"security_group_rule": {"security_group_id": found.id("group"), "direction": "ingress",
        "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}})
}

/// The script.
pub(crate) const SCRIPT: [Step; 20] = [
    refused(
        "a wrong password",
        "identity",
        ("POST", "/auth/tokens"),
        |_| {
            let user = json!({"name": "demo", "password": "wrong", "domain": {"id": "default"}});
            json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}})
        },
        (401, "The request you have made requires authentication."),
    ),
    refused(
        "an absent server",
        "compute",
        ("GET", "/servers/00000000-0000-4000-8000-000000000000"),
        nothing,
        (404, "Instance ID could not be found."),
    ),
    refused(
        "a server of an absent image",
        "compute",
        ("POST", "/servers"),
        |found| server(found, "imageRef", json!(ABSENT)),
        (400, "Can not find requested image"),
    ),
    refused(
        "a server with an absent key",
        "compute",
        ("POST", "/servers"),
        |found| server(found, "key_name", json!("absent")),
        (400, "Invalid key_name provided."),
    ),
    refused(
        "a server in an absent zone",
        "compute",
        ("POST", "/servers"),
        |found| server(found, "availability_zone", json!("az9")),
        (400, "The requested availability zone is not available"),
    ),
    refused(
        "a server with a long tag",
        "compute",
        ("POST", "/servers"),
        |found| server(found, "tags", json!(["t".repeat(61)])),
        (400, "is too long"),
    ),
    created(
        "a server group",
        "compute",
        "/os-server-groups",
        |_| json!({"server_group": {"name": "script", "policy": "soft-anti-affinity"}}),
        (200, "server-group"),
    ),
    created(
        "a network",
        "network",
        "/networks",
        |_| json!({"network": {"name": "script"}}),
        (201, "network"),
    ),
    created(
        "a subnet",
        "network",
        "/subnets",
        |found| json!({"subnet": {"network_id": found.id("network"), "cidr": "10.77.0.0/24", "ip_version": 4}}),
        (201, "subnet"),
    ),
    created(
        "a port",
        "network",
        "/ports",
        |found| json!({"port": {"network_id": found.id("network"), "fixed_ips": [{"ip_address": "10.77.0.9"}]}}),
        (201, "port"),
    ),
    refused(
        "a port at a used address",
        "network",
        ("POST", "/ports"),
        |found| json!({"port": {"network_id": found.id("network"), "fixed_ips": [{"ip_address": "10.77.0.9"}]}}),
        (409, "10.77.0.9"),
    ),
    refused(
        "a subnet in use",
        "network",
        ("DELETE", "/subnets/{subnet}"),
        nothing,
        (409, "Unable to complete operation"),
    ),
    created(
        "a security group",
        "network",
        "/security-groups",
        |_| json!({"security_group": {"name": "script"}}),
        (201, "group"),
    ),
    created("a rule", "network", "/security-group-rules", rule, (201, "rule")),
    refused(
        "a rule that exists",
        "network",
        ("POST", "/security-group-rules"),
        rule,
        (409, "Security group rule already exists"),
    ),
    created(
        "a floating IP",
        "network",
        "/floatingips",
        |found| json!({"floatingip": {"floating_network_id": found.id("public")}}),
        (201, "floating-ip"),
    ),
    refused(
        "a floating IP on a port without a router",
        "network",
        ("PUT", "/floatingips/{floating-ip}"),
        |found| json!({"floatingip": {"port_id": found.id("port")}}),
        (404, "is not reachable from subnet"),
    ),
    refused(
        "a volume of an absent type",
        "volume",
        ("POST", "/volumes"),
        |_| json!({"volume": {"size": 1, "volume_type": "absent"}}),
        (404, "could not be found"),
    ),
    refused(
        "an absent volume",
        "volume",
        ("GET", "/volumes/00000000-0000-4000-8000-000000000000"),
        nothing,
        (404, "Volume ID could not be found."),
    ),
    refused(
        "a load balancer of an absent provider",
        "load-balancer",
        ("POST", "/loadbalancers"),
        |found| json!({"loadbalancer": {"vip_network_id": found.id("network"), "provider": "absent"}}),
        (400, "Provider 'absent' is not enabled."),
    ),
];
