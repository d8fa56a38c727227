//! Tables of the network resources. A call on one resource finds it, and those that belong to it, by an index: with
//! thousands of ports a look at each of them would take longer than all other work.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};

use super::ResourceKind;
use super::index::{Index, Terms, attributes};
use crate::changes::ChangeLog;
use crate::object::{Object, Table, text};

/// Network resources of all kinds. They are saved without the index.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "BTreeMap<ResourceKind, Table>")]
pub(crate) struct NetworkTables {
    tables: BTreeMap<ResourceKind, Table>,
    index: Index,
    /// Entry of each resource in the index.
    terms: BTreeMap<(ResourceKind, String), Terms>,
    /// Resources that may have changed since the index was last brought up to date.
    touched: BTreeSet<(ResourceKind, String)>,
    /// Devices of ports whose addresses or bindings have changed, and ports whose floating IPs have changed.
    pub(crate) changes: ChangeLog,
}

impl From<BTreeMap<ResourceKind, Table>> for NetworkTables {
    fn from(tables: BTreeMap<ResourceKind, Table>) -> Self {
        let keys = |(kind, table): (&ResourceKind, &Table)| {
            let kind = *kind;
            table.keys().map(|id| (kind, id.clone())).collect::<Vec<_>>()
        };
        let touched = tables.iter().flat_map(keys).collect();
        let mut read = Self { tables, touched, ..Self::default() };
        read.settle();
        read
    }
}

impl Serialize for NetworkTables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tables.serialize(serializer)
    }
}

impl NetworkTables {
    /// Returns the resources of one kind, in the order of their ids.
    pub(crate) fn of_kind(&self, kind: ResourceKind) -> impl Iterator<Item = &Object> {
        self.tables.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the ids of all resources.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.tables.values().flat_map(BTreeMap::keys)
    }

    pub(crate) fn find(&self, kind: ResourceKind, id: &str) -> Option<&Object> {
        self.tables.get(&kind)?.get(id)
    }

    /// Returns one resource, to change it.
    pub(crate) fn find_mut(&mut self, kind: ResourceKind, id: &str) -> Option<&mut Object> {
        let found = self.tables.get_mut(&kind)?.get_mut(id)?;
        self.touched.insert((kind, id.to_owned()));
        Some(found)
    }

    /// Inserts a resource by its `id`.
    pub(crate) fn insert(&mut self, kind: ResourceKind, object: Object) {
        let id = text(&object, "id").to_owned();
        self.tables.entry(kind).or_default().insert(id.clone(), object);
        self.touched.insert((kind, id));
        self.settle();
    }

    pub(crate) fn remove(&mut self, kind: ResourceKind, id: &str) -> Option<Object> {
        let removed = self.tables.get_mut(&kind)?.remove(id)?;
        self.touched.insert((kind, id.to_owned()));
        self.settle();
        Some(removed)
    }

    /// Brings the index up to date.
    pub(crate) fn settle(&mut self) {
        for (kind, id) in std::mem::take(&mut self.touched) {
            let new = self.find(kind, &id).map(|object| Terms::of(kind, object));
            let key = (kind, id);
            let old = self.terms.remove(&key);
            if old != new {
                let id = &key.1;
                if let Some(old) = &old {
                    self.index.remove(kind, id, old);
                    mark(&mut self.changes, kind, old);
                }
                if let Some(new) = &new {
                    self.index.add(kind, id, new);
                    mark(&mut self.changes, kind, new);
                }
            }
            if let Some(new) = new {
                self.terms.insert(key, new);
            }
        }
    }

    /// Returns the resources of one kind whose attribute has this text, in the order of their ids.
    pub(crate) fn with(&self, kind: ResourceKind, attribute: &str, value: &str) -> Vec<&Object> {
        let known = attributes(kind).iter().find(|known| **known == attribute);
        let Some(known) = known.filter(|_| !value.is_empty()) else {
            return self.of_kind(kind).filter(|object| text(object, attribute) == value).collect();
        };
        let ids = self.index.ids((kind, *known), Some(value)).chain(self.touched(kind));
        let ids: BTreeSet<&String> = ids.collect();
        let found = ids.into_iter().filter_map(|id| self.find(kind, id));
        found.filter(|object| text(object, attribute) == value).collect()
    }

    /// Returns the number of the resources of one kind that a project has.
    pub(crate) fn count(&self, kind: ResourceKind, project: &str) -> usize {
        self.index.count((kind, "project_id"), project)
    }

    /// Returns the resources that a filter of an attribute by these values can match, in the order of their ids. `None`
    /// stands for all of the kind. A resource whose attribute is no text may match any value.
    pub(super) fn candidates(
        &self,
        kind: ResourceKind,
        attribute: &str,
        values: &[&str],
    ) -> Option<Vec<&Object>> {
        let known = attributes(kind).iter().find(|known| **known == attribute)?;
        let texts = values.iter().flat_map(|value| self.index.ids((kind, *known), Some(*value)));
        let ids = self.index.ids((kind, *known), None).chain(texts).chain(self.touched(kind));
        let ids: BTreeSet<&String> = ids.collect();
        Some(ids.into_iter().filter_map(|id| self.find(kind, id)).collect())
    }

    /// Returns true if an address belongs to a subnet or network and is in use.
    pub(super) fn is_used(&self, place: &str, address: u128) -> bool {
        self.index.addresses(place, address).next() == Some(address)
    }

