//! Conversion of the fields that MachineSets, MachineDeployments and MachinePools share.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{drop_empty, get, put, rename, take};
use crate::machine_spec;

/// Path of the Machines' spec.
const TEMPLATE: &str = "spec.template.spec";

pub(crate) fn default(object: &mut Value) {
    drop_each(object, &["spec.machineNamingStrategy.template"]);
    machine_spec::default(object, TEMPLATE);
}

pub(crate) fn to_stored(object: &mut Value) {
    machine_spec::to_stored(object, TEMPLATE);
    rename(object, "spec.minReadySeconds", "spec.template.spec.minReadySeconds");
    rename(object, "spec.machineNamingStrategy", "spec.machineNaming");
    drop_each(object, &["spec.machineNaming", "spec.template.metadata", "status.versions"]);
}

pub(crate) fn from_stored(object: &mut Value) {
    rename(object, "spec.template.spec.minReadySeconds", "spec.minReadySeconds");
    rename(object, "spec.machineNaming", "spec.machineNamingStrategy");
    machine_spec::from_stored(object, TEMPLATE);
}

/// Strategy of a MachineDeployment: rollout, deletion order, and number of parallel remediations. Its location differs
/// between the versions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strategy {
    /// Path of the number of parallel remediations in v1beta2.
    pub(crate) max_in_flight: &'static str,
}

impl Strategy {
    /// Sets v1beta1's default: the bounds of a rolling update imply its type.
    pub(crate) fn default(self, spec: &mut Value) {
        drop_each(spec, &["strategy.type", "strategy.rollingUpdate.deletePolicy"]);
        let bounds = ["strategy.rollingUpdate.maxSurge", "strategy.rollingUpdate.maxUnavailable"];
        if get(spec, "strategy.type").is_none() && bounds.iter().any(|bound| get(spec, bound).is_some()) {
            put(spec, "strategy.type", "RollingUpdate".into());
        }
    }

    pub(crate) fn to_stored(self, spec: &mut Value) {
        for (from, to) in self.moves() {
            rename(spec, from, to);
        }
        take(spec, "strategy");
    }

    pub(crate) fn to_older(self, spec: &mut Value) {
        for (to, from) in self.moves() {
            rename(spec, from, to);
        }
        for emptied in ["rollout.strategy.rollingUpdate", "rollout.strategy", "rollout", "deletion"] {
            drop_empty(spec, emptied);
        }
    }

    fn moves(self) -> [(&'static str, &'static str); 5] {
        [
            ("strategy.type", "rollout.strategy.type"),
            ("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge"),
            ("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable"),
            ("strategy.rollingUpdate.deletePolicy", "deletion.order"),
            ("strategy.remediation.maxInFlight", self.max_in_flight),
        ]
    }
}
