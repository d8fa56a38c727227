//! MachinePool in v1beta1.

use serde_json::Value;

use super::shared::{MachineTemplateSpec, ObjectReference, V1Beta2Replicas};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::machine_pool::MachinePoolPhase;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::StatusVersion;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    wide("Desired", "integer", ".spec.replicas"),
    column("Replicas", "string", ".status.replicas"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description = "Machines that the cloud keeps a number of by itself.";
    object(description, Some(structural::<MachinePoolSpec>()), Some(structural::<MachinePoolStatus>()), false)
}

kind! {
    /// Machines that the cloud keeps a number of by itself.
    bare MachinePool, MachinePoolSpec, MachinePoolStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachinePool", plural: "machinepools", singular: "machinepool",
        short_names: &["mp"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: None }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachinePool is deprecated; use cluster.x-k8s.io/v1beta2 MachinePool"),
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a MachinePool.
    MachinePoolSpec {
        required {
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// What Machines are made from.
            template: MachineTemplateSpec,
        }
        optional {
            /// Where they may be.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Ready for so long before it counts as available. Unit: seconds.
            min_ready_seconds: i32,
            /// The cloud's ids of the servers.
            #[serde(rename = "providerIDList")]
            #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
            provider_id_list: Vec<String>,
            /// How many.
            replicas: i32,
        }
    }

    /// What was observed of a MachinePool.
    MachinePoolStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// The bootstrap data is there.
            bootstrap_ready: bool,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// What cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// What cannot be mended, for machines.
            failure_reason: String,
            /// The servers exist.
            infrastructure_ready: bool,
            /// Its Nodes.
            #[schemars(length(max = 10000))]
            node_refs: Vec<ObjectReference>,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Where it is in its life.
            phase: MachinePoolPhase,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// Those still missing.
            unavailable_replicas: i32,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Replicas,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
