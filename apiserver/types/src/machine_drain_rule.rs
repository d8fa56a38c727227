//! MachineDrainRule: how pods leave a Machine before it goes.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::words;

pub(crate) const COLUMNS: &[Column] = &[
    column("Behavior", "string", ".spec.drain.behavior"),
    column("Order", "string", ".spec.drain.order"),
    AGE,
];

pub(crate) fn schema() -> Value {
    let description = "How some pods leave some Machines before these are deleted.";
    let mut schema = object(description, Some(structural::<MachineDrainRuleSpec>()), None, true);
    schema["required"] = serde_json::json!(["metadata", "spec"]);
    schema
}

kind! {
    /// How some pods leave some Machines before these are deleted.
    without status MachineDrainRule, MachineDrainRuleSpec, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineDrainRule", plural: "machinedrainrules", singular: "machinedrainrule",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false,
        scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

/// No entry says what another says already.
const UNIQUE: &str = "self.all(x, self.exists_one(y, x == y))";

wire! {
    /// What is wanted of a MachineDrainRule.
    MachineDrainRuleSpec {
        required {
            /// How the pods leave.
            drain: MachineDrain,
        }
        optional {
            /// Which Machines it is about: those of any entry; all when unset.
            #[schemars(
                length(min = 1, max = 32),
                extend(
                    "x-kubernetes-list-type" = "atomic",
                    "x-kubernetes-validations" = [{"rule": UNIQUE, "message": "entries in machines must be unique"}]
                )
            )]
            machines: Vec<DrainedMachines>,
            /// Which pods it is about: those of any entry; all when unset.
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

    /// How pods leave.
    MachineDrain {
        required {
            /// In which way.
            behavior: DrainBehavior,
        }
        optional {
            /// When: lower ones first. Absent when the pods stay.
            order: i32,
        }
    }

    /// Some Machines: both must hold.
    #[schemars(extend("minProperties" = 1))]
    DrainedMachines {
        optional {
            /// By labels of their Cluster.
            cluster_selector: LabelSelector,
            /// By their own labels.
            selector: LabelSelector,
        }
    }

    /// Some pods: both must hold.
    #[schemars(extend("minProperties" = 1))]
    DrainedPods {
        optional {
            /// By labels of their namespace.
            namespace_selector: LabelSelector,
            /// By their own labels.
            selector: LabelSelector,
        }
    }
}

words! {
    /// In which way pods leave.
    DrainBehavior {
        /// They are evicted.
        #[default]
        Drain,
        /// They stay.
        Skip,
        /// They end by themselves.
        WaitCompleted,
    }
}
