//! MachineDrainRule: drain behavior of selected pods on selected Machines.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::words;

pub(crate) const COLUMNS: &[Column] = &[
    column(
        "Behavior",
        "string",
        ".spec.drain.behavior",
        "Treatment of the matching Pods when a Node is drained: Drain, Skip or WaitCompleted.",
    ),
    column(
        "Order",
        "string",
        ".spec.drain.order",
        "Position in the order of draining. Smaller numbers are drained first.",
    ),
    AGE,
];

pub(crate) fn schema() -> Value {
    let description = "How some pods leave some Machines before these are deleted.";
    let mut schema = object(description, Some(structural::<MachineDrainRuleSpec>()), None, true);
    schema["required"] = serde_json::json!(["metadata", "spec"]);
    schema
}

kind! {
    /// Drain behavior of selected pods on selected Machines, which applies before a Machine is deleted.
    without status MachineDrainRule, MachineDrainRuleSpec, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineDrainRule", plural: "machinedrainrules", singular: "machinedrainrule",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false,
        scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

/// CEL rule: the entries of a list are unique.
const UNIQUE: &str = "self.all(x, self.exists_one(y, x == y))";

wire! {
    /// Desired state of a MachineDrainRule.
    MachineDrainRuleSpec {
        required {
            /// Drain behavior of the selected pods.
            drain: MachineDrain,
        }
        optional {
            /// Selection of Machines. A Machine that matches one entry is selected. Default: all Machines.
            #[schemars(
                length(min = 1, max = 32),
                extend(
                    "x-kubernetes-list-type" = "atomic",
                    "x-kubernetes-validations" = [{"rule": UNIQUE, "message": "entries in machines must be unique"}]
                )
            )]
            machines: Vec<DrainedMachines>,
            /// Selection of pods. A pod that matches one entry is selected. Default: all pods.
            #[schemars(
                length(min = 1, max = 32),
                extend(
                    "x-kubernetes-list-type" = "atomic",
                    "x-kubernetes-validations" = [{"rule": UNIQUE, "message": "entries in pods must be unique"}]
                )
            )]
            pods: Vec<DrainedPods>,
        }
    }

    /// Drain behavior of pods.
    MachineDrain {
        required {
            /// Behavior: Drain, Skip or WaitCompleted.
            behavior: DrainBehavior,
        }
        optional {
            /// Position in the drain order. Pods with lower values are drained first. Must be unset if the
            /// behavior is Skip.
            order: i32,
        }
    }

    /// Selection of Machines. Both selectors match.
    #[schemars(extend("minProperties" = 1))]
    DrainedMachines {
        optional {
            /// Label selector of the Clusters of the Machines.
            cluster_selector: LabelSelector,
            /// Label selector of the Machines.
            selector: LabelSelector,
        }
    }

    /// Selection of pods. Both selectors match.
    #[schemars(extend("minProperties" = 1))]
    DrainedPods {
        optional {
            /// Label selector of the namespaces of the pods.
            namespace_selector: LabelSelector,
            /// Label selector of the pods.
            selector: LabelSelector,
        }
    }
}

words! {
    /// Drain behavior of pods.
    DrainBehavior {
        /// The pods are evicted.
        #[default]
        Drain,
        /// The pods are not evicted, and the drain does not wait for them.
        Skip,
        /// The pods are not evicted, and the drain waits until they complete.
        WaitCompleted,
    }
}
