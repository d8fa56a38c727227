//! MachineHealthCheck in v1beta1: health criteria of Machines, and the remediation of unhealthy Machines.

use serde_json::Value;

use super::shared::{ObjectReference, UnhealthyCondition, UnhealthyMachineCondition, V1Beta2Conditions};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::IntOrString;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster whose Machines are checked."),
    column("ExpectedMachines", "integer", ".status.expectedMachines", "Machines that the selector matches."),
    column(
        "MaxUnhealthy",
        "string",
        ".spec.maxUnhealthy",
        "Number or share of unhealthy Machines above which no Machine is remediated.",
    ),
    column("CurrentHealthy", "integer", ".status.currentHealthy", "Matched Machines that pass the checks."),
    AGE,
];

fn schema() -> Value {
    let description = "When Machines of a Cluster are unhealthy, and how far they are replaced.";
    object(
        description,
        Some(structural::<MachineHealthCheckSpec>()),
        Some(structural::<MachineHealthCheckStatus>()),
        false,
    )
}

kind! {
    /// Health criteria of the Machines of a Cluster, and limits of their remediation.
    bare MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineHealthCheck", plural: "machinehealthchecks", singular: "machinehealthcheck",
        short_names: &["mhc", "mhcs"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineHealthCheck is deprecated; use cluster.x-k8s.io/v1beta2 MachineHealthCheck"),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a MachineHealthCheck.
    MachineHealthCheckSpec {
        required {
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Label selector of the Machines that are checked. It must not be empty.
            selector: LabelSelector,
        }
        optional {
            /// Upper limit of unhealthy Machines, as a number or a percentage. If more Machines are
            /// unhealthy, remediation stops.
            max_unhealthy: IntOrString,
            /// Maximum time until the Node of a new Machine appears, as a Go duration. `0s` disables this
            /// check. Default: `10m`.
            node_startup_timeout: String,
            /// Template of an external remediation request. If unset, the unhealthy Machine is deleted and
            /// its owner creates a new one.
            remediation_template: ObjectReference,
            /// Node conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(max = 100))]
            unhealthy_conditions: Vec<UnhealthyCondition>,
            /// Machine conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Range of unhealthy Machines in which remediation runs, e.g. `[1-3]`. Both ends are inclusive.
            #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
            unhealthy_range: String,
        }
    }

    /// Observed state of a MachineHealthCheck.
    MachineHealthCheckStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Number of selected Machines that are healthy.
            #[schemars(range(min = 0))]
            current_healthy: i32,
            /// Number of selected Machines.
            #[schemars(range(min = 0))]
            expected_machines: i32,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Number of further remediations that the limits allow now.
            #[schemars(range(min = 0))]
            remediations_allowed: i32,
            /// Names of the selected Machines.
            #[schemars(length(max = 10000), inner(length(min = 1, max = 253)))]
            targets: Vec<String>,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
        }
    }
}
