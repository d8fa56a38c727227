//! OpenStackMachine and OpenStackMachineTemplate in v1beta1.

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
use crate::schema::{object, structural, without_int32};

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "Cluster that the server is part of.",
    ),
    column("Ready", "string", ".status.ready", "The server is active and has its addresses."),
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
        Some(without_int32(structural::<OpenStackMachineSpec>())),
        Some(structural::<OpenStackMachineStatus>()),
        false,
    )
}

fn template_schema() -> Value {
    object(
        "Template of OpenStackMachines.",
        Some(without_int32(structural::<OpenStackMachineTemplateSpec>())),
        Some(structural::<OpenStackMachineTemplateStatus>()),
        false,
    )
}

kind! {
    /// Nova server with its ports and volumes.
    bare OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackMachine",
        plural: "openstackmachines", singular: "openstackmachine", short_names: &["osm"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

kind! {
    /// Template of OpenStackMachines.
    bare OpenStackMachineTemplate, OpenStackMachineTemplateSpec, OpenStackMachineTemplateStatus, template_schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackMachineTemplate",
        plural: "openstackmachinetemplates", singular: "openstackmachinetemplate", short_names: &["osmt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: TEMPLATE_COLUMNS,
    }
}

wire! {
    /// Desired state of a server. Most fields are immutable.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.flavor) || has(self.flavorID))",
        "message": "at least one of flavor or flavorID must be set",
    }]))]
    OpenStackMachineSpec {
        required {
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
            /// Name of the Nova flavor. Either `flavor` or `flavorID` is required.
            #[schemars(length(min = 1))]
            flavor: String,
            /// Id of the Nova flavor. It takes precedence over `flavor`.
            #[serde(rename = "flavorID")]
            #[schemars(length(min = 1))]
            flavor_id: String,
            /// Reference to a pool that supplies a floating IP for the server. Capstan does not support this
            /// field yet.
            #[serde(rename = "floatingIPPoolRef")]
            floating_ip_pool_ref: TypedLocalRef,
            /// Reference to the OpenStack credentials. Default: the credentials of the OpenStackCluster.
            identity_ref: OpenStackIdentityReference,
            /// Ports of the server. Default: one port on the network of the cluster.
            ports: Vec<PortOpts>,
            /// Provider id of the server: `openstack://<region>/<server id>`. The controller sets it.
            #[serde(rename = "providerID")]
            provider_id: String,
            /// Root volume in Cinder. If unset, the server boots from the local disk of its host.
            root_volume: RootVolume,
            /// Additional scheduler hints that are sent to Nova.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            scheduler_hint_additional_properties: Vec<SchedulerHintAdditionalProperty>,
            /// Security groups of the ports without a list of their own, in addition to the managed group of
            /// the role.
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
            /// Trunk mode of the ports: each port is the parent of a trunk. Default: false. Capstan does not
            /// support true yet.
            trunk: bool,
        }
    }

    /// Additional block device of a server.
    AdditionalBlockDevice {
        required {
            /// Name of the block device, unique on the server. It is also the device's tag in Nova.
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
            kind: String,
        }
        optional {
            /// Settings of the Cinder volume. Used only if the type is Volume.
            volume: BlockDeviceVolume,
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
            /// Type of the reference: Secret or ClusterIdentity. Default: Secret.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Secret"))]
            kind: IdentityType,
        }
        optional {
            /// OpenStack region. It overrides the region of the `clouds.yaml`. Immutable.
            region: String,
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
            /// Reference to an Image object in the same namespace. Capstan does not support this field.
            image_ref: ImageRef,
        }
    }

    /// Reference to an Image object in the same namespace.
    ImageRef {
        required {
            /// Name of the Image object.
            name: String,
        }
    }

    /// Key-value pair of a server's metadata.
    ServerMetadata {
        required {
            /// Key of the pair.
            #[schemars(length(max = 255))]
            key: String,
            /// Value of the pair.
            #[schemars(length(max = 255))]
            value: String,
        }
    }

    /// Observed state of a server.
    OpenStackMachineStatus {
        optional {
            /// Addresses of the server.
            addresses: Vec<NodeAddress>,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Provisioning milestones. A milestone stays true after it is reached.
            initialization: Initialization,
            /// Nova id of the server.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// State of the server in Nova, e.g. `ACTIVE`.
            instance_state: String,
            /// Readiness of the server. True after it is active and has its addresses.
            ready: bool,
            /// Parameters of the server, with all names and filters resolved to ids.
            resolved: ResolvedMachineSpec,
            /// OpenStack resources that were created for the server.
            resources: MachineResources,
        }
    }

    /// OpenStack resources that were created for a server.
    MachineResources {
        optional {
            /// Ports of the server.
            ports: Vec<PortStatus>,
        }
    }

    /// Parameters of a server, with all names and filters resolved to ids.
    ResolvedMachineSpec {
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

    /// Content of an OpenStackMachineTemplate. `template.spec` is immutable.
    OpenStackMachineTemplateSpec {
        required {
            /// Template of the created OpenStackMachines.
            template: OpenStackMachineTemplateResource,
        }
    }

    /// Metadata and spec of the created OpenStackMachines.
    OpenStackMachineTemplateResource {
        required {
            /// Spec of the created objects.
            spec: OpenStackMachineSpec,
        }
    }

    /// Properties of servers that the template creates, for an autoscaler that scales up from zero servers.
    OpenStackMachineTemplateStatus {
        optional {
            /// Resources of a server, by resource name, e.g. `cpu` and `memory`.
            capacity: BTreeMap<String, Quantity>,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Properties of the Nodes.
            #[schemars(extend("minProperties" = 1))]
            node_info: TemplateNodeInfo,
        }
    }
}
