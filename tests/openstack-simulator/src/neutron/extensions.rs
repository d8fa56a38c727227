//! Documents of Neutron about its versions and extensions.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ResourceKind, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};

/// Simulated extensions, by alias and name.
const EXTENSIONS: [(&str, &str); 27] = [
    ("allowed-address-pairs", "Allowed Address Pairs"),
    ("availability_zone", "Availability Zone"),
    ("binding", "Port Binding"),
    ("empty-string-filtering", "Empty String Filtering Extension"),
    ("ext-gw-mode", "Neutron L3 Configurable external gateway mode"),
    ("external-net", "Neutron external network"),
    ("extra_dhcp_opt", "Neutron Extra DHCP options"),
    ("extraroute", "Neutron Extra Route"),
    ("extraroute-atomic", "Atomically add/remove extra routes"),
    ("fip-port-details", "Floating IP Port Details Extension"),
    ("ip-substring-filtering", "IP address substring filtering"),
    ("net-mtu", "Network MTU"),
    ("net-mtu-writable", "Network MTU (writable)"),
    ("network-ip-availability", "Network IP Availability"),
    ("pagination", "Pagination support"),
    ("port-security", "Port Security"),
    ("project-id", "project_id field enabled"),
    ("quotas", "Quota management support"),
    ("quota_details", "Quota details management support"),
    ("router", "Neutron L3 Router"),
    ("security-group", "security-group"),
    ("sorting", "Sorting support"),
    ("standard-attr-description", "standard-attr-description"),
    ("standard-attr-tag", "Tag support for resources with standard attribute: port, subnet, network, router"),
    ("stateful-security-group", "Stateful security group"),
    ("trunk", "Trunk Extension"),
    ("uplink-status-propagation", "Port Uplink Status Propagation"),
];

/// Extension of releases since 2024.2.
const TRUSTED_PORTS: [(&str, &str); 1] = [("port-trusted-vif", "Port trusted vif")];

fn view((alias, name): &(&str, &str)) -> Value {
    let updated = "2020-01-01T00:00:00-00:00";
    json!({"alias": alias, "name": name, "description": name, "updated": updated, "links": []})
}

/// Handles everything under `/extensions`.
pub(super) fn handle(context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let newer = TRUSTED_PORTS.iter().filter(|_| context.options.trusted_ports);
    let mut extensions = EXTENSIONS.iter().chain(newer);
    let Some(alias) = path.first() else {
        let views: Vec<Value> = extensions.map(view).collect();
        return Ok(Reply::ok(&json!({"extensions": views})));
    };
    let extension = extensions.find(|(known, _)| known == alias).ok_or_else(|| {
        let words = format!("Extension with alias {alias} does not exist");
        refusal(StatusCode::NOT_FOUND, "HTTPNotFound", &words)
    })?;
    Ok(Reply::ok(&json!({"extension": view(extension)})))
}

/// `GET /availability_zones`.
pub(super) fn zones() -> Reply {
    Reply::ok(&json!({"availability_zones": []}))
}

/// `GET /v2.0/`: the available resources.
pub(super) fn resources(context: &Context<'_>) -> Reply {
    let resources: Vec<Value> = [ResourceKind::Network, ResourceKind::Subnet, ResourceKind::Port]
        .iter()
        .map(|kind| {
            let href = format!("{}/network/v2.0/{}", context.request.base_url, kind.plural());
            json!({"name": kind.singular(), "collection": kind.plural(), "links": [{"rel": "self", "href": href}]})
        })
        .collect();
    Reply::ok(&json!({"resources": resources}))
}
