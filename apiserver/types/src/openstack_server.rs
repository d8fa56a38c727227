//! OpenStackServer: one Nova server without Cluster API objects.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, PortOpts, PortStatus, ResolvedPortSpec};
use crate::object::{kind, wire};
use crate::openstack_machine::{
    AdditionalBlockDevice, ImageParam, NodeAddress, OpenStackIdentityReference, RootVolume,
    SchedulerHintAdditionalProperty, ServerGroupParam, ServerMetadata, TypedLocalRef,
};
use crate::schema::{object, structural};
use crate::shared::Condition;

const COLUMNS: &[Column] = &[
    column(
        "InstanceState",
        "string",
        ".status.instanceState",
        "State of the server in Nova, for example ACTIVE.",
    ),
    column("Ready", "string", ".status.ready", "The server can be used."),
    column("InstanceID", "string", ".status.instanceID", "Id of the server in Nova."),
    AGE,
];

fn schema() -> Value {
    object(
        "Nova server with its ports and volumes.",
        Some(structural::<OpenStackServerSpec>()),
        Some(structural::<OpenStackServerStatus>()),
        false,
    )
}

kind! {
    /// One Nova server without Cluster API objects.
    OpenStackServer, OpenStackServerSpec, OpenStackServerStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackServer",
        plural: "openstackservers", singular: "openstackserver", short_names: &["oss"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a server. Immutable except for `identityRef`.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.flavor) || has(self.flavorID))",
        "message": "at least one of flavor or flavorID must be set",
    }]))]
    OpenStackServerSpec {
        required {
            /// Reference to the OpenStack credentials.
            identity_ref: OpenStackIdentityReference,
            /// Image that the server boots from.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
            /// Ports of the server.
            ports: Vec<PortOpts>,
            /// Name of the Nova key pair that is authorized for SSH.
            ssh_key_name: String,
        }
        optional {
            /// Additional block devices of the server.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            additional_block_devices: Vec<AdditionalBlockDevice>,
            /// Nova availability zone of the server.
            availability_zone: String,
            /// Config drive. If true, Nova attaches a drive with the metadata. Default: the setting of the
            /// cloud.
            config_drive: bool,
            /// Name of the Nova flavor. Either `flavor` or `flavorID` is required.
            #[schemars(length(min = 1))]
            flavor: String,
            /// Id of the Nova flavor. It takes precedence over `flavor`.
            #[serde(rename = "flavorID")]
            #[schemars(length(min = 1))]
            flavor_id: String,
            /// Reference to a pool that supplies a floating IP for the server.
            #[serde(rename = "floatingIPPoolRef")]
            floating_ip_pool_ref: TypedLocalRef,
            /// Root volume in Cinder. If unset, the server boots from the local disk of its host.
            root_volume: RootVolume,
            /// Additional scheduler hints that are sent to Nova.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            scheduler_hint_additional_properties: Vec<SchedulerHintAdditionalProperty>,
            /// Security groups of all ports that have none of their own.
            security_groups: Vec<NetworkOrSGParam>,
            /// Nova server group of the server, which controls its placement.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            server_group: ServerGroupParam,
            /// Metadata of the server in Nova, as key-value pairs.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
            server_metadata: Vec<ServerMetadata>,
            /// Tags of the server and of its ports.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Trunk mode of the ports. If true, each port is the parent of a trunk unless the port has its
            /// own setting. Default: false.
            trunk: bool,
            /// Reference to the Secret with the user data of the server.
            user_data_ref: UserDataRef,
        }
    }

    /// Reference to a Secret with user data.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    UserDataRef {
        optional {
            /// Name of the Secret.
            #[schemars(extend("default" = ""))]
            name: String,
        }
    }

    /// Observed state of a server.
    OpenStackServerStatus {
        required {
            /// Readiness of the server. True if it is active. Default: false.
            #[schemars(extend("default" = false))]
            ready: bool,
        }
        optional {
            /// Addresses of the server.
            addresses: Vec<NodeAddress>,
            /// Conditions, at most one per type.
            conditions: Vec<Condition>,
            /// Nova id of the server.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// State of the server in Nova, e.g. `ACTIVE`.
            instance_state: String,
            /// Parameters of the server, with all names and filters resolved to ids.
            resolved: ResolvedServerSpec,
            /// OpenStack resources that were created for the server.
            resources: ServerResources,
        }
    }

    /// Parameters of a server, with all names and filters resolved to ids.
    ResolvedServerSpec {
        optional {
            /// Nova id of the flavor.
            #[serde(rename = "flavorID")]
            flavor_id: String,
            /// Glance id of the image.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Ports of the server.
            ports: Vec<ResolvedPortSpec>,
            /// Nova id of the server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }

    /// OpenStack resources that were created for a server.
    ServerResources {
        optional {
            /// Ports of the server.
            ports: Vec<PortStatus>,
        }
    }
}
