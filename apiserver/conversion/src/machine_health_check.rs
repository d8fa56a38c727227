//! Conversion of MachineHealthCheck.

use serde_json::Value;

use crate::core_status::CONDITIONS;
use crate::empty::drop_each;
use crate::fields::{each, get, namespace, put, with};
use crate::{Rules, health_check};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachineHealthCheck",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

fn default(check: &mut Value) {
    let own = namespace(check);
    with(check, "spec", |spec| {
        health_check::default(spec, &own);
        drop_each(spec, &["unhealthyRange", "unhealthyMachineConditions"]);
        for list in ["unhealthyConditions", "unhealthyMachineConditions"] {
            each(spec, list, |condition| {
                if condition.is_object() && get(condition, "timeout").is_none() {
                    put(condition, "timeout", "0s".into());
                }
            });
        }
    });
}

fn to_stored(check: &mut Value) {
    with(check, "spec", health_check::to_stored);
    CONDITIONS.to_stored(check);
}

fn from_stored(check: &mut Value) {
    let own = namespace(check);
    with(check, "spec", |spec| health_check::from_stored(spec, &own));
    CONDITIONS.to_older(check);
}
