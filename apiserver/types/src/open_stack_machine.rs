//! OpenStackMachine: a Nova server and what belongs to it.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, PortOpts, PortStatus, ResolvedPortSpec};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

/// Credentials may change, but not to another region: what was made is in the old one.
pub(crate) const REGION_RULE: &str =
    "(!has(self.region) && !has(oldSelf.region)) || self.region == oldSelf.region";

/// A zone comes from a name or from the Machine, and has a name in just the first case.
const ZONE_RULE: &str = "!has(self.from) || self.from == 'Name' ? has(self.name) : !has(self.name)";

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name"),
    column("ProviderID", "string", ".spec.providerID"),
    column("Machine", "string", ".metadata.ownerReferences[?(@.kind==\"Machine\")].name"),
    AGE,
];

fn schema() -> Value {
    let description = "A Nova server with its ports and volumes.";
    object(
        description,
        Some(structural::<OpenStackMachineSpec>()),
        Some(structural::<OpenStackMachineStatus>()),
        true,
    )
}

kind! {
    /// A Nova server and what belongs to it.
    OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachine",
        plural: "openstackmachines", singular: "openstackmachine", short_names: &["osm"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS, schema,
    }
}

wire! {
    /// What is wanted of a server. Immutable but for `providerID`, `identityRef` and the ports'
    /// `allowedAddressPairs`.
    OpenStackMachineSpec {
        required {
            /// Its flavor.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            flavor: FlavorParam,
            /// Its image.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
        }
        optional {
            /// More disks.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            additional_block_devices: Vec<AdditionalBlockDevice>,
            /// Metadata by config drive.
            config_drive: bool,
            /// A pool to take a floating IP from.
            #[serde(rename = "floatingIPPoolRef")]
            floating_ip_pool_ref: TypedLocalRef,
            /// Credentials; the cluster's when unset.
            identity_ref: OpenStackIdentityReference,
            /// Its ports; one on the cluster's network when unset.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<PortOpts>,
            /// `openstack://<region>/<server id>`; set by the controller.
            #[serde(rename = "providerID")]
            provider_id: String,
            /// Boot from a volume.
            root_volume: RootVolume,
            /// More scheduler hints.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            scheduler_hint_additional_properties: Vec<SchedulerHintAdditionalProperty>,
            /// Security groups of all ports.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<NetworkOrSGParam>,
            /// Server group.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            server_group: ServerGroupParam,
            /// Nova metadata.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
            server_metadata: Vec<ServerMetadata>,
            /// Key pair.
            ssh_key_name: String,
            /// Tags of the server and its ports.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Make its ports trunks.
            trunk: bool,
        }
    }

    /// A further disk.
    AdditionalBlockDevice {
        required {
            /// Name, unique on the server.
            #[schemars(length(min = 1))]
            name: String,
            /// Size. Unit: GiB.
            #[serde(rename = "sizeGiB")]
            #[schemars(range(min = 1))]
            size_gib: i32,
            /// Where its bytes are.
            storage: BlockDeviceStorage,
        }
    }

    /// Where a disk's bytes are.
    BlockDeviceStorage {
        required {
            /// On the host or in Cinder.
            #[serde(rename = "type")]
            kind: BlockDeviceType,
        }
        optional {
            /// For Cinder.
            volume: BlockDeviceVolume,
        }
    }

    /// A Cinder volume.
    BlockDeviceVolume {
        optional {
            /// Its zone.
            availability_zone: VolumeAvailabilityZone,
            /// Its type.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// An object in the same namespace.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    TypedLocalRef {
        required {
            /// Kind.
            kind: String,
            /// Name.
            name: String,
        }
        optional {
            /// API group.
            api_group: String,
        }
    }

    /// Where credentials are.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": REGION_RULE, "message": "region is immutable"}]))]
    OpenStackIdentityReference {
        required {
            /// Entry of the `clouds.yaml`.
            #[schemars(length(min = 1))]
            cloud_name: String,
            /// The Secret or OpenStackClusterIdentity.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Region, over the entry's. Immutable.
            region: String,
            /// What `name` names.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Secret"))]
            kind: IdentityType,
        }
    }

    /// An image, by one of these.
    ImageParam {
        optional {
            /// By name or tags.
            #[schemars(extend("minProperties" = 1))]
            filter: ImageFilter,
            /// By id.
            #[schemars(extend("format" = "uuid"))]
            id: String,
            /// By an Image object.
            image_ref: ImageRef,
        }
    }

    /// By name or tags.
    ImageFilter {
        optional {
            /// Name.
            name: String,
            /// All of these tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// An Image object.
    ImageRef {
        required {
            /// Its name.
            #[schemars(length(min = 1))]
            name: String,
        }
    }

    /// A flavor, by one of these.
    FlavorParam {
        optional {
            /// By name.
            #[schemars(extend("minProperties" = 1))]
            filter: NameFilter,
            /// By id.
            id: String,
        }
    }

    /// By name.
    NameFilter {
        optional {
            /// Name.
            name: String,
        }
    }

    /// A server group, by one of these.
    ServerGroupParam {
        optional {
            /// By name.
            #[schemars(extend("minProperties" = 1))]
            filter: NameFilter,
            /// By id.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// A pair of Nova metadata.
    ServerMetadata {
        required {
            /// Key.
            #[schemars(length(min = 1, max = 255))]
            key: String,
            /// Value.
            #[schemars(length(min = 1, max = 255))]
            value: String,
        }
    }

    /// A volume to boot from.
    RootVolume {
        required {
            /// Size. Unit: GiB.
            #[serde(rename = "sizeGiB")]
            #[schemars(range(min = 1))]
            size_gib: i32,
        }
        optional {
            /// Its zone.
            availability_zone: VolumeAvailabilityZone,
            /// Its type.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Where a volume is.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": ZONE_RULE, "message": "name is required when from is 'Name' or default",
    }]))]
    VolumeAvailabilityZone {
        optional {
            /// From a name, or the Machine's failure domain.
            #[schemars(extend("default" = "Name"))]
            from: VolumeAvailabilityZoneSource,
            /// The name.
            #[schemars(length(min = 1), regex(pattern = "^[^ ]+$"))]
            name: String,
        }
    }

    /// A scheduler hint.
    SchedulerHintAdditionalProperty {
        required {
            /// Its name.
            #[schemars(length(min = 1))]
            name: String,
            /// Its value.
            value: SchedulerHintValue,
        }
    }

    /// A scheduler hint's value: the one that `type` names.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "has(self.type) && self.type == 'Bool' ? has(self.bool) : !has(self.bool)",
            "message": "bool is required when type is Bool, and forbidden otherwise",
        },
        {
            "rule": "has(self.type) && self.type == 'Number' ? has(self.number) : !has(self.number)",
            "message": "number is required when type is Number, and forbidden otherwise",
        },
        {
            "rule": "has(self.type) && self.type == 'String' ? has(self.string) : !has(self.string)",
            "message": "string is required when type is String, and forbidden otherwise",
        },
    ]))]
    SchedulerHintValue {
        required {
            /// Which of the others.
            #[serde(rename = "type")]
            kind: SchedulerHintType,
        }
        optional {
            /// For `Bool`.
            bool: bool,
            /// For `Number`.
            number: i32,
            /// For `String`.
            #[schemars(length(min = 1, max = 255))]
            string: String,
        }
    }

    /// What was observed of a server.
    OpenStackMachineStatus {
        optional {
            /// Its addresses.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            addresses: Vec<NodeAddress>,
            /// Conditions.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Milestones that are passed once.
            initialization: Initialization,
            /// Nova's id of it.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// Nova's word for its state.
            instance_state: String,
            /// Names resolved to ids.
            resolved: ResolvedMachineSpec,
            /// What was made for it.
            resources: MachineResources,
        }
    }

    /// An address.
    NodeAddress {
        required {
            /// The address.
            address: String,
            /// What kind of address.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Milestones that are passed once.
    Initialization {
        optional {
            /// It was made.
            provisioned: bool,
        }
    }

    /// What was made for a server.
    MachineResources {
        optional {
            /// Ports.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<PortStatus>,
        }
    }

    /// Names resolved to ids.
    ResolvedMachineSpec {
        optional {
            /// Flavor.
            #[serde(rename = "flavorID")]
            flavor_id: String,
            /// Image.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Ports.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<ResolvedPortSpec>,
            /// Server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }
}

words! {
    /// Where a disk's bytes are.
    BlockDeviceType {
        /// On the host.
        #[default]
        Local,
        /// In Cinder.
        Volume,
    }

    /// What an identity reference names.
    IdentityType {
        /// A Secret.
        #[default]
        Secret,
        /// An OpenStackClusterIdentity.
        ClusterIdentity,
    }

    /// Where a volume's zone comes from.
    VolumeAvailabilityZoneSource {
        /// From a name.
        #[default]
        Name,
        /// From the Machine's failure domain.
        Machine,
    }

    /// The type of a scheduler hint.
    SchedulerHintType {
        /// True or false.
        #[default]
        Bool,
        /// A text.
        String,
        /// A number.
        Number,
    }
}
