//! Conversion of KubeadmConfig.

use serde_json::Value;

use crate::core_status::StatusFields;
use crate::fields::{drop_empty, with};
use crate::{Rules, kubeadm, no_defaults, status};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "bootstrap.cluster.x-k8s.io",
    kind: "KubeadmConfig",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &["conditions", "failureReason", "failureMessage"],
    modern: status::CONDITIONS,
    milestones: &[("ready", "dataSecretCreated")],
};

fn to_stored(object: &mut Value) {
    with(object, "spec", kubeadm::to_stored);
    drop_empty(object, "spec");
    STATUS.to_stored(object);
}

fn from_stored(object: &mut Value) {
    with(object, "spec", kubeadm::from_stored);
    STATUS.to_older(object);
}