    /// Returns the addresses in use that belong to a subnet or network, from `first` on, in order.
    pub(super) fn addresses(&self, place: &str, first: u128) -> impl Iterator<Item = u128> {
        self.index.addresses(place, first)
    }

    fn touched(&self, kind: ResourceKind) -> impl Iterator<Item = &String> {
        self.touched.iter().filter(move |(touched, _)| *touched == kind).map(|(_, id)| id)
    }
}

/// Records which servers a change may concern: the device of a port, and the port of a floating IP.
fn mark(changes: &mut ChangeLog, kind: ResourceKind, terms: &Terms) {
    let concerned = match kind {
        ResourceKind::Port => terms.text("device_id"),
        ResourceKind::FloatingIp => terms.text("port_id"),
        ResourceKind::Network
        | ResourceKind::Subnet
        | ResourceKind::Router
        | ResourceKind::SecurityGroup
        | ResourceKind::SecurityGroupRule
        | ResourceKind::Trunk => "",
    };
    if !concerned.is_empty() {
        changes.mark(concerned);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::{object, set};

    const PORT: ResourceKind = ResourceKind::Port;

    fn port(id: &str, device: &str, address: &str) -> Object {
        let fixed = json!([{"subnet_id": "s", "ip_address": address}]);
        object(json!({"id": id, "name": id, "project_id": "p", "device_id": device, "fixed_ips": fixed}))
    }

    fn two_ports() -> NetworkTables {
        let mut tables = NetworkTables::default();
        tables.insert(PORT, port("a", "one", "10.0.0.2"));
        tables.insert(PORT, port("b", "two", "10.0.0.3"));
        tables
    }

    fn ids(found: &[&Object]) -> Vec<String> {
        found.iter().map(|object| text(object, "id").to_owned()).collect()
    }

    fn of_device(tables: &NetworkTables, device: &str) -> Vec<String> {
        ids(&tables.with(PORT, "device_id", device))
    }

    #[test]
    fn ports_are_found_by_their_device_also_right_after_a_change() {
        let mut tables = two_ports();
        assert_eq!(of_device(&tables, "one"), ["a"]);
        set(tables.find_mut(PORT, "a").unwrap(), "device_id", "two");
        for _ in 0..2 {
            assert_eq!(of_device(&tables, "one"), [""; 0]);
            assert_eq!(of_device(&tables, "two"), ["a", "b"]);
            tables.settle();
        }
        tables.remove(PORT, "b");
        assert_eq!(of_device(&tables, "two"), ["a"]);
        set(tables.find_mut(PORT, "a").unwrap(), "device_id", Value::Null);
        assert_eq!(of_device(&tables, ""), ["a"], "as a text it is empty");
    }

    #[test]
    fn an_attribute_without_an_index_is_compared_with_each_resource() {
        let mut tables = two_ports();
        set(tables.find_mut(PORT, "b").unwrap(), "status", "DOWN");
        assert_eq!(ids(&tables.with(PORT, "status", "DOWN")), ["b"]);
        assert!(tables.candidates(PORT, "status", &["DOWN"]).is_none());
    }

    #[test]
    fn a_filter_can_match_resources_whose_attribute_is_no_text() {
        let mut tables = two_ports();
        let mut nameless = port("c", "", "10.0.0.4");
        nameless.remove("name");
        tables.insert(PORT, nameless);
        assert_eq!(ids(&tables.candidates(PORT, "name", &["b"]).unwrap()), ["b", "c"]);
    }

    #[test]
    fn an_address_is_used_until_its_last_port_is_gone() {
        let mut tables = two_ports();
        let second = u128::from(u32::from(std::net::Ipv4Addr::new(10, 0, 0, 2)));
        tables.insert(PORT, port("c", "", "10.0.0.2"));
        assert_eq!(tables.addresses("s", 0).collect::<Vec<_>>(), [second, second + 1]);
        tables.remove(PORT, "a");
        assert!(tables.is_used("s", second));
        tables.remove(PORT, "c");
        assert!(!tables.is_used("s", second));
        assert!(!tables.is_used("other", second + 1));
    }

    #[test]
    fn resources_of_a_project_are_counted_without_a_look_at_them() {
        let mut tables = two_ports();
        assert_eq!((tables.count(PORT, "p"), tables.count(PORT, "q")), (2, 0));
        tables.remove(PORT, "a");
        assert_eq!(tables.count(PORT, "p"), 1);
    }

    #[test]
    fn the_devices_of_changed_ports_are_logged() {
        let mut tables = two_ports();
        let seen = tables.changes.last();
        set(tables.find_mut(PORT, "a").unwrap(), "status", "DOWN");
        tables.settle();
        assert_eq!(tables.changes.since(seen).count(), 0, "no address and no binding has changed");
        set(tables.find_mut(PORT, "a").unwrap(), "device_id", "three");
        tables.settle();
        assert_eq!(tables.changes.since(seen).collect::<Vec<_>>(), ["one", "three"]);
    }

    #[test]
    fn tables_that_were_saved_are_found_by_index_again() {
        let saved = serde_json::to_value(two_ports()).unwrap();
        assert_eq!(saved["Port"]["a"]["device_id"], "one", "only the resources are saved");
        let read: NetworkTables = serde_json::from_value(saved).unwrap();
        assert_eq!(of_device(&read, "two"), ["b"]);
        assert_eq!(read.count(PORT, "p"), 2);
    }
}
