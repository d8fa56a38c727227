//! Conversion of KubeadmControlPlaneTemplate.

use serde_json::{Value, json};

use crate::fields::{get, put, with};
use crate::kubeadm_control_plane::{default_strategy, settings_from_stored, settings_to_stored};
use crate::{Rules, empty};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "controlplane.cluster.x-k8s.io",
    kind: "KubeadmControlPlaneTemplate",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

fn default(object: &mut Value) {
    with(object, "spec.template.spec", default_strategy);
}

fn to_stored(object: &mut Value) {
    with(object, "spec.template.spec", |spec| {
        settings_to_stored(spec);
        empty::drop_at(spec, "machineTemplate");
    });
    for part in ["metadata", "spec"] {
        empty::drop_at(object, &format!("spec.template.{part}"));
    }
}

fn from_stored(object: &mut Value) {
    // v1beta1 requires it.
    with(object, "spec.template", |template| {
        if template.is_object() && get(template, "spec").is_none() {
            put(template, "spec", json!({}));
        }
    });
    with(object, "spec.template.spec", settings_from_stored);
}
