//! Machine: one server of a cluster and its Node.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedFailure};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{
    Condition, ContractVersionedObjectReference, Gate, MachineDeletionSpec, MachineTaint, Time, words,
};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster that the Machine is part of."),
    column("Node Name", "string", ".status.nodeRef.name", "Name of the Node that runs on the Machine."),
    wide("Provider ID", "string", ".spec.providerID", "Id of the server at the infrastructure provider."),
    column("Failure domain", "string", ".status.failureDomain", "Failure domain in which the server runs."),
    column(
        "Ready",
        "string",
        ".status.conditions[?(@.type==\"Ready\")].status",
        "The Machine passes every readiness check.",
    ),
    column(
        "Available",
        "string",
        ".status.conditions[?(@.type==\"Available\")].status",
        "The Machine has been ready for its minReadySeconds without interruption.",
    ),
    column(
        "Up-to-date",
        "string",
        ".status.conditions[?(@.type==\"UpToDate\")].status",
        "The Machine matches the current specification of its owner.",
    ),
    wide(
        "Internal-IP",
        "string",
        ".status.addresses[?(@.type==\"InternalIP\")].address",
        "Address of the server inside the cloud.",
    ),
    wide(
        "External-IP",
        "string",
        ".status.addresses[?(@.type==\"ExternalIP\")].address",
        "Address of the server that is reachable from outside.",
    ),
    wide("OS-Image", "string", ".status.nodeInfo.osImage", "Operating system, as the Node reports it."),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Phase",
        "string",
        ".status.phase",
        "Stage in the life of the Machine, from Pending to Running to Deleted.",
    ),
    AGE,
    column("Version", "string", ".spec.version", "Kubernetes version that the Machine is to run."),
];

fn schema() -> Value {
    let description = "One server of a cluster: what it is booted from, and what became of it.";
    let mut status = structural::<MachineStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineSpec>()), Some(status), true)
}

kind! {
    /// One server of a cluster, from its bootstrap to its deletion.
    Machine, MachineSpec, MachineStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "Machine", plural: "machines", singular: "machine",
        short_names: &["ma"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a Machine.
    MachineSpec {
        required {
            /// Source of the bootstrap data, which turns the server into a Node.
            bootstrap: Bootstrap,
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Reference to the object that manages the server, e.g. an OpenStackMachine.
            infrastructure_ref: ContractVersionedObjectReference,
        }
        optional {
            /// Time limits for the steps of the Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Name of the failure domain in which the server is created.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Id of the server at the cloud provider. The Node has the same id. The infrastructure provider
            /// sets it.
            #[serde(rename = "providerID")]
            #[schemars(length(min = 1, max = 512))]
            provider_id: String,
            /// Additional Machine conditions that the Ready condition depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints that are added to the Node of the Machine.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Kubernetes version of the Machine, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Source of the bootstrap data: a bootstrap object or a Secret.
    Bootstrap {
        optional {
            /// Reference to a bootstrap object that generates the data, e.g. a KubeadmConfig.
            config_ref: ContractVersionedObjectReference,
            /// Name of the Secret with the bootstrap data. If unset, the bootstrap object supplies it.
            #[schemars(length(min = 0, max = 253))]
            data_secret_name: String,
        }
    }

    /// Observed state of a Machine.
    MachineStatus {
        optional {
            /// IP addresses and host names of the server.
            #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
            addresses: Vec<MachineAddress>,
            /// Expiry time of the certificates on the Machine. Set only for control plane Machines.
            certificates_expiry_date: Time,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Progress of the Machine's deletion.
            deletion: MachineDeletionStatus,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedFailure>,
            /// Name of the failure domain in which the server runs.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Provisioning milestones. A milestone stays true after it is reached.
            #[schemars(extend("minProperties" = 1))]
            initialization: MachineInitialization,
            /// Time of the last change of the phase.
            last_updated: Time,
            /// System information that the Node reports.
            node_info: NodeSystemInfo,
            /// Reference to the Node of the Machine.
            node_ref: NodeReference,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Phase of the Machine's life, from Pending to Running to Deleted.
            phase: MachinePhase,
        }
    }

    /// Address of a server.
    MachineAddress {
        required {
            /// IP address, host name or DNS name.
            #[schemars(length(min = 1, max = 256))]
            address: String,
            /// Type of the address: Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
            #[serde(rename = "type")]
            kind: MachineAddressType,
        }
    }

    /// Progress of a Machine's deletion.
    MachineDeletionStatus {
        optional {
            /// Start time of the drain. The drain timeout counts from it.
            node_drain_start_time: Time,
            /// Start time of the wait for volumes to detach.
            wait_for_node_volume_detach_start_time: Time,
            /// Start time of the wait for pre-drain hooks.
            wait_for_pre_drain_hook_start_time: Time,
            /// Start time of the wait for pre-terminate hooks.
            wait_for_pre_terminate_hook_start_time: Time,
        }
    }

    /// Provisioning milestones of a Machine.
    MachineInitialization {
        optional {
            /// True after the Secret with the bootstrap data was created.
            bootstrap_data_secret_created: bool,
            /// True after the server was provisioned.
            infrastructure_provisioned: bool,
        }
    }

    /// Reference to a Node of the workload cluster.
    NodeReference {
        required {
            /// Name of the Node.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// System information that a Node reports.
    NodeSystemInfo {
        required {
            /// CPU architecture, e.g. `amd64`.
            architecture: String,
            /// Id of the current boot.
            #[serde(rename = "bootID")]
            boot_id: String,
            /// Name and version of the container runtime, e.g. `containerd://2.1.4`.
            container_runtime_version: String,
            /// Version of the kernel.
            kernel_version: String,
            /// Version of kube-proxy. Deprecated in Kubernetes.
            kube_proxy_version: String,
            /// Version of the kubelet.
            kubelet_version: String,
            /// Machine id of the operating system.
            #[serde(rename = "machineID")]
            machine_id: String,
            /// Operating system, e.g. `linux`.
            operating_system: String,
            /// Name and version of the operating system image.
            os_image: String,
            /// UUID of the system, as the firmware reports it.
            #[serde(rename = "systemUUID")]
            system_uuid: String,
        }
        optional {
            /// Swap space of the Node.
            swap: NodeSwap,
        }
    }

    /// Swap space of a Node.
    NodeSwap {
        optional {
            /// Size of the swap space. Unit: bytes.
            capacity: i64,
        }
    }
}

words! {
    /// Type of an address.
    MachineAddressType {
        /// Host name.
        Hostname,
        /// IP address that is reachable from outside the cluster network.
        ExternalIP,
        /// IP address that is reachable from inside the cluster network.
        #[default]
        InternalIP,
        /// DNS name that resolves to external addresses.
        ExternalDNS,
        /// DNS name that resolves to internal addresses.
        InternalDNS,
    }

    /// Phase of a Machine's life.
    MachinePhase {
        /// A prerequisite is missing.
        #[default]
        Pending,
        /// The server is being created.
        Provisioning,
        /// The server exists.
        Provisioned,
        /// The server runs and its Node is known.
        Running,
        /// The Machine is being updated in place.
        Updating,
        /// The deletion is in progress.
        Deleting,
        /// The server is deleted.
        Deleted,
        /// A terminal error occurred. It needs a manual change.
        Failed,
        /// The phase cannot be determined.
        Unknown,
    }
}
