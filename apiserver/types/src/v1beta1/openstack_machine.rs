//! OpenStackMachine and its template in v1beta1.

use std::collections::BTreeMap;

use serde_json::Value;

use super::openstack_port::{PortOpts, PortStatus, ResolvedPortSpec};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::NetworkOrSGParam;
use crate::object::{kind, wire};
use crate::openstack_machine::{
    BlockDeviceVolume, IdentityType, ImageFilter, Initialization, NodeAddress, REGION_RULE, RootVolume,
    SchedulerHintAdditionalProperty, ServerGroupParam, TypedLocalRef,
};
use crate::openstack_machine_template::{COLUMNS as TEMPLATE_COLUMNS, TemplateNodeInfo};
use crate::scalar::Quantity;
use crate::schema::{object, structural};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name"),
    column("InstanceState", "string", ".status.instanceState"),
    column("Ready", "string", ".status.ready"),
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
        false,
    )
}

fn template_schema() -> Value {
    object(
        "What OpenStackMachines are made from.",
        Some(structural::<OpenStackMachineTemplateSpec>()),
        Some(structural::<OpenStackMachineTemplateStatus>()),
        false,
    )
}

kind! {
    /// A Nova server and what belongs to it.
    bare OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackMachine",
        plural: "openstackmachines", singular: "openstackmachine", short_names: &["osm"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

kind! {
    /// What OpenStackMachines are made from.
    bare OpenStackMachineTemplate, OpenStackMachineTemplateSpec, OpenStackMachineTemplateStatus, template_schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackMachineTemplate",
        plural: "openstackmachinetemplates", singular: "openstackmachinetemplate", short_names: &["osmt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: TEMPLATE_COLUMNS,
    }
}

wire! {
    /// What is wanted of a server.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.flavor) || has(self.flavorID))",
        "message": "at least one of flavor or flavorID must be set",
    }]))]
    OpenStackMachineSpec {
        required {
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
            /// Credentials; the cluster's when unset.
            identity_ref: OpenStackIdentityReference,
            /// Its ports; one on the cluster's network when unset.
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
            /// `Local` or `Volume`.
            #[serde(rename = "type")]
            kind: String,
        }
        optional {
            /// For Cinder.
            volume: BlockDeviceVolume,
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
            /// What `name` names.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Secret"))]
            kind: IdentityType,
        }
        optional {
            /// Region, over the entry's. Immutable.
            region: String,
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

    /// An Image object.
    ImageRef {
        required {
            /// Its name.
            name: String,
        }
    }

    /// A pair of Nova metadata.
    ServerMetadata {
        required {
            /// Key.
            #[schemars(length(max = 255))]
            key: String,
            /// Value.
            #[schemars(length(max = 255))]
            value: String,
        }
    }

    /// What was observed of a server.
    OpenStackMachineStatus {
        optional {
            /// Its addresses.
            addresses: Vec<NodeAddress>,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// A failure nothing can mend, for people.
            failure_message: String,
            /// A failure nothing can mend, for machines.
            failure_reason: String,
            /// Milestones that are passed once.
            initialization: Initialization,
            /// Nova's id of it.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// Nova's word for its state.
            instance_state: String,
            /// Whether it can be used.
            ready: bool,
            /// Names resolved to ids.
            resolved: ResolvedMachineSpec,
            /// What was made for it.
            resources: MachineResources,
        }
    }

    /// What was made for a server.
    MachineResources {
        optional {
            /// Ports.
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
            ports: Vec<ResolvedPortSpec>,
            /// Server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }

    /// What a template has. `template.spec` is immutable.
    OpenStackMachineTemplateSpec {
        required {
            /// The OpenStackMachines to be.
            template: OpenStackMachineTemplateResource,
        }
    }

    /// OpenStackMachines to be.
    OpenStackMachineTemplateResource {
        required {
            /// What is wanted of them.
            spec: OpenStackMachineSpec,
        }
    }

    /// What is known of servers made from a template.
    OpenStackMachineTemplateStatus {
        optional {
            /// Their resources.
            capacity: BTreeMap<String, Quantity>,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Their Nodes.
            #[schemars(extend("minProperties" = 1))]
            node_info: TemplateNodeInfo,
        }
    }
}
