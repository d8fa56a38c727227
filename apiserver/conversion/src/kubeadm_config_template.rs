//! Conversion of KubeadmConfigTemplate.

use serde_json::Value;

use crate::fields::with;
use crate::{Rules, empty, kubeadm, no_defaults};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "bootstrap.cluster.x-k8s.io",
    kind: "KubeadmConfigTemplate",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

fn to_stored(object: &mut Value) {
    with(object, "spec.template.spec", kubeadm::to_stored);
    for part in ["metadata", "spec"] {
        empty::drop_at(object, &format!("spec.template.{part}"));
    }
}

fn from_stored(object: &mut Value) {
    with(object, "spec.template.spec", kubeadm::from_stored);
}
