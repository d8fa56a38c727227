//! IPAddress: the same in all versions.

use serde_json::{Value, json};

use crate::Rules;
use crate::fields::{get, put, with};

/// v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "ipam.cluster.x-k8s.io",
    kind: "IPAddress",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored: same,
    from_stored: same,
};

/// v1alpha1.
pub(crate) const V1ALPHA1: Rules = Rules { version: "v1alpha1", ..V1BETA1 };

/// Older versions fill in a name of a claim that names nothing.
fn default(object: &mut Value) {
    with(object, "spec.claimRef", default_name);
}

/// A reference without a name has an empty one.
pub(crate) fn default_name(reference: &mut Value) {
    if reference.is_object() && get(reference, "name").is_none() {
        put(reference, "name", json!(""));
    }
}

fn same(_: &mut Value) {}
