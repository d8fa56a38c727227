//! Storage of a server: root volume and additional block devices.

use crate::object::wire;
use crate::shared::words;

/// CEL rule: an availability zone has a name if, and only if, its source is a name.
const ZONE_RULE: &str = "!has(self.from) || self.from == 'Name' ? has(self.name) : !has(self.name)";

wire! {
    /// Additional block device of a server.
    AdditionalBlockDevice {
        required {
            /// Name of the block device, unique on the server. It is also the device's tag in Nova.
            #[schemars(length(min = 1))]
            name: String,
            /// Size of the volume or disk. Unit: GiB. Minimum: 1.
            #[serde(rename = "sizeGiB")]
            #[schemars(range(min = 1))]
            size_gib: i32,
            /// Storage of the block device: local disk or Cinder volume.
            storage: BlockDeviceStorage,
        }
    }

    /// Storage of a block device.
    BlockDeviceStorage {
        required {
            /// Type of storage: Local or Volume.
            #[serde(rename = "type")]
            kind: BlockDeviceType,
        }
        optional {
            /// Settings of the Cinder volume. Used only if the type is Volume.
            volume: BlockDeviceVolume,
        }
    }

    /// Settings of a Cinder volume.
    BlockDeviceVolume {
        optional {
            /// Cinder availability zone of the volume.
            availability_zone: VolumeAvailabilityZone,
            /// Cinder type of the volume. Default: chosen by Cinder.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Root volume in Cinder.
    RootVolume {
        required {
            /// Size of the volume or disk. Unit: GiB. Minimum: 1.
            #[serde(rename = "sizeGiB")]
            #[schemars(range(min = 1))]
            size_gib: i32,
        }
        optional {
            /// Cinder availability zone of the volume.
            availability_zone: VolumeAvailabilityZone,
            /// Cinder type of the volume. Default: chosen by Cinder.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Cinder availability zone of a volume.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": ZONE_RULE, "message": "name is required when from is 'Name' or default",
    }]))]
    VolumeAvailabilityZone {
        optional {
            /// Source of the zone: Name, or Machine for the failure domain of the Machine. Default: Name.
            #[schemars(extend("default" = "Name"))]
            from: VolumeAvailabilityZoneSource,
            /// Name of the zone. Required if `from` is Name, and forbidden otherwise.
            #[schemars(length(min = 1), regex(pattern = "^[^ ]+$"))]
            name: String,
        }
    }
}

words! {
    /// Type of storage of a block device.
    BlockDeviceType {
        /// Disk on the hypervisor host.
        #[default]
        Local,
        /// Volume in Cinder.
        Volume,
    }

    /// Source of a volume's availability zone.
    VolumeAvailabilityZoneSource {
        /// Explicit name.
        #[default]
        Name,
        /// Failure domain of the Machine.
        Machine,
    }
}
