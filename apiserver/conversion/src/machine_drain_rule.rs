//! Conversion of MachineDrainRule, which is the same in both versions.

use serde_json::Value;

use crate::{Rules, no_defaults};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachineDrainRule",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored: as_it_is,
    from_stored: as_it_is,
};

fn as_it_is(_: &mut Value) {}
