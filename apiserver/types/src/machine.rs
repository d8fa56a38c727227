//! Machine: one server of a cluster.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedFailure};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{
    Condition, ContractVersionedObjectReference, Gate, MachineDeletionSpec, MachineTaint, Time, words,
};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("Node Name", "string", ".status.nodeRef.name"),
    wide("Provider ID", "string", ".spec.providerID"),
    column("Failure domain", "string", ".status.failureDomain"),
    column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
    column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
    column("Up-to-date", "string", ".status.conditions[?(@.type==\"UpToDate\")].status"),
    wide("Internal-IP", "string", ".status.addresses[?(@.type==\"InternalIP\")].address"),
    wide("External-IP", "string", ".status.addresses[?(@.type==\"ExternalIP\")].address"),
    wide("OS-Image", "string", ".status.nodeInfo.osImage"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.version"),
];

fn schema() -> Value {
    let description = "One server of a cluster: what it is booted from, and what became of it.";
    let mut status = structural::<MachineStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineSpec>()), Some(status), true)
}

kind! {
    /// One server of a cluster.
    Machine, MachineSpec, MachineStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "Machine", plural: "machines", singular: "machine",
        short_names: &["ma"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a Machine.
    MachineSpec {
        required {
            /// Where the data comes from that makes a server a node.
            bootstrap: Bootstrap,
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// The object that stands for the server.
            infrastructure_ref: ContractVersionedObjectReference,
        }
        optional {
            /// How long the steps of its deletion may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Where it is to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Ready for so long before it counts as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// The cloud's id of the server; the Node has the same.
            #[serde(rename = "providerID")]
            #[schemars(length(min = 1, max = 512))]
            provider_id: String,
            /// Conditions that Ready needs beside the standard ones.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints of its Node.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Kubernetes version, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Where bootstrap data comes from: one of the two.
    Bootstrap {
        optional {
            /// An object that makes it.
            config_ref: ContractVersionedObjectReference,
            /// A Secret that has it ready.
            #[schemars(length(min = 0, max = 253))]
            data_secret_name: String,
        }
    }

    /// What was observed of a Machine.
    MachineStatus {
        optional {
            /// Addresses of the server.
            #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
            addresses: Vec<MachineAddress>,
            /// When the control plane's certificates expire.
            certificates_expiry_date: Time,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// How far its deletion is.
            deletion: MachineDeletionStatus,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedFailure>,
            /// Where it landed.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: MachineInitialization,
            /// When the phase last changed.
            last_updated: Time,
            /// What its Node says of itself.
            node_info: NodeSystemInfo,
            /// Its Node.
            node_ref: NodeReference,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Where it is in its life.
            phase: MachinePhase,
        }
    }

    /// An address.
    MachineAddress {
        required {
            /// The address.
            #[schemars(length(min = 1, max = 256))]
            address: String,
            /// What kind of address.
            #[serde(rename = "type")]
            kind: MachineAddressType,
        }
    }

    /// How far a deletion is.
    MachineDeletionStatus {
        optional {
            /// The drain began.
            node_drain_start_time: Time,
            /// The wait for volumes began.
            wait_for_node_volume_detach_start_time: Time,
            /// The wait for pre-drain hooks began.
            wait_for_pre_drain_hook_start_time: Time,
            /// The wait for pre-terminate hooks began.
            wait_for_pre_terminate_hook_start_time: Time,
        }
    }

    /// Milestones that are passed once.
    MachineInitialization {
        optional {
            /// The bootstrap Secret exists.
            bootstrap_data_secret_created: bool,
            /// The server exists.
            infrastructure_provisioned: bool,
        }
    }

    /// A Node of the workload cluster.
    NodeReference {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// What a Node says of itself.
    NodeSystemInfo {
        required {
            /// CPU architecture.
            architecture: String,
            /// Boot id.
            #[serde(rename = "bootID")]
            boot_id: String,
            /// Container runtime.
            container_runtime_version: String,
            /// Kernel.
            kernel_version: String,
            /// kube-proxy.
            kube_proxy_version: String,
            /// kubelet.
            kubelet_version: String,
            /// Machine id.
            #[serde(rename = "machineID")]
            machine_id: String,
            /// Operating system.
            operating_system: String,
            /// Operating system, for people.
            os_image: String,
            /// System UUID.
            #[serde(rename = "systemUUID")]
            system_uuid: String,
        }
        optional {
            /// Swap.
            swap: NodeSwap,
        }
    }

    /// Swap of a Node.
    NodeSwap {
        optional {
            /// Size. Unit: bytes.
            capacity: i64,
        }
    }
}

words! {
    /// What kind of address.
    MachineAddressType {
        /// Host name.
        Hostname,
        /// Reachable from outside.
        ExternalIP,
        /// Reachable from inside.
        #[default]
        InternalIP,
        /// DNS name, outside.
        ExternalDNS,
        /// DNS name, inside.
        InternalDNS,
    }

    /// Where a Machine is in its life.
    MachinePhase {
        /// Waiting for what it needs.
        #[default]
        Pending,
        /// The server is being made.
        Provisioning,
        /// The server exists.
        Provisioned,
        /// It serves.
        Running,
        /// It is being changed in place.
        Updating,
        /// It is being deleted.
        Deleting,
        /// It is gone.
        Deleted,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
