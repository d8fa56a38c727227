//! Blueprint of the new server, which is stored before the old one is deleted.

use std::collections::BTreeMap;

use apiserver_types::{
    BlockDeviceType, BlockDeviceVolume, OpenStackMachineSpec, SchedulerHintValue, VolumeAvailabilityZone,
    VolumeAvailabilityZoneSource,
};
use controllers_infrastructure::{BlockDevice, NewServer, NewVolume, PortQuery, Server};
use controllers_runtime::{JOURNAL_ANNOTATION, OwnershipTag, ReconcileError};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::core::target::{Target, missing};

/// Label of control plane Machines.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Key in a volume's metadata with the operation that created it.
pub(super) const OPERATION_KEY: &str = "capstan-operation";

/// Properties of the new server, except its image and its user data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Blueprint {
    /// Id of the server that it replaces.
    pub old: String,
    /// Name.
    pub name: String,
    /// Flavor id.
    pub flavor: String,
    /// Port ids, in order: the old server's, with its addresses.
    pub ports: Vec<String>,
    /// Key pair.
    pub key_name: Option<String>,
    /// Metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags, with the owner's ownership tag and the operation's.
    pub tags: Vec<String>,
    /// Config drive.
    pub config_drive: Option<bool>,
    /// Zone.
    pub zone: Option<String>,
    /// Server group id.
    pub server_group: Option<String>,
    /// Scheduler hints; values are JSON.
    pub hints: BTreeMap<String, String>,
    /// Disks beside a local root disk, in boot order.
    pub disks: Vec<Disk>,
}

/// Disk of the new server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Disk {
    /// Name of its volume.
    pub name: String,
    /// It is a volume, and not on the host.
    pub volume: bool,
    /// The server boots from it.
    pub root: bool,
    /// Size, GiB.
    pub size_gib: i32,
    /// Volume type.
    pub kind: Option<String>,
    /// Volume's zone.
    pub zone: Option<String>,
    /// Tag shown in the guest's metadata.
    pub tag: Option<String>,
}

impl Blueprint {
    /// Reads the stored blueprint, if there is one.
    pub(crate) fn read(target: &Target) -> Option<Self> {
        serde_json::from_str(target.operation.annotations().get(JOURNAL_ANNOTATION)?).ok()
    }

    /// Creates a blueprint from the old server and its OpenStackMachine.
    pub(crate) async fn draw(target: &Target, old: &Server) -> Result<Self, ReconcileError> {
        let spec = &target.infrastructure.spec;
        let machine_zone = target.machine.spec.failure_domain.as_deref();
        let omitted = target.machine.labels().contains_key(CONTROL_PLANE_LABEL) && target.omits_zone;
        Ok(Self {
            old: old.id.clone(),
            name: old.name.clone(),
            flavor: flavor(target).await?,
            ports: ports(target, old).await?,
            key_name: spec.ssh_key_name.clone().filter(|name| !name.is_empty()),
            metadata: old.metadata.clone(),
            tags: tags(target, old),
            config_drive: spec.config_drive,
            server_group: server_group(target).await?,
            hints: hints(spec),
            disks: disks(spec, &old.name, machine_zone),
            zone: machine_zone.filter(|_| !omitted).map(str::to_owned),
        })
    }

