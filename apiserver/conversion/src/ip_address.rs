//! Conversion of IPAddress, which is the same in all versions.

use serde_json::{Value, json};

use crate::Rules;
use crate::fields::{get, put, with};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "ipam.cluster.x-k8s.io",
    kind: "IPAddress",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored: same,
    from_stored: same,
};

/// Rules of v1alpha1.
pub(crate) const V1ALPHA1: Rules = Rules { version: "v1alpha1", ..V1BETA1 };

/// Sets the default of older versions: a reference to a claim has a name, which can be empty.
fn default(object: &mut Value) {
    with(object, "spec.claimRef", default_name);
}

/// Sets the name of a reference to an empty text if it is absent.
pub(crate) fn default_name(reference: &mut Value) {
    if reference.is_object() && get(reference, "name").is_none() {
        put(reference, "name", json!(""));
    }
}

fn same(_: &mut Value) {}
