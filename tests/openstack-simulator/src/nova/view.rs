//! Servers in the format of the API.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{Server, ServerTask, VmState};
use crate::context::Context;
use crate::neutron::ResourceKind;
use crate::object::{Object, list, microseconds, seconds, set, text};
use crate::state::CloudState;

/// Returns the two links of a resource.
pub(super) fn links(context: &Context<'_>, id: &str) -> Value {
    let base = &context.request.base_url;
    json!([
        {"rel": "self", "href": format!("{base}/compute/v2.1/servers/{id}")},
        {"rel": "bookmark", "href": format!("{base}/compute/servers/{id}")},
    ])
}

/// Returns a server as in `GET /servers`.
pub(super) fn brief(server: &Server, context: &Context<'_>) -> Value {
    json!({"id": server.id, "name": server.name, "links": links(context, &server.id)})
}

/// Returns what Nova knows of a server in a cell that it cannot reach.
pub(super) fn of_unreachable_cell(server: &Server, context: &Context<'_>) -> Value {
    json!({
        "id": server.id, "status": "UNKNOWN", "tenant_id": server.project_id, "created": seconds(server.created),
        "links": links(context, &server.id),
    })
}

/// Returns a server in full.
pub(super) fn full(state: &CloudState, server: &Server, context: &Context<'_>) -> Object {
    let mut view = basics(state, server, context);
    extended(&mut view, server, context);
    newer(&mut view, server, context.microversion);
    view
}

fn basics(state: &CloudState, server: &Server, context: &Context<'_>) -> Object {
    let mut view = Object::new();
    set(&mut view, "id", server.id.as_str());
    set(&mut view, "name", server.name.as_str());
    set(&mut view, "status", server.status());
    set(&mut view, "tenant_id", server.project_id.as_str());
    set(&mut view, "user_id", server.user_id.as_str());
    set(&mut view, "metadata", json!(server.metadata));
    set(&mut view, "hostId", host_id(server));
    set(&mut view, "image", image(server, context));
    set(&mut view, "flavor", flavor(server, context));
    set(&mut view, "created", seconds(server.created));
    set(&mut view, "updated", seconds(server.updated));
    set(&mut view, "addresses", addresses(state, server));
    set(&mut view, "accessIPv4", "");
    set(&mut view, "accessIPv6", "");
    set(&mut view, "links", links(context, &server.id));
    if let Some(fault) = server.fault.as_ref().filter(|_| server.vm_state == VmState::Error) {
        let fault = json!({"code": 500, "created": seconds(fault.created), "message": fault.message});
        set(&mut view, "fault", fault);
    }
    if matches!(server.status(), "ACTIVE" | "BUILD" | "REBUILD" | "SHUTOFF") {
        set(&mut view, "progress", 0);
    }
    view
}

fn extended(view: &mut Object, server: &Server, context: &Context<'_>) {
    let stamp = |time: Option<Timestamp>| time.map_or(Value::Null, |time| json!(microseconds(time)));
    set(view, "OS-DCF:diskConfig", "MANUAL");
    set(view, "OS-EXT-AZ:availability_zone", server.zone.as_str());
    set(view, "config_drive", if server.config_drive { "True" } else { "" });
    set(view, "key_name", json!(server.key_name));
    set(view, "OS-SRV-USG:launched_at", stamp(server.launched));
    set(view, "OS-SRV-USG:terminated_at", stamp(server.terminated));
    set(view, "OS-EXT-STS:task_state", json!(server.task_state(context.now)));
    set(view, "OS-EXT-STS:vm_state", server.vm_state.as_str());
    set(view, "OS-EXT-STS:power_state", server.power_state());
    let volumes: Vec<Value> = server
        .attachments
        .iter()
        .map(|held| match context.microversion {
            ..3 => json!({"id": held.volume_id}),
            3.. => json!({"id": held.volume_id, "delete_on_termination": held.delete_on_termination}),
        })
        .collect();
    set(view, "os-extended-volumes:volumes_attached", volumes);
    // Security groups are those of the ports, so there are none without ports.
    if server.vm_state != VmState::Building && server.host.is_some() && server.exists() {
        let groups: Vec<Value> = server.security_groups.iter().map(|name| json!({"name": name})).collect();
        set(view, "security_groups", groups);
    }
    if context.caller.admin {
        set(view, "OS-EXT-SRV-ATTR:host", json!(server.host));
        set(view, "OS-EXT-SRV-ATTR:hypervisor_hostname", json!(server.host));
        set(view, "OS-EXT-SRV-ATTR:instance_name", format!("instance-{:08x}", server.sequence));
        if context.microversion >= 3 {
            set(view, "OS-EXT-SRV-ATTR:user_data", json!(server.user_data));
        }
    }
}

