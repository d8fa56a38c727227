//! MachineHealthCheck: when Machines are unhealthy, and what then.

use serde_json::Value;

use crate::cluster::ControlPlaneRemediation;
use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, HealthChecks};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("Replicas", "integer", ".status.expectedMachines"),
    column("Healthy", "integer", ".status.currentHealthy"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    AGE,
];

fn schema() -> Value {
    let description = "When Machines of a Cluster are unhealthy, and how far they are replaced.";
    let mut status = structural::<MachineHealthCheckStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineHealthCheckSpec>()), Some(status), true)
}

kind! {
    /// When Machines of a Cluster are unhealthy, and how far they are replaced.
    MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineHealthCheck", plural: "machinehealthchecks", singular: "machinehealthcheck",
        short_names: &["mhc", "mhcs"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: None,
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
            /// What counts as unhealthy.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// What was observed of a MachineHealthCheck.
    MachineHealthCheckStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Healthy Machines.
            #[schemars(range(min = 0))]
            current_healthy: i32,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Machines it looks after.
            #[schemars(range(min = 0))]
            expected_machines: i32,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// How many more may be remediated now.
            #[schemars(range(min = 0))]
            remediations_allowed: i32,
            /// Names of the Machines it looks after.
            #[schemars(length(max = 10000), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            targets: Vec<String>,
        }
    }
}
