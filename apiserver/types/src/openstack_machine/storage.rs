//! What a server boots from and writes to.

use crate::object::wire;
use crate::shared::words;

/// A zone comes from a name or from the Machine, and has a name in just the first case.
const ZONE_RULE: &str = "!has(self.from) || self.from == 'Name' ? has(self.name) : !has(self.name)";

wire! {
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

    /// Where a volume's zone comes from.
    VolumeAvailabilityZoneSource {
        /// From a name.
        #[default]
        Name,
        /// From the Machine's failure domain.
        Machine,
    }
}
