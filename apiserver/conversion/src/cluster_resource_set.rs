//! Conversion of ClusterResourceSet.

use serde_json::Value;

use crate::{Rules, no_defaults, status};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "addons.cluster.x-k8s.io",
    kind: "ClusterResourceSet",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

fn to_stored(object: &mut Value) {
    status::to_stored(object, status::CONDITIONS, status::CONDITIONS);
}

fn from_stored(object: &mut Value) {
    status::from_stored(object, status::CONDITIONS, status::CONDITIONS);
}
