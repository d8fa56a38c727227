//! KubeadmConfig.

use serde_json::Value;

use crate::fields::{drop_empty, rename, with};
use crate::{Rules, kubeadm, no_defaults, status};

/// v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "bootstrap.cluster.x-k8s.io",
    kind: "KubeadmConfig",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

/// What v1beta1 reports, with its old meaning.
const OLDER: &[&str] = &["conditions", "failureReason", "failureMessage"];

fn to_stored(object: &mut Value) {
    with(object, "spec", kubeadm::to_stored);
    drop_empty(object, "spec");
    rename(object, "status.ready", "status.initialization.dataSecretCreated");
    status::to_stored(object, OLDER, status::CONDITIONS);
}

fn from_stored(object: &mut Value) {
    with(object, "spec", kubeadm::from_stored);
    rename(object, "status.initialization.dataSecretCreated", "status.ready");
    drop_empty(object, "status.initialization");
    status::from_stored(object, OLDER, status::CONDITIONS);
}
