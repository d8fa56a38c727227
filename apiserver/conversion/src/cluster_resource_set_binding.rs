//! Conversion of ClusterResourceSetBinding, which is the same in both versions.

use serde_json::Value;

use crate::{Rules, no_defaults};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "addons.cluster.x-k8s.io",
    kind: "ClusterResourceSetBinding",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored: same,
    from_stored: same,
};

fn same(_: &mut Value) {}
