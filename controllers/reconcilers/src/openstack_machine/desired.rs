//! Desired cloud resources of an OpenStackMachine, computed from API objects alone.

use apiserver_types::{
    AdditionalBlockDevice, BlockDeviceType, Machine, OpenStackCluster, OpenStackMachine, PortOpts,
    VolumeAvailabilityZone, VolumeAvailabilityZoneSource,
};
use controllers_infrastructure::BlockDevice;

/// Label of control plane Machines.
pub(super) use crate::names::CONTROL_PLANE_LABEL;

/// Desired Cinder volume.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VolumeWish {
    pub name: String,
    pub size_gib: i32,
    pub kind: Option<String>,
    pub zone: Option<String>,
    /// It contains the image, and the server boots from it.
    pub root: bool,
    /// Device tag.
    pub tag: String,
}

/// Returns the port options of a machine: those of its spec, or one on the cluster's network.
pub(super) fn ports(object: &OpenStackMachine) -> Vec<PortOpts> {
    match object.spec.ports.as_deref() {
        Some(ports) if !ports.is_empty() => ports.to_vec(),
        _ => vec![PortOpts::default()],
    }
}

/// Returns a port's name: the machine's with the port's suffix or index.
pub(super) fn port_name(object: &OpenStackMachine, index: usize, opts: &PortOpts) -> String {
    let machine = object.metadata.name.as_deref().unwrap_or_default();
    match opts.name_suffix.as_deref() {
        Some(suffix) if !suffix.is_empty() => format!("{machine}-{suffix}"),
        _ => format!("{machine}-{index}"),
    }
}

/// Returns the volumes of a machine, the root volume first.
pub(super) fn volumes(object: &OpenStackMachine, machine: &Machine) -> Vec<VolumeWish> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let zone = |zone: Option<&VolumeAvailabilityZone>| match zone {
        Some(zone) if zone.from == Some(VolumeAvailabilityZoneSource::Machine) => {
            machine.spec.failure_domain.clone()
        }
        Some(zone) => zone.name.clone(),
        None => None,
    };
    let root = object.spec.root_volume.as_ref().map(|root| VolumeWish {
        name: format!("{name}-root"),
        size_gib: root.size_gib,
        kind: root.kind.clone(),
        zone: zone(root.availability_zone.as_ref()),
        root: true,
        tag: "root".to_owned(),
    });
    let further = object.spec.additional_block_devices.iter().flatten();
    let further = further.filter(|device| device.storage.kind == BlockDeviceType::Volume).map(|device| {
        let volume = device.storage.volume.clone().unwrap_or_default();
        VolumeWish {
            name: format!("{name}-{}", device.name),
            size_gib: device.size_gib,
            zone: zone(volume.availability_zone.as_ref()),
            kind: volume.kind,
            root: false,
            tag: device.name.clone(),
        }
    });
    root.into_iter().chain(further).collect()
}

/// Returns the disks of a server: its volumes, whose ids are known, and local ones.
pub(super) fn block_devices(
    object: &OpenStackMachine,
    volumes: &[VolumeWish],
    id_of: impl Fn(&str) -> Option<String>,
) -> Vec<BlockDevice> {
    let volumes = volumes.iter().map(|volume| BlockDevice {
        volume_id: id_of(&volume.name),
        boot_index: if volume.root { 0 } else { -1 },
        size_gib: None,
        tag: Some(volume.tag.clone()),
        delete_on_termination: true,
    });
    let local = |device: &&AdditionalBlockDevice| device.storage.kind == BlockDeviceType::Local;
    let local =
        object.spec.additional_block_devices.iter().flatten().filter(local).map(|device| BlockDevice {
            volume_id: None,
            boot_index: -1,
            size_gib: Some(device.size_gib),
            tag: Some(device.name.clone()),
            delete_on_termination: true,
        });
    volumes.chain(local).collect()
}

/// Returns true if a Machine belongs to a control plane.
pub(super) fn is_control_plane(machine: &Machine) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL))
}

/// Returns the requested availability zone of a server.
pub(super) fn availability_zone(machine: &Machine, cluster: &OpenStackCluster) -> Option<String> {
    let omitted =
        is_control_plane(machine) && cluster.spec.control_plane_omit_availability_zone == Some(true);
    machine.spec.failure_domain.clone().filter(|_| !omitted)
}

/// Returns the tags of the server and its ports, beside the ownership tag.
pub(super) fn tags(
    object: &OpenStackMachine,
    cluster: &OpenStackCluster,
    port: Option<&PortOpts>,
) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    let all = cluster.spec.tags.iter().chain(object.spec.tags.iter());
    for tag in all.chain(port.and_then(|port| port.tags.as_ref())).flatten() {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

/// Describes a field of the spec that is not supported yet, if there is one.
pub(super) fn unsupported(object: &OpenStackMachine) -> Option<String> {
    let trunk = object.spec.trunk == Some(true)
        || object.spec.ports.iter().flatten().any(|port| port.trunk == Some(true));
    if trunk {
        return Some("spec.trunk: trunk ports are not supported yet. Set it to false".to_owned());
    }
    if object.spec.floating_ip_pool_ref.is_some() {
        return Some("spec.floatingIPPoolRef: floating IP pools are not supported yet. Remove it".to_owned());
    }
    if object.spec.image.image_ref.is_some() {
        return Some("spec.image.imageRef: Image objects are not served. Use filter or id".to_owned());
    }
    None
}
