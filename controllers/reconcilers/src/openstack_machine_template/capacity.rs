//! Resources of the servers of a template, from its flavor and image.

use std::collections::BTreeMap;

use apiserver_types::{BlockDeviceType, IntOrString, OpenStackMachineTemplate, Quantity};
use controllers_infrastructure::{Flavor, Image};
use kube::ResourceExt;

/// Annotation that maps devices of a flavor to resource names of Nodes, as a JSON object. Keys are the aliases of
/// `pci_passthrough:alias`, and the resource classes of `resources:<class>`.
const DEVICES: &str = "capstan.dev/device-resources";

/// Flavor and image of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Size {
    pub flavor: Flavor,
    pub image: Image,
}

/// Returns the resources of a server, by resource name.
pub(super) fn capacity(template: &OpenStackMachineTemplate, size: &Size) -> BTreeMap<String, Quantity> {
    let spec = &template.spec.template.spec;
    let root = spec.root_volume.as_ref().and_then(|volume| u64::try_from(volume.size_gib).ok());
    let storage = root.or(Some(size.flavor.disk_gib)).filter(|gib| *gib > 0);
    let local = spec.additional_block_devices.iter().flatten();
    let has_local = local.into_iter().any(|device| device.storage.kind == BlockDeviceType::Local);
    // The kubelet's files are on the disk of the image, which is as large as the image if nothing else says.
    let ephemeral =
        storage.unwrap_or(size.image.min_disk_gib) + if has_local { size.flavor.ephemeral_gib } else { 0 };
    let mut capacity: BTreeMap<String, Quantity> = devices(template, &size.flavor);
    let mut set =
        |name: &str, text: String| capacity.insert(name.to_owned(), Quantity(IntOrString::String(text)));
    set("cpu", size.flavor.vcpus.to_string());
    set("memory", format!("{}Mi", size.flavor.ram_mib));
    if ephemeral > 0 {
        set("ephemeral-storage", format!("{ephemeral}Gi"));
    }
    if let Some(storage) = storage {
        set("storage", format!("{storage}Gi"));
    }
    capacity
}

/// Returns true if a template maps devices of its flavor to resource names.
pub(super) fn maps_devices(template: &OpenStackMachineTemplate) -> bool {
    template.annotations().contains_key(DEVICES)
}

/// Returns the devices of a flavor that the annotation maps to resource names.
fn devices(template: &OpenStackMachineTemplate, flavor: &Flavor) -> BTreeMap<String, Quantity> {
    let text = template.annotations().get(DEVICES).map(String::as_str).unwrap_or_default();
    let names: BTreeMap<String, String> = serde_json::from_str(text).unwrap_or_default();
    let aliases = flavor.extra_specs.get("pci_passthrough:alias").map(String::as_str).unwrap_or_default();
    let aliases = aliases.split(',').filter_map(|alias| alias.trim().split_once(':'));
    let classes = flavor
        .extra_specs
        .iter()
        .filter_map(|(key, count)| Some((key.strip_prefix("resources:")?, count.as_str())));
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (device, count) in aliases.chain(classes) {
        if let (Some(name), Ok(count)) = (names.get(device), count.trim().parse::<u64>()) {
            *found.entry(name.clone()).or_default() += count;
        }
    }
    let quantity = |count: u64| Quantity(IntOrString::String(count.to_string()));
    found.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, quantity(count))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template(spec: &Value) -> OpenStackMachineTemplate {
        let annotations = json!({DEVICES: r#"{"a100": "nvidia.com/gpu", "VGPU": "nvidia.com/gpu"}"#});
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
            "metadata": {"name": "t", "annotations": annotations}, "spec": {"template": {"spec": spec}},
        }))
        .unwrap()
    }

    fn flavor(disk_gib: u64) -> Flavor {
        let extra_specs =
            [("pci_passthrough:alias", "a100:2, other:1"), ("resources:VGPU", "1"), ("hw:x", "y")];
        Flavor {
            vcpus: 4,
            ram_mib: 8192,
            disk_gib,
            ephemeral_gib: 100,
            extra_specs: extra_specs.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Flavor::default()
        }
    }

    #[test]
    fn r13_1_r13_2_the_capacity_is_that_of_the_disk_and_of_the_devices() {
        let image = Image { min_disk_gib: 7, ..Image::default() };
        let base = json!({"flavor": {"id": "f"}, "image": {"id": "i"}});
        let with = |key: &str, value: Value| {
            let mut spec = base.clone();
            spec[key] = value;
            spec
        };
        let local = json!([{"name": "data", "sizeGiB": 100, "storage": {"type": "Local"}}]);
        let table = [
            (base.clone(), 20, "20Gi", Some("20Gi")),
            (base.clone(), 0, "7Gi", None),
            (with("rootVolume", json!({"sizeGiB": 50})), 20, "50Gi", Some("50Gi")),
            (with("additionalBlockDevices", local), 20, "120Gi", Some("20Gi")),
        ];
        for (spec, disk, ephemeral, storage) in table {
            let size = Size { flavor: flavor(disk), image: image.clone() };
            let found = json!(capacity(&template(&spec), &size));
            assert_eq!((&found["cpu"], &found["memory"]), (&json!("4"), &json!("8192Mi")));
            assert_eq!(found["ephemeral-storage"], ephemeral);
            assert_eq!(found.get("storage").and_then(Value::as_str), storage);
            assert_eq!(found["nvidia.com/gpu"], "3", "both kinds of devices have one resource name");
            assert_eq!(found.get("other"), None);
        }
    }
}
