//! MachineHealthCheck: health criteria of Machines, and the remediation of unhealthy Machines.

use serde_json::Value;

use crate::cluster::ControlPlaneRemediation;
use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, HealthChecks};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster whose Machines are checked."),
    column("Replicas", "integer", ".status.expectedMachines", "Machines that the selector matches."),
    column("Healthy", "integer", ".status.currentHealthy", "Matched Machines that pass the checks."),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    AGE,
];

fn schema() -> Value {
    let description = "When Machines of a Cluster are unhealthy, and how far they are replaced.";
    let mut status = structural::<MachineHealthCheckStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineHealthCheckSpec>()), Some(status), true)
}

kind! {
    /// Health criteria of the Machines of a Cluster, and limits of their remediation.
    MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineHealthCheck", plural: "machinehealthchecks", singular: "machinehealthcheck",
        short_names: &["mhc", "mhcs"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: None,
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
            /// Criteria for an unhealthy Machine.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// Observed state of a MachineHealthCheck.
    MachineHealthCheckStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Number of selected Machines that are healthy.
            #[schemars(range(min = 0))]
            current_healthy: i32,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Number of selected Machines.
            #[schemars(range(min = 0))]
            expected_machines: i32,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Number of further remediations that the limits allow now.
            #[schemars(range(min = 0))]
            remediations_allowed: i32,
            /// Names of the selected Machines.
            #[schemars(length(max = 10000), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            targets: Vec<String>,
        }
    }
}
