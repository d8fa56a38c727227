//! MachinePool in v1beta1: group of servers whose number the cloud maintains.

use serde_json::Value;

use super::shared::{MachineTemplateSpec, ObjectReference, V1Beta2Replicas};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::machine_pool::MachinePoolPhase;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::StatusVersion;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster that the pool belongs to."),
    wide("Desired", "integer", ".spec.replicas", "Machines of the pool that are desired."),
    column("Replicas", "string", ".status.replicas", "Machines of the pool that exist."),
    column(
        "Phase",
        "string",
        ".status.phase",
        "Stage in the life of the pool, for example Provisioning or Running.",
    ),
    AGE,
    column(
        "Version",
        "string",
        ".spec.template.spec.version",
        "Kubernetes version that the Machines of the pool are to run.",
    ),
];

fn schema() -> Value {
    let description = "Machines that the cloud keeps a number of by itself.";
    object(description, Some(structural::<MachinePoolSpec>()), Some(structural::<MachinePoolStatus>()), false)
}

kind! {
    /// Group of servers whose number the cloud maintains.
    bare MachinePool, MachinePoolSpec, MachinePoolStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachinePool", plural: "machinepools", singular: "machinepool",
        short_names: &["mp"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: None }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachinePool is deprecated; use cluster.x-k8s.io/v1beta2 MachinePool"),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a MachinePool.
    MachinePoolSpec {
        required {
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Template of the Machines.
            template: MachineTemplateSpec,
        }
        optional {
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Ids of the servers at the cloud provider. The infrastructure provider sets them.
            #[serde(rename = "providerIDList")]
            #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
            provider_id_list: Vec<String>,
            /// Desired number of servers. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
        }
    }

    /// Observed state of a MachinePool.
    MachinePoolStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Availability of the bootstrap data. True after the bootstrap Secret was created.
            bootstrap_ready: bool,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Readiness of the infrastructure. True after the servers were provisioned.
            infrastructure_ready: bool,
            /// References to the Nodes of the pool.
            #[schemars(length(max = 10000))]
            node_refs: Vec<ObjectReference>,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Phase of the MachinePool's life, e.g. Provisioning, Running or Deleting.
            phase: MachinePoolPhase,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Replicas,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
