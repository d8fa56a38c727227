//! Desired cloud resources of an OpenStackMachine, computed from API objects alone.

use apiserver_types::{
    AdditionalBlockDevice, BlockDeviceType, Machine, OpenStackCluster, OpenStackMachine, PortOpts,
    VolumeAvailabilityZone, VolumeAvailabilityZoneSource,
};
use controllers_infrastructure::BlockDevice;
use controllers_runtime::OwnershipTag;

use crate::names;
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
        Some(suffix) if !suffix.is_empty() => names::shortened(format!("{machine}-{suffix}")),
        _ => names::shortened(format!("{machine}-{index}")),
    }
}

/// Returns the volumes of a machine, the root volume first.
pub(super) fn volumes(
    object: &OpenStackMachine,
    machine: &Machine,
    cluster: &OpenStackCluster,
) -> Vec<VolumeWish> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let zone = |zone: Option<&VolumeAvailabilityZone>| match zone {
        Some(zone) if zone.from == Some(VolumeAvailabilityZoneSource::Machine) => {
            // Cinder has no hosts of servers.
            availability_zone(machine, cluster).map(|zone| without_host(&zone).to_owned())
        }
        Some(zone) => zone.name.clone(),
        None => None,
    };
    let root = object.spec.root_volume.as_ref().map(|root| VolumeWish {
        name: names::shortened(format!("{name}-root")),
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
            name: names::shortened(format!("{name}-{}", device.name)),
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

/// Returns the zone of `zone:host` and `zone:host:node`, by which administrators name a compute host, too.
fn without_host(zone: &str) -> &str {
    zone.split(':').next().unwrap_or(zone)
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
    let later = object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::TAGS));
    let later = later.map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let own = later.as_ref().or(object.spec.tags.as_ref());
    let all = cluster.spec.tags.iter().chain(own).chain(port.and_then(|port| port.tags.as_ref()));
    for tag in all.flatten() {
        if !tag.is_empty() && !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

/// Returns the tags of volumes as their metadata has them, which is one text; `None` without tags.
pub(super) fn volume_tags(object: &OpenStackMachine, cluster: &OpenStackCluster) -> Option<String> {
    let tags = tags(object, cluster, None);
    (!tags.is_empty()).then(|| names::shortened(tags.join(",")))
}

/// Returns the tags of a server: those that identify its owner and its cluster first. The others are those that Nova does
/// not accept.
pub(super) fn server_tags(
    tag: &OwnershipTag,
    object: &OpenStackMachine,
    cluster: &OpenStackCluster,
) -> (Vec<String>, Vec<String>) {
    let own = names::cluster_tag(cluster).into_iter().chain(tags(object, cluster, None));
    for_nova(tag.tags(Some(&own.collect::<Vec<_>>())))
}

/// Longest tag that Nova accepts. Unit: characters.
const LONGEST_TAG: usize = 60;

/// Maximum of a server's tags in Nova.
const MOST_TAGS: usize = 50;

/// Splits tags into those that Nova accepts for a server, and the others. Neutron accepts all of them.
pub(super) fn for_nova(tags: Vec<String>) -> (Vec<String>, Vec<String>) {
    let fits = |tag: &String| tag.chars().count() <= LONGEST_TAG && !tag.contains([',', '/']);
    let (mut kept, mut left): (Vec<_>, Vec<_>) = tags.into_iter().partition(fits);
    if kept.len() > MOST_TAGS {
        left.extend(kept.split_off(MOST_TAGS));
    }
    (kept, left)
}

/// Returns true if a port is the parent of a trunk: by its own setting, else by that of the machine.
pub(super) fn is_trunk(object: &OpenStackMachine, opts: &PortOpts) -> bool {
    opts.trunk.or(object.spec.trunk) == Some(true)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        BlockDeviceStorage, BlockDeviceVolume, MachineSpec, OpenStackClusterSpec, OpenStackMachineSpec,
    };

    use super::*;

    #[test]
    fn r2_8_tags_that_nova_refuses_stay_off_the_server() {
        let tags = ["a", "team/a", "x,y", &"l".repeat(61), &"l".repeat(60)].map(str::to_owned);
        let (kept, left) = for_nova(tags.to_vec());
        assert_eq!(kept, ["a".to_owned(), "l".repeat(60)]);
        assert_eq!(left, ["team/a".to_owned(), "x,y".to_owned(), "l".repeat(61)]);
        let many: Vec<String> = (0..52).map(|number| number.to_string()).collect();
        assert_eq!(for_nova(many).1, ["50", "51"]);
    }

    #[test]
    fn a_volume_is_in_the_zone_of_its_machine_only_if_the_server_asks_for_one() {
        let from_machine = VolumeAvailabilityZone {
            from: Some(VolumeAvailabilityZoneSource::Machine),
            ..VolumeAvailabilityZone::default()
        };
        let named =
            VolumeAvailabilityZone { name: Some("z9".to_owned()), ..VolumeAvailabilityZone::default() };
        let device = |name: &str, zone: VolumeAvailabilityZone| AdditionalBlockDevice {
            name: name.to_owned(),
            size_gib: 1,
            storage: BlockDeviceStorage {
                kind: BlockDeviceType::Volume,
                volume: Some(BlockDeviceVolume {
                    availability_zone: Some(zone),
                    ..BlockDeviceVolume::default()
                }),
            },
        };
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        object.spec.additional_block_devices = Some(vec![device("a", from_machine), device("b", named)]);
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.failure_domain = Some("z1".to_owned());
        let mut cluster = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        let zones = |machine: &Machine, cluster: &OpenStackCluster| -> Vec<Option<String>> {
            volumes(&object, machine, cluster).into_iter().map(|volume| volume.zone).collect()
        };
        let text = |zone: &str| Some(zone.to_owned());
        assert_eq!(zones(&machine, &cluster), [text("z1"), text("z9")]);
        machine.spec.failure_domain = Some("z1:host7".to_owned());
        assert_eq!(zones(&machine, &cluster), [text("z1"), text("z9")], "R14.3: a host of Nova");
        assert_eq!(availability_zone(&machine, &cluster), text("z1:host7"));
        machine.metadata.labels = Some([(CONTROL_PLANE_LABEL.to_owned(), String::new())].into());
        cluster.spec.control_plane_omit_availability_zone = Some(true);
        assert_eq!(zones(&machine, &cluster), [None, text("z9")]);
    }

    #[test]
    fn the_setting_of_a_port_precedes_that_of_its_machine() {
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        let port = |trunk| PortOpts { trunk, ..PortOpts::default() };
        assert!(!is_trunk(&object, &port(None)) && is_trunk(&object, &port(Some(true))));
        object.spec.trunk = Some(true);
        assert!(is_trunk(&object, &port(None)) && !is_trunk(&object, &port(Some(false))));
    }
}