    /// Stores the blueprint, once.
    pub(crate) async fn write(&self, target: &Target) -> Result<(), ReconcileError> {
        let text = json!(self).to_string();
        let patch = json!({"metadata": {
            "resourceVersion": target.operation.metadata.resource_version,
            "annotations": {JOURNAL_ANNOTATION: text},
        }});
        let api: Api<apiserver_types::MachineOperation> =
            Api::namespaced(target.context.client.clone(), target.namespace());
        api.patch(target.name(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Returns the call that creates the server. `volumes`: ids by name.
    pub(crate) fn server(
        &self,
        image: &str,
        user_data: Vec<u8>,
        volumes: &BTreeMap<String, String>,
    ) -> NewServer {
        let from_volume = self.disks.iter().any(|disk| disk.root);
        let device = |disk: &Disk| BlockDevice {
            volume_id: disk.volume.then(|| volumes.get(&disk.name).cloned()).flatten(),
            boot_index: if disk.root { 0 } else { -1 },
            size_gib: (!disk.volume).then_some(disk.size_gib),
            tag: disk.tag.clone(),
            delete_on_termination: true,
        };
        NewServer {
            name: self.name.clone(),
            image_id: (!from_volume).then(|| image.to_owned()),
            flavor_id: self.flavor.clone(),
            ports: self.ports.clone(),
            key_name: self.key_name.clone(),
            metadata: self.metadata.clone(),
            tags: self.tags.clone(),
            config_drive: self.config_drive,
            user_data: Some(user_data),
            availability_zone: self.zone.clone(),
            server_group_id: self.server_group.clone(),
            scheduler_hints: self.hints.clone(),
            block_devices: self.disks.iter().map(device).collect(),
        }
    }

    /// Returns the tag that names the cluster of the Machine, if the old server has one.
    pub(crate) fn cluster_tag(&self) -> Option<&String> {
        self.tags.iter().find(|tag| tag.starts_with(OwnershipTag::CLUSTER_KEY))
    }

    /// Returns the disks that are volumes.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Disk> {
        self.disks.iter().filter(|disk| disk.volume)
    }
}

impl Disk {
    /// Returns the call that creates the volume.
    pub(crate) fn volume(&self, target: &Target, image: &str, cluster_tag: Option<&String>) -> NewVolume {
        let owner = OwnershipTag::of(&target.infrastructure);
        NewVolume {
            name: self.name.clone(),
            description: owner.description(),
            size_gib: self.size_gib,
            volume_type: self.kind.clone(),
            availability_zone: self.zone.clone(),
            image_id: self.root.then(|| image.to_owned()),
            metadata: BTreeMap::from_iter(
                [
                    (OwnershipTag::METADATA_KEY.to_owned(), owner.text()),
                    (OPERATION_KEY.to_owned(), operation_tag(target)),
                ]
                .into_iter()
                .chain(cluster_tag.map(|tag| (OwnershipTag::CLUSTER_KEY.to_owned(), tag.clone()))),
            ),
        }
    }
}

/// Ownership tag of the Machine's server and its parts.
pub(super) fn owner_tag(target: &Target) -> String {
    OwnershipTag::of(&target.infrastructure).text()
}

/// Ownership tag of what this operation creates, beside the owner's.
pub(super) fn operation_tag(target: &Target) -> String {
    OwnershipTag::of(&target.operation).text()
}

/// Returns the old server's tags, also that of its cluster, without the tag of an earlier operation.
fn tags(target: &Target, old: &Server) -> Vec<String> {
    let updates = [owner_tag(target), operation_tag(target)];
    let is_kept =
        |tag: &&String| !tag.starts_with(OwnershipTag::PREFIX) || tag.starts_with(OwnershipTag::CLUSTER_KEY);
    let others = old.tags.iter().filter(is_kept).cloned();
    others.chain(updates).collect()
}

async fn flavor(target: &Target) -> Result<String, ReconcileError> {
    let infrastructure = &target.infrastructure;
    let resolved = infrastructure.status.as_ref().and_then(|status| status.resolved.as_ref());
    let known = resolved.and_then(|resolved| resolved.flavor_id.clone());
    if let Some(id) = known.or_else(|| infrastructure.spec.flavor.id.clone()) {
        return Ok(id);
    }
    let name = infrastructure.spec.flavor.filter.as_ref().and_then(|filter| filter.name.clone());
    let name = name.unwrap_or_default();
    let all = target.cloud.flavors().await?;
    let found = all.into_iter().find(|flavor| flavor.name == name);
    found
        .map(|flavor| flavor.id)
        .ok_or_else(|| missing(format!("there is no flavor {name:?}; waiting for it")))
}

async fn server_group(target: &Target) -> Result<Option<String>, ReconcileError> {
    let infrastructure = &target.infrastructure;
    let resolved = infrastructure.status.as_ref().and_then(|status| status.resolved.as_ref());
    let known = resolved.and_then(|resolved| resolved.server_group_id.clone());
    let Some(requested) = &infrastructure.spec.server_group else { return Ok(known) };
    if let Some(id) = known.or_else(|| requested.id.clone()) {
        return Ok(Some(id));
    }
    let name = requested.filter.as_ref().and_then(|filter| filter.name.clone()).unwrap_or_default();
    let found = target.cloud.server_groups().await?.into_iter().find(|group| group.name == name);
    let absent = || missing(format!("there is no server group {name:?}; waiting for it"));
    found.map(|group| Some(group.id)).ok_or_else(absent)
}

/// Returns the old server's ports: those that were created for it, which survive it.
async fn ports(target: &Target, old: &Server) -> Result<Vec<String>, ReconcileError> {
    let status = target.infrastructure.status.as_ref();
    let made = status.and_then(|status| status.resources.as_ref()?.ports.as_ref());
    if let Some(made) = made.filter(|made| !made.is_empty()) {
        return Ok(made.iter().map(|port| port.id.clone()).collect());
    }
    let query = PortQuery { device_id: Some(old.id.clone()), ..PortQuery::default() };
    Ok(target.cloud.ports(&query).await?.into_iter().map(|port| port.id).collect())
}

fn hints(spec: &OpenStackMachineSpec) -> BTreeMap<String, String> {
    let json = |value: &SchedulerHintValue| match (value.bool, value.number, &value.string) {
        (Some(value), _, _) => json!(value),
        (_, Some(value), _) => json!(value),
        (_, _, value) => json!(value),
    };
    let hints = spec.scheduler_hint_additional_properties.iter().flatten();
    hints.map(|hint| (hint.name.clone(), json(&hint.value).to_string())).collect()
}

fn disks(spec: &OpenStackMachineSpec, server: &str, machine_zone: Option<&str>) -> Vec<Disk> {
    let zone = |zone: Option<&VolumeAvailabilityZone>| {
        zone.and_then(|zone| match zone.from.unwrap_or_default() {
            VolumeAvailabilityZoneSource::Name => zone.name.clone(),
            VolumeAvailabilityZoneSource::Machine => machine_zone.map(str::to_owned),
        })
    };
    let root = spec.root_volume.iter().map(|root| Disk {
        name: format!("{server}-root"),
        volume: true,
        root: true,
        size_gib: root.size_gib,
        kind: root.kind.clone(),
        zone: zone(root.availability_zone.as_ref()),
        tag: Some("root".to_owned()),
    });
    let more = spec.additional_block_devices.iter().flatten().map(|device| {
        let volume: Option<&BlockDeviceVolume> = device.storage.volume.as_ref();
        Disk {
            name: format!("{server}-{}", device.name),
            volume: device.storage.kind == BlockDeviceType::Volume,
            root: false,
            size_gib: device.size_gib,
            kind: volume.and_then(|volume| volume.kind.clone()),
            zone: zone(volume.and_then(|volume| volume.availability_zone.as_ref())),
            tag: Some(device.name.clone()),
        }
    });
    // Volumes first, as the server's reconciler has them.
    let (volumes, local): (Vec<Disk>, Vec<Disk>) = root.chain(more).partition(|disk| disk.volume);
    volumes.into_iter().chain(local).collect()
}
