//! OpenStackMachine: Nova server with its ports and volumes.

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

/// CEL rule: the region is immutable. Credentials can change, but existing resources stay in the old region.
pub(crate) const REGION_RULE: &str =
    "(!has(self.region) && !has(oldSelf.region)) || self.region == oldSelf.region";

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "Cluster that the server is part of.",
    ),
    column(
        "ProviderID",
        "string",
        ".spec.providerID",
        "Provider id, which contains the id of the Nova server.",
    ),
    column(
        "Machine",
        "string",
        ".metadata.ownerReferences[?(@.kind==\"Machine\")].name",
        "Machine that owns this object.",
    ),
    AGE,
];

fn schema() -> Value {
    let description = "A Nova server with its ports and volumes.";
    object(
        description,
        Some(structural::<OpenStackMachineSpec>()),
        Some(structural::<OpenStackMachineStatus>()),
        false,
    )
}

kind! {
    /// Nova server with its ports and volumes.
    OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachine",
        plural: "openstackmachines", singular: "openstackmachine", short_names: &["osm"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a server. Immutable except for `providerID`, `identityRef` and the ports'
    /// `allowedAddressPairs`.
    OpenStackMachineSpec {
        required {
            /// Nova flavor of the server.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            flavor: FlavorParam,
            /// Image that the server boots from.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
        }
        optional {
            /// Additional block devices of the server.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            additional_block_devices: Vec<AdditionalBlockDevice>,
            /// Config drive. If true, Nova attaches a drive with the metadata. Default: the setting of the
            /// cloud.
            config_drive: bool,
            /// Reference to a pool that supplies a floating IP for the server.
            #[serde(rename = "floatingIPPoolRef")]
            floating_ip_pool_ref: TypedLocalRef,
            /// Reference to the OpenStack credentials. Default: the credentials of the OpenStackCluster.
            identity_ref: OpenStackIdentityReference,
            /// Ports of the server. Default: one port on the network of the cluster.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<PortOpts>,
            /// Provider id of the server: `openstack://<region>/<server id>`. The controller sets it.
            #[serde(rename = "providerID")]
            provider_id: String,
            /// Root volume in Cinder. If unset, the server boots from the local disk of its host.
            root_volume: RootVolume,
            /// Additional scheduler hints that are sent to Nova.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            scheduler_hint_additional_properties: Vec<SchedulerHintAdditionalProperty>,
            /// Security groups of all ports, in addition to the list of the port or, without one, to the
            /// managed group of the role.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<NetworkOrSGParam>,
            /// Nova server group of the server, which controls its placement.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            server_group: ServerGroupParam,
            /// Metadata of the server in Nova, as key-value pairs.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
            server_metadata: Vec<ServerMetadata>,
            /// Name of the Nova key pair that is authorized for SSH.
            ssh_key_name: String,
            /// Tags of the server and of its ports.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Trunk mode of the ports. If true, each port is the parent of a trunk unless the port has its
            /// own setting. Default: false.
            trunk: bool,
        }
    }

    /// Reference to an object in the same namespace.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    TypedLocalRef {
        required {
            /// Kind of the object.
            kind: String,
            /// Name of the object.
            name: String,
        }
        optional {
            /// API group of the object. Unset for the core group.
            api_group: String,
        }
    }

    /// Reference to OpenStack credentials.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": REGION_RULE, "message": "region is immutable"}]))]
    OpenStackIdentityReference {
        required {
            /// Name of the entry in the `clouds.yaml`.
            #[schemars(length(min = 1))]
            cloud_name: String,
            /// Name of the Secret or of the OpenStackClusterIdentity.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// OpenStack region. It overrides the region of the `clouds.yaml`. Immutable.
            region: String,
            /// Type of the reference: Secret or ClusterIdentity. Default: Secret.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Secret"))]
            kind: IdentityType,
        }
    }

    /// Image, by id, by filter or by reference. Exactly one field is set.
    ImageParam {
        optional {
            /// Selection by name or tags. It must match exactly one image.
            #[schemars(extend("minProperties" = 1))]
            filter: ImageFilter,
            /// Glance id, which is a UUID.
            #[schemars(extend("format" = "uuid"))]
            id: String,
            /// Reference to an Image object in the same namespace.
            image_ref: ImageRef,
        }
    }

    /// Selection of an image by name or tags. All set attributes match.
    ImageFilter {
        optional {
            /// Name of the image. The match is exact.
            name: String,
            /// Required tags. Resources that have all of these tags match.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// Reference to an Image object in the same namespace.
    ImageRef {
        required {
            /// Name of the Image object.
            #[schemars(length(min = 1))]
            name: String,
        }
    }

    /// Flavor, by id or by name. Exactly one field is set.
    FlavorParam {
        optional {
            /// Selection by name.
            #[schemars(extend("minProperties" = 1))]
            filter: NameFilter,
            /// Nova id of the flavor.
            id: String,
        }
    }

    /// Selection by name.
    NameFilter {
        optional {
            /// Name of the resource. The match is exact.
            name: String,
        }
    }

    /// Server group, by id or by name. Exactly one field is set.
    ServerGroupParam {
        optional {
            /// Selection by name.
            #[schemars(extend("minProperties" = 1))]
            filter: NameFilter,
            /// Nova id of the server group, which is a UUID.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// Key-value pair of a server's metadata.
    ServerMetadata {
        required {
            /// Key of the pair.
            #[schemars(length(min = 1, max = 255))]
            key: String,
            /// Value of the pair.
            #[schemars(length(min = 1, max = 255))]
            value: String,
        }
    }
}

words! {
    /// Type of a credential reference.
    IdentityType {
        /// Secret in the same namespace.
        #[default]
        Secret,
        /// OpenStackClusterIdentity, which several namespaces share.
        ClusterIdentity,
    }
}
