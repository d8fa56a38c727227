//! OpenStackMachine: a Nova server and what belongs to it.

mod hints;
mod status;
mod storage;

use serde_json::Value;

pub use hints::*;
pub use status::*;
pub use storage::*;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, PortOpts};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::words;

/// Credentials may change, but not to another region: what was made is in the old one.
pub(crate) const REGION_RULE: &str =
    "(!has(self.region) && !has(oldSelf.region)) || self.region == oldSelf.region";

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
    OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachine",
        plural: "openstackmachines", singular: "openstackmachine", short_names: &["osm"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
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
}

words! {
    /// What an identity reference names.
    IdentityType {
        /// A Secret.
        #[default]
        Secret,
        /// An OpenStackClusterIdentity.
        ClusterIdentity,
    }
}
