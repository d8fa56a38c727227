//! Conversion of MachineSet.

use serde_json::Value;

use crate::core_status::StatusFields;
use crate::empty::drop_each;
use crate::fields::{rename, take};
use crate::{Rules, replicas};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachineSet",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &[
        "conditions",
        "failureReason",
        "failureMessage",
        "availableReplicas",
        "fullyLabeledReplicas",
        "readyReplicas",
    ],
    modern: &["conditions", "availableReplicas", "readyReplicas", "upToDateReplicas"],
    milestones: &[],
};

fn default(set: &mut Value) {
    drop_each(set, &["spec.deletePolicy"]);
    replicas::default(set);
}

fn to_stored(set: &mut Value) {
    rename(set, "spec.deletePolicy", "spec.deletion.order");
    replicas::to_stored(set);
    STATUS.to_stored(set);
}

fn from_stored(set: &mut Value) {
    rename(set, "spec.deletion.order", "spec.deletePolicy");
    take(set, "spec.deletion");
    replicas::from_stored(set);
    STATUS.to_older(set);
}
