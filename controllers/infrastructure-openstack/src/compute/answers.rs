//! Nova responses, with the fields that the provider uses.

use std::collections::BTreeMap;

use controllers_infrastructure as infrastructure;
use infrastructure::ServerAddress;
use serde::Deserialize;
use serde_json::Value;

use crate::time::utc;

#[derive(Deserialize)]
pub(super) struct Flavor {
    id: String,
    name: String,
    vcpus: u32,
    ram: u64,
    disk: u64,
    #[serde(rename = "OS-FLV-EXT-DATA:ephemeral", default)]
    ephemeral: u64,
    /// From microversion 2.61 on.
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
}

impl From<Flavor> for infrastructure::Flavor {
    fn from(flavor: Flavor) -> Self {
        Self {
            id: flavor.id,
            name: flavor.name,
            vcpus: flavor.vcpus,
            ram_mib: flavor.ram,
            disk_gib: flavor.disk,
            ephemeral_gib: flavor.ephemeral,
            extra_specs: flavor.extra_specs,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Zone {
    #[serde(rename = "zoneName")]
    pub(super) name: String,
    #[serde(rename = "zoneState")]
    pub(super) state: ZoneState,
}

#[derive(Deserialize)]
pub(super) struct ZoneState {
    pub(super) available: bool,
}

#[derive(Deserialize)]
pub(super) struct Group {
    id: String,
    name: String,
    /// From microversion 2.64 on.
    policy: Option<String>,
    /// Before it: a list of one.
    #[serde(default)]
    policies: Vec<String>,
    #[serde(default)]
    members: Vec<String>,
}

impl From<Group> for infrastructure::ServerGroup {
    fn from(group: Group) -> Self {
        let policy = group.policy.or_else(|| group.policies.into_iter().next()).unwrap_or_default();
        Self { id: group.id, name: group.name, policy, members: group.members }
    }
}

#[derive(Deserialize)]
pub(super) struct Created {
    pub(super) id: String,
}

#[derive(Deserialize)]
pub(super) struct Server {
    id: String,
    /// Absent, as everything but id and status, if Nova cannot reach the part of the cloud with the server.
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    task_state: Option<String>,
    #[serde(rename = "OS-EXT-STS:power_state", default)]
    power_state: Option<i64>,
    /// An empty string when booted from a volume, else an object.
    #[serde(default)]
    image: Value,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    addresses: BTreeMap<String, Vec<Address>>,
    #[serde(rename = "OS-EXT-AZ:availability_zone", default)]
    availability_zone: Option<String>,
    #[serde(default)]
    fault: Option<Fault>,
    #[serde(default)]
    created: String,
    #[serde(rename = "os-extended-volumes:volumes_attached", default)]
    volumes: Vec<AttachedVolume>,
}

#[derive(Deserialize)]
struct AttachedVolume {
    id: String,
    #[serde(default)]
    delete_on_termination: Option<bool>,
}

#[derive(Deserialize)]
struct Address {
    addr: String,
    #[serde(rename = "OS-EXT-IPS:type", default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
}

impl From<Server> for infrastructure::Server {
    fn from(server: Server) -> Self {
        let addresses = server
            .addresses
            .into_iter()
            .flat_map(|(network, all)| all.into_iter().map(move |one| address(&network, one)))
            .collect();
        let kept = server.volumes.iter().filter(|volume| volume.delete_on_termination == Some(false));
        let kept_volumes = kept.map(|volume| volume.id.clone()).collect();
        Self {
            id: server.id,
            name: server.name,
            // Nova keeps the error of a server that has recovered; it is current only in ERROR.
            fault: server.fault.map(|fault| fault.message).filter(|_| server.status == "ERROR"),
            status: server.status,
            task_state: server.task_state,
            power_state: server.power_state,
            image_id: server.image.get("id").and_then(Value::as_str).map(str::to_owned),
            metadata: server.metadata,
            tags: server.tags,
            addresses,
            availability_zone: server.availability_zone.filter(|zone| !zone.is_empty()),
            created_at: utc(&server.created),
            volumes: server.volumes.into_iter().map(|volume| volume.id).collect(),
            kept_volumes,
        }
    }
}

fn address(network: &str, address: Address) -> ServerAddress {
    ServerAddress {
        network: network.to_owned(),
        address: address.addr,
        floating: address.kind.as_deref() == Some("floating"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(extra: &Value) -> infrastructure::Server {
        let mut server =
            json!({"id": "1", "name": "m", "status": "ACTIVE", "created": "2026-09-09T10:11:12Z"});
        server.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value::<Server>(server).unwrap().into()
    }

    #[test]
    fn r2_9_a_server_of_which_nova_knows_the_id_alone_is_read() {
        let down = json!({"id": "1", "status": "UNKNOWN", "created": "", "tenant_id": "p", "links": []});
        let server: infrastructure::Server = serde_json::from_value::<Server>(down).unwrap().into();
        assert_eq!((server.id.as_str(), server.status.as_str()), ("1", "UNKNOWN"));
        let bare = serde_json::from_value::<Server>(json!({"id": "2"})).unwrap();
        assert_eq!(infrastructure::Server::from(bare).id, "2");
    }

    #[test]
    fn a_server_booted_from_a_volume_has_no_image() {
        assert_eq!(read(&json!({"image": ""})).image_id, None);
        assert_eq!(read(&json!({"image": {"id": "i"}})).image_id.as_deref(), Some("i"));
    }

    #[test]
    fn only_volumes_that_nova_says_it_keeps_outlive_their_server() {
        let volume = |id: &str, deleted: Value| json!({"id": id, "delete_on_termination": deleted});
        let all = [volume("own", json!(true)), volume("claim", json!(false)), json!({"id": "unknown"})];
        let server = read(&json!({"os-extended-volumes:volumes_attached": all, "OS-EXT-STS:power_state": 4}));
        assert_eq!((server.volumes.len(), server.kept_volumes), (3, vec!["claim".to_owned()]));
        assert_eq!(server.power_state, Some(4));
        assert_eq!(read(&json!({})).power_state, None);
    }

    #[test]
    fn an_old_error_is_not_reported() {
        let fault = json!({"message": "No valid host"});
        assert_eq!(read(&json!({"fault": fault})).fault, None);
        let failed = read(&json!({"status": "ERROR", "fault": fault}));
        assert_eq!(failed.fault.as_deref(), Some("No valid host"));
    }

    #[test]
    fn fixed_and_floating_addresses_are_distinguished() {
        let fixed = json!({"addr": "10.0.0.1", "OS-EXT-IPS:type": "fixed"});
        let floating = json!({"addr": "1.2.3.4", "OS-EXT-IPS:type": "floating"});
        let server = read(&json!({"addresses": {"net": [fixed, floating]}}));
        let seen: Vec<_> = server.addresses.iter().map(|a| (a.address.as_str(), a.floating)).collect();
        assert_eq!(seen, [("10.0.0.1", false), ("1.2.3.4", true)]);
    }
}
