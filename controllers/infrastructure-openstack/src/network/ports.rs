//! Neutron calls for ports.

use std::collections::BTreeMap;

use controllers_infrastructure::{AddressPair, CloudResult, FixedIp, NewPort, Port, PortQuery, PortUpdate};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{delete, object, path, text};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    name: String,
    network_id: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    fixed_ips: Vec<Address>,
    #[serde(default)]
    security_groups: Vec<String>,
    #[serde(default)]
    allowed_address_pairs: Vec<Pair>,
    #[serde(default)]
    device_id: String,
    #[serde(default)]
    device_owner: Option<String>,
    status: String,
    #[serde(default)]
    created_at: String,
}

#[derive(Deserialize)]
struct Address {
    subnet_id: Option<String>,
    ip_address: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    ip_address: String,
    #[serde(default)]
    mac_address: Option<String>,
}

impl From<ResponseBody> for Port {
    fn from(answer: ResponseBody) -> Self {
        let fixed = |one: Address| FixedIp { subnet_id: one.subnet_id, ip_address: one.ip_address };
        let pair = |one: Pair| AddressPair { ip_address: one.ip_address, mac_address: one.mac_address };
        Self {
            id: answer.id,
            name: answer.name,
            network_id: answer.network_id,
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
            tags: answer.tags,
            fixed_ips: answer.fixed_ips.into_iter().map(fixed).collect(),
            security_groups: answer.security_groups,
            allowed_address_pairs: answer.allowed_address_pairs.into_iter().map(pair).collect(),
            device_id: answer.device_id,
            device_owner: answer.device_owner.unwrap_or_default(),
            status: answer.status,
        }
    }
}

pub(crate) async fn ports(session: &Session, query: &PortQuery) -> CloudResult<Vec<Port>> {
    let mut request = Request::get(Service::Network, "/ports")
        .with_some("id", query.id.as_deref())
        .with_some("name", query.name.as_deref())
        .with_some("network_id", query.network_id.as_deref())
        .with_some("device_id", query.device_id.as_deref())
        .with_some("project_id", query.project_id.as_deref())
        .with_list("tags", &query.tags);
    for owner in &query.device_owners {
        request = request.with("device_owner", owner);
    }
    let found: Vec<ResponseBody> = list(session, request, "ports").await?;
    Ok(found.into_iter().map(Port::from).collect())
}

pub(crate) async fn create_port(session: &Session, new: &NewPort) -> CloudResult<Port> {
    let mut port = body(new);
    if new.trusted_vf {
        trust(&mut port, session.network_extensions().await?);
    }
    let request = Request::post(Service::Network, "/ports", json!({"port": port}));
    Ok(session.under::<ResponseBody>(&request, "port").await?.into())
}

/// Returns the body of a create call, with requested fields only: several fields need an administrator.
fn body(new: &NewPort) -> Map<String, Value> {
    let fixed: Vec<Value> = new.fixed_ips.iter().map(fixed_ip).collect();
    let mut port = object([
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("network_id", Some(json!(new.network_id))),
        ("fixed_ips", (!fixed.is_empty()).then(|| json!(fixed))),
        ("security_groups", new.security_groups.as_ref().map(|groups| json!(groups))),
        (
            "allowed_address_pairs",
            (!new.allowed_address_pairs.is_empty()).then(|| pairs(&new.allowed_address_pairs)),
        ),
        ("admin_state_up", new.admin_state_up.map(|up| json!(up))),
        ("mac_address", text(new.mac_address.as_ref())),
        ("binding:host_id", text(new.host_id.as_ref())),
        ("binding:vnic_type", text(new.vnic_type.as_ref())),
        ("binding:profile", (!new.profile.is_empty()).then(|| profile(&new.profile))),
        ("port_security_enabled", new.port_security.map(|enabled| json!(enabled))),
        ("propagate_uplink_status", new.propagate_uplink_status.map(|enabled| json!(enabled))),
    ]);
    // They add to what is sent and do not replace it: the description, for example, is our mark.
    for (key, value) in &new.value_specs {
        port.entry(key.clone()).or_insert_with(|| json!(value));
    }
    port
}

/// Sets the trust in a virtual function: an attribute of the port, or before its extension a part of the profile.
fn trust(port: &mut Map<String, Value>, extensions: &[String]) {
    if extensions.iter().any(|alias| alias == "port-trusted-vif") {
        port.insert("trusted".to_owned(), json!(true));
        return;
    }
    let profile = port.entry("binding:profile").or_insert_with(|| json!({}));
    if let Some(profile) = profile.as_object_mut() {
        profile.insert("trusted".to_owned(), json!(true));
    }
}

fn fixed_ip(one: &FixedIp) -> Value {
    let subnet = text(one.subnet_id.as_ref());
    Value::Object(object([("subnet_id", subnet), ("ip_address", text(one.ip_address.as_ref()))]))
}

fn pairs(all: &[AddressPair]) -> Value {
    let pair = |one: &AddressPair| {
        let mac = text(one.mac_address.as_ref());
        Value::Object(object([("ip_address", Some(json!(one.ip_address))), ("mac_address", mac)]))
    };
    all.iter().map(pair).collect()
}

/// Parses a value of a binding profile: it may be a list or a flag in JSON.
fn profile(profile: &BTreeMap<String, String>) -> Value {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    profile.iter().map(|(key, text)| (key.clone(), value(text))).collect()
}

pub(crate) async fn update_port(session: &Session, id: &str, change: &PortUpdate) -> CloudResult<Port> {
    let port = object([
        ("security_groups", change.security_groups.as_ref().map(|groups| json!(groups))),
        ("allowed_address_pairs", change.allowed_address_pairs.as_deref().map(pairs)),
    ]);
    let request = Request::put(Service::Network, path("ports", id), json!({"port": port}));
    Ok(session.under::<ResponseBody>(&request, "port").await?.into())
}

pub(crate) async fn delete_port(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "ports", id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_fields_are_sent() {
        let mut new = NewPort { name: "p".into(), network_id: "n".into(), ..NewPort::default() };
        assert_eq!(Value::Object(body(&new)), json!({"name": "p", "description": "", "network_id": "n"}));
        // No group at all is different from the default group.
        new.security_groups = Some(Vec::new());
        new.profile = [("capabilities".into(), r#"["switchdev"]"#.into()), ("a".into(), "b c".into())].into();
        new.value_specs = [("dns_name".into(), "m1".into()), ("name".into(), "other".into())].into();
        let port = body(&new);
        assert_eq!(port["security_groups"], json!([]));
        assert_eq!(port["binding:profile"], json!({"capabilities": ["switchdev"], "a": "b c"}));
        assert_eq!(port["dns_name"], "m1");
        assert_eq!(port["name"], "p", "a further parameter cannot replace one of ours");
    }

    #[test]
    fn a_trusted_function_is_requested_in_the_form_that_the_cloud_has() {
        let mut old = body(&NewPort::default());
        let mut new = old.clone();
        trust(&mut old, &["trunk".to_owned()]);
        assert_eq!(old["binding:profile"], json!({"trusted": true}));
        trust(&mut new, &["port-trusted-vif".to_owned()]);
        assert_eq!((&new["trusted"], new.get("binding:profile")), (&json!(true), None));
    }
}
