//! MachineDrainRule in v1beta1: in all but name what it is in v1beta2.

use crate::descriptor::Descriptor;
use crate::machine_drain_rule::{COLUMNS, MachineDrainRuleSpec, schema};
use crate::object::kind;

kind! {
    /// How some pods leave some Machines before these are deleted.
    without status MachineDrainRule, MachineDrainRuleSpec, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineDrainRule", plural: "machinedrainrules", singular: "machinedrainrule",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineDrainRule is deprecated; use cluster.x-k8s.io/v1beta2 MachineDrainRule"),
        columns: COLUMNS,
    }
}
