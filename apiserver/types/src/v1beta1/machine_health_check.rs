//! MachineHealthCheck in v1beta1.

use serde_json::Value;

use super::shared::{ObjectReference, UnhealthyCondition, UnhealthyMachineCondition, V1Beta2Conditions};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::IntOrString;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("ExpectedMachines", "integer", ".status.expectedMachines"),
    column("MaxUnhealthy", "string", ".spec.maxUnhealthy"),
    column("CurrentHealthy", "integer", ".status.currentHealthy"),
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
    /// When Machines of a Cluster are unhealthy, and how far they are replaced.
    bare MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineHealthCheck", plural: "machinehealthchecks", singular: "machinehealthcheck",
        short_names: &["mhc", "mhcs"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineHealthCheck is deprecated; use cluster.x-k8s.io/v1beta2 MachineHealthCheck"),
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a MachineHealthCheck.
    MachineHealthCheckSpec {
        required {
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Which Machines it looks after.
            selector: LabelSelector,
        }
        optional {
            /// Remediate while at most so many are unhealthy, as a number or share.
            max_unhealthy: IntOrString,
            /// The Node must appear within so long, e.g. `10m`; `0s` switches this off.
            node_startup_timeout: String,
            /// Who remediates; unset is delete and make anew.
            remediation_template: ObjectReference,
            /// Node conditions that mean unhealthy.
            #[schemars(length(max = 100))]
            unhealthy_conditions: Vec<UnhealthyCondition>,
            /// Machine conditions that mean unhealthy.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Remediate while so many are unhealthy, e.g. `[1-3]`.
            #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
            unhealthy_range: String,
        }
    }

    /// What was observed of a MachineHealthCheck.
    MachineHealthCheckStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Healthy Machines.
            #[schemars(range(min = 0))]
            current_healthy: i32,
            /// Machines it looks after.
            #[schemars(range(min = 0))]
            expected_machines: i32,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// How many more may be remediated now.
            #[schemars(range(min = 0))]
            remediations_allowed: i32,
            /// Names of the Machines it looks after.
            #[schemars(length(max = 10000), inner(length(min = 1, max = 253)))]
            targets: Vec<String>,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Conditions,
        }
    }
}
