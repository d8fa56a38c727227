//! OpenStackServer: one Nova server, without anything of Cluster API.

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
    column("InstanceState", "string", ".status.instanceState"),
    column("Ready", "string", ".status.ready"),
    column("InstanceID", "string", ".status.instanceID"),
    AGE,
];

fn schema() -> Value {
    object(
        "One Nova server.",
        Some(structural::<OpenStackServerSpec>()),
        Some(structural::<OpenStackServerStatus>()),
        false,
    )
}

kind! {
    /// One Nova server.
    OpenStackServer, OpenStackServerSpec, OpenStackServerStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackServer",
        plural: "openstackservers", singular: "openstackserver", short_names: &["oss"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a server. Immutable but for `identityRef`.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.flavor) || has(self.flavorID))",
        "message": "at least one of flavor or flavorID must be set",
    }]))]
    OpenStackServerSpec {
        required {
            /// Credentials.
            identity_ref: OpenStackIdentityReference,
            /// Its image.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
            /// Its ports.
            ports: Vec<PortOpts>,
            /// Key pair.
            ssh_key_name: String,
        }
        optional {
            /// More disks.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            additional_block_devices: Vec<AdditionalBlockDevice>,
            /// Nova's zone to be in.
            availability_zone: String,
            /// Metadata by config drive.
            config_drive: bool,
            /// Its flavor, by name.
            #[schemars(length(min = 1))]
            flavor: String,
            /// Its flavor, by id; over the name.
            #[serde(rename = "flavorID")]
            #[schemars(length(min = 1))]
            flavor_id: String,
            /// A pool to take a floating IP from.
            #[serde(rename = "floatingIPPoolRef")]
            floating_ip_pool_ref: TypedLocalRef,
            /// Boot from a volume.
            root_volume: RootVolume,
            /// More scheduler hints.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            scheduler_hint_additional_properties: Vec<SchedulerHintAdditionalProperty>,
            /// Security groups of all ports.
            security_groups: Vec<NetworkOrSGParam>,
            /// Server group.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            server_group: ServerGroupParam,
            /// Nova metadata.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
            server_metadata: Vec<ServerMetadata>,
            /// Tags of the server and its ports.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Make its ports trunks.
            trunk: bool,
            /// A Secret with its user data.
            user_data_ref: UserDataRef,
        }
    }

    /// A Secret with user data.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    UserDataRef {
        optional {
            /// Its name.
            #[schemars(extend("default" = ""))]
            name: String,
        }
    }

    /// What was observed of a server.
    OpenStackServerStatus {
        required {
            /// Whether it runs.
            #[schemars(extend("default" = false))]
            ready: bool,
        }
        optional {
            /// Its addresses.
            addresses: Vec<NodeAddress>,
            /// Conditions.
            conditions: Vec<Condition>,
            /// Nova's id of it.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// Nova's word for its state.
            instance_state: String,
            /// Names resolved to ids.
            resolved: ResolvedServerSpec,
            /// What was made for it.
            resources: ServerResources,
        }
    }

    /// Names resolved to ids.
    ResolvedServerSpec {
        optional {
            /// Flavor.
            #[serde(rename = "flavorID")]
            flavor_id: String,
            /// Image.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Ports.
            ports: Vec<ResolvedPortSpec>,
            /// Server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }

    /// What was made for a server.
    ServerResources {
        optional {
            /// Ports.
            ports: Vec<PortStatus>,
        }
    }
}
