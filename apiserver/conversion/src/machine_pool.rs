//! Conversion of MachinePool.

use serde_json::Value;

use crate::core_status::StatusFields;
use crate::{Rules, replicas};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachinePool",
    version: "v1beta1",
    stored: "v1beta2",
    default: replicas::default,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &[
        "conditions",
        "failureReason",
        "failureMessage",
        "availableReplicas",
        "readyReplicas",
        "unavailableReplicas",
    ],
    modern: &["conditions", "availableReplicas", "readyReplicas", "upToDateReplicas"],
    milestones: &[
        ("bootstrapReady", "bootstrapDataSecretCreated"),
        ("infrastructureReady", "infrastructureProvisioned"),
    ],
};

fn to_stored(pool: &mut Value) {
    replicas::to_stored(pool);
    STATUS.to_stored(pool);
}

fn from_stored(pool: &mut Value) {
    replicas::from_stored(pool);
    STATUS.to_older(pool);
}
