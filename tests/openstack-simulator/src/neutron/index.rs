//! Index of the network resources: by the texts of attributes that calls select by, and by address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::ResourceKind;
use crate::address::number;
use crate::object::{Object, list, text};

/// Returns the attributes of a kind that the index has.
pub(super) fn attributes(kind: ResourceKind) -> &'static [&'static str] {
    match kind {
        ResourceKind::Network | ResourceKind::Router | ResourceKind::SecurityGroup => &["project_id", "name"],
        ResourceKind::Subnet => &["project_id", "name", "network_id"],
        ResourceKind::Port => &["project_id", "name", "network_id", "device_id"],
        ResourceKind::SecurityGroupRule => &["project_id", "security_group_id", "remote_group_id"],
        ResourceKind::FloatingIp => &[
            "project_id",
            "description",
            "floating_ip_address",
            "floating_network_id",
            "port_id",
            "router_id",
        ],
        ResourceKind::Trunk => &["project_id", "name", "port_id"],
    }
}

/// Everything by which the index finds one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    /// Indexed attributes; `None` for one that is absent or no text.
    texts: Vec<(&'static str, Option<String>)>,
    /// Addresses that the resource uses, each with the id of its subnet, or of the network of a floating IP.
    addresses: Vec<(String, u128)>,
}

impl Terms {
    pub(super) fn of(kind: ResourceKind, object: &Object) -> Self {
        let texts = attributes(kind).iter().map(|attribute| {
            let held = object.get(*attribute).and_then(Value::as_str);
            (*attribute, held.map(str::to_owned))
        });
        Self { texts: texts.collect(), addresses: addresses(kind, object) }
    }

    /// Returns the text of an indexed attribute; empty if it is absent or no text.
    pub(super) fn text(&self, attribute: &str) -> &str {
        let found = self.texts.iter().find(|(known, _)| *known == attribute);
        found.and_then(|(_, held)| held.as_deref()).unwrap_or_default()
    }
}

fn addresses(kind: ResourceKind, object: &Object) -> Vec<(String, u128)> {
    let fixed_ips: &[Value] = match kind {
        ResourceKind::Port => list(object, "fixed_ips"),
        ResourceKind::Router => {
            let gateway = object.get("external_gateway_info").and_then(Value::as_object);
            gateway.map(|gateway| list(gateway, "external_fixed_ips")).unwrap_or_default()
        }
        ResourceKind::FloatingIp => {
            let network = text(object, "floating_network_id").to_owned();
            let address = parsed(text(object, "floating_ip_address"));
            return address.map(|address| (network, address)).into_iter().collect();
        }
        ResourceKind::Network
        | ResourceKind::Subnet
        | ResourceKind::SecurityGroup
        | ResourceKind::SecurityGroupRule
        | ResourceKind::Trunk => &[],
    };
    let field = |fixed: &Value, key: &str| fixed.get(key).and_then(Value::as_str).map(str::to_owned);
    let used = fixed_ips.iter().filter_map(|fixed| {
        let address = parsed(&field(fixed, "ip_address")?)?;
        Some((field(fixed, "subnet_id")?, address))
    });
    used.collect()
}

fn parsed(address: &str) -> Option<u128> {
    address.parse::<IpAddr>().ok().map(number)
}

/// Kind of a resource, and an attribute of it.
type Attribute = (ResourceKind, &'static str);

/// Ids by the text of one attribute.
type IdsByText = BTreeMap<Option<String>, BTreeSet<String>>;

/// The index.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    texts: BTreeMap<Attribute, IdsByText>,
    /// Number of users of each address, by subnet or network.
    addresses: BTreeMap<String, BTreeMap<u128, usize>>,
}

impl Index {
    pub(super) fn add(&mut self, kind: ResourceKind, id: &str, terms: &Terms) {
        for (attribute, held) in &terms.texts {
            let ids = self.texts.entry((kind, *attribute)).or_default().entry(held.clone()).or_default();
            ids.insert(id.to_owned());
        }
        for (place, address) in &terms.addresses {
            *self.addresses.entry(place.clone()).or_default().entry(*address).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, kind: ResourceKind, id: &str, terms: &Terms) {
        for (attribute, held) in &terms.texts {
            let Some(by_text) = self.texts.get_mut(&(kind, *attribute)) else { continue };
            let Some(ids) = by_text.get_mut(held) else { continue };
            ids.remove(id);
            if ids.is_empty() {
                by_text.remove(held);
            }
        }
        for (place, address) in &terms.addresses {
            let Some(users) = self.addresses.get_mut(place) else { continue };
            let left = users.get(address).map_or(0, |count| count.saturating_sub(1));
            if left == 0 {
                users.remove(address);
            } else {
                users.insert(*address, left);
            }
            if users.is_empty() {
                self.addresses.remove(place);
            }
        }
    }

    /// Returns the ids of the resources whose attribute has a text, or is no text.
    pub(super) fn ids(&self, of: Attribute, held: Option<&str>) -> impl Iterator<Item = &String> {
        let by_text = self.texts.get(&of);
        by_text.and_then(|by_text| by_text.get(&held.map(str::to_owned))).into_iter().flatten()
    }

    /// Returns the number of the resources whose attribute has a text.
    pub(super) fn count(&self, of: Attribute, held: &str) -> usize {
        let by_text = self.texts.get(&of);
        by_text.and_then(|by_text| by_text.get(&Some(held.to_owned()))).map_or(0, BTreeSet::len)
    }

    /// Returns the addresses in use that belong to a subnet or network, from `first` on, in order.
    pub(super) fn addresses(&self, place: &str, first: u128) -> impl Iterator<Item = u128> {
        self.addresses.get(place).into_iter().flat_map(move |used| used.range(first..)).map(|(used, _)| *used)
    }
}