fn newer(view: &mut Object, server: &Server, microversion: u32) {
    if microversion >= 9 {
        set(view, "locked", server.locked);
    }
    if microversion >= 19 {
        set(view, "description", json!(server.description));
    }
    if microversion >= 26 {
        set(view, "tags", json!(server.tags));
    }
    if microversion >= 63 {
        set(view, "trusted_image_certificates", Value::Null);
    }
    if microversion >= 71 {
        let groups: Vec<&String> = server.group.iter().collect();
        set(view, "server_groups", json!(groups));
    }
    if microversion >= 73 {
        set(view, "locked_reason", Value::Null);
    }
    if microversion >= 90 {
        set(view, "OS-EXT-SRV-ATTR:hostname", server.hostname.as_str());
    }
}

/// Returns a hash of the host's name, like Nova's.
pub(super) fn host_id(server: &Server) -> String {
    let Some(host) = server.host.as_deref() else { return String::new() };
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in host.bytes().chain(server.project_id.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032x}{:024x}", hash >> 32)
}

fn image(server: &Server, context: &Context<'_>) -> Value {
    match &server.image {
        Some(image) => {
            let link = format!("{}/compute/images/{image}", context.request.base_url);
            json!({"id": image, "links": [{"rel": "bookmark", "href": link}]})
        }
        None => json!(""),
    }
}

fn flavor(server: &Server, context: &Context<'_>) -> Value {
    let flavor = &server.flavor;
    if context.microversion >= 47 {
        return json!({
            "vcpus": flavor.vcpus, "ram": flavor.ram, "disk": flavor.disk, "ephemeral": 0, "swap": 0,
            "original_name": flavor.name, "extra_specs": {},
        });
    }
    let link = format!("{}/compute/flavors/{}", context.request.base_url, flavor.id);
    json!({"id": flavor.id, "links": [{"rel": "bookmark", "href": link}]})
}

/// Returns addresses by network name: fixed ones from the ports, and the floating ones associated with them.
fn addresses(state: &CloudState, server: &Server) -> Value {
    let mut networks = Object::new();
    // Before the network is set up, and after it is removed, Nova's cache of it is empty.
    if server.vm_state == VmState::Building || server.task() == Some(ServerTask::Delete) || !server.exists() {
        return Value::Object(networks);
    }
    for port in state.with(ResourceKind::Port, "device_id", &server.id) {
        let network = state.find(ResourceKind::Network, text(port, "network_id"));
        let name = network.map(|network| text(network, "name")).unwrap_or_default();
        let mac = text(port, "mac_address");
        let floating = state.with(ResourceKind::FloatingIp, "port_id", text(port, "id"));
        let entries = networks.entry(name).or_insert_with(|| json!([]));
        let Some(entries) = entries.as_array_mut() else { continue };
        for fixed in list(port, "fixed_ips") {
            let address = fixed.get("ip_address").and_then(Value::as_str).unwrap_or_default();
            entries.push(entry(address, "fixed", mac));
            let mut floating = floating.iter().filter(|it| text(it, "fixed_ip_address") == address);
            if let Some(floating) = floating.next() {
                entries.push(entry(text(floating, "floating_ip_address"), "floating", mac));
            }
        }
    }
    Value::Object(networks)
}

fn entry(address: &str, kind: &str, mac: &str) -> Value {
    let version = if address.contains(':') { 6 } else { 4 };
    json!({"version": version, "addr": address, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac})
}
