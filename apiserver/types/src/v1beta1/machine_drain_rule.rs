//! MachineDrainRule in v1beta1. It differs from v1beta2 only in its version.

use crate::descriptor::Descriptor;
use crate::machine_drain_rule::{COLUMNS, MachineDrainRuleSpec, schema};
use crate::object::kind;

kind! {
    /// Drain behavior of selected pods on selected Machines, which applies before a Machine is deleted.
    without status MachineDrainRule, MachineDrainRuleSpec, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineDrainRule", plural: "machinedrainrules", singular: "machinedrainrule",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineDrainRule is deprecated; use cluster.x-k8s.io/v1beta2 MachineDrainRule"),
        columns: COLUMNS,
    }
}
