//! MachineHealthCheck.

use serde_json::Value;

use crate::core_status::CONDITIONS;
use crate::fields::with;
use crate::{Rules, health_check, no_defaults};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachineHealthCheck",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

fn to_stored(check: &mut Value) {
    with(check, "spec", health_check::to_stored);
    CONDITIONS.to_stored(check);
}

fn from_stored(check: &mut Value) {
    with(check, "spec", health_check::from_stored);
    CONDITIONS.to_older(check);
}
