//! Nova request bodies.

use base64::{Engine, engine::general_purpose::STANDARD};
use controllers_infrastructure::{BlockDevice, NewServer, Rebuild};
use serde_json::{Map, Value, json};

/// Returns the body of `POST /servers`.
pub(super) fn create(new: &NewServer) -> Value {
    let mut server = Map::new();
    server.insert("name".into(), json!(new.name));
    server.insert("flavorRef".into(), json!(new.flavor_id));
    server.insert("metadata".into(), json!(new.metadata));
    server.insert("networks".into(), networks(&new.ports));
    if !new.tags.is_empty() {
        server.insert("tags".into(), json!(new.tags));
    }
    let optional = [
        ("imageRef", &new.image_id),
        ("key_name", &new.key_name),
        ("availability_zone", &new.availability_zone),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            server.insert(key.into(), json!(value));
        }
    }
    if let Some(wanted) = new.config_drive {
        server.insert("config_drive".into(), json!(wanted));
    }
    if let Some(data) = &new.user_data {
        server.insert("user_data".into(), json!(STANDARD.encode(data)));
    }
    if !new.block_devices.is_empty() {
        server.insert("block_device_mapping_v2".into(), block_devices(new));
    }
    json!({"server": server, "os:scheduler_hints": hints(new)})
}

/// Returns the networks, without which Nova would select, or create, a network by itself.
fn networks(ports: &[String]) -> Value {
    if ports.is_empty() {
        return json!("none");
    }
    ports.iter().map(|port| json!({"port": port})).collect()
}

/// Returns the block devices. If one device is listed, Nova requires the disk of the image, too.
fn block_devices(new: &NewServer) -> Value {
    let mut all = Vec::new();
    if let Some(image) = &new.image_id
        && new.block_devices.iter().all(|device| device.boot_index != 0)
    {
        all.push(json!({
            "source_type": "image",
            "uuid": image,
            "destination_type": "local",
            "boot_index": 0,
            "delete_on_termination": true,
        }));
    }
    all.extend(new.block_devices.iter().map(block_device));
    Value::Array(all)
}

fn block_device(device: &BlockDevice) -> Value {
    let mut body = match &device.volume_id {
        Some(id) => json!({"source_type": "volume", "uuid": id, "destination_type": "volume"}),
        None => json!({"source_type": "blank", "destination_type": "local"}),
    };
    body["boot_index"] = json!(device.boot_index);
    body["delete_on_termination"] = json!(device.delete_on_termination);
    if let Some(size) = device.size_gib {
        body["volume_size"] = json!(size);
    }
    if let Some(tag) = &device.tag {
        body["tag"] = json!(tag);
    }
    body
}

fn hints(new: &NewServer) -> Value {
    let mut hints = Map::new();
    for (key, value) in &new.scheduler_hints {
        // The value is JSON; a bare word is accepted as a string.
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        hints.insert(key.clone(), value);
    }
    if let Some(group) = &new.server_group_id {
        hints.insert("group".into(), json!(group));
    }
    Value::Object(hints)
}

/// Returns the body of the rebuild action.
pub(super) fn rebuild(rebuild: &Rebuild) -> Value {
    let mut body = Map::new();
    body.insert("imageRef".into(), json!(rebuild.image_id));
    if let Some(data) = &rebuild.user_data {
        body.insert("user_data".into(), json!(STANDARD.encode(data)));
    }
    if let Some(metadata) = &rebuild.metadata {
        body.insert("metadata".into(), json!(metadata));
    }
    json!({"rebuild": body})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimal_server_has_no_network_and_no_hints() {
        let new = NewServer { name: "m".into(), flavor_id: "f".into(), ..NewServer::default() };
        let server = json!({"name": "m", "flavorRef": "f", "metadata": {}, "networks": "none"});
        assert_eq!(create(&new), json!({"server": server, "os:scheduler_hints": {}}));
    }

    #[test]
    fn a_server_with_a_data_volume_also_maps_the_image_disk() {
        let data = BlockDevice { volume_id: Some("v".into()), boot_index: -1, ..BlockDevice::default() };
        let mut new = NewServer {
            image_id: Some("i".into()),
            block_devices: vec![data.clone()],
            ..NewServer::default()
        };
        assert_eq!(create(&new)["server"]["block_device_mapping_v2"][0]["source_type"], "image");
        new.image_id = None;
        new.block_devices = vec![BlockDevice { boot_index: 0, ..data }];
        let body = create(&new);
        assert_eq!(body["server"]["block_device_mapping_v2"].as_array().unwrap().len(), 1);
        assert_eq!(body["server"].get("imageRef"), None);
    }

    #[test]
    fn scheduler_hints_are_json_or_plain_strings() {
        let hints = [("same_host", r#"["a"]"#), ("query", "bare")];
        let new = NewServer {
            scheduler_hints: hints.map(|(key, value)| (key.into(), value.into())).into(),
            server_group_id: Some("g".into()),
            ..NewServer::default()
        };
        let expected = json!({"same_host": ["a"], "query": "bare", "group": "g"});
        assert_eq!(create(&new)["os:scheduler_hints"], expected);
    }

    #[test]
    fn unchanged_fields_are_not_sent_in_a_rebuild() {
        let mut change = Rebuild { image_id: "i".into(), ..Rebuild::default() };
        assert_eq!(rebuild(&change), json!({"rebuild": {"imageRef": "i"}}));
        change.user_data = Some(b"hi".to_vec());
        assert_eq!(rebuild(&change)["rebuild"]["user_data"], "aGk=");
    }
}
