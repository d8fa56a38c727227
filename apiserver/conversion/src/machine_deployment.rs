//! Conversion of MachineDeployment.

use serde_json::Value;

use crate::core_status::StatusFields;
use crate::fields::{drop_empty, rename, take, with};
use crate::replicas::Strategy;
use crate::{Rules, replicas};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "MachineDeployment",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &[
        "conditions",
        "availableReplicas",
        "readyReplicas",
        "unavailableReplicas",
        "updatedReplicas",
    ],
    modern: &["conditions", "availableReplicas", "readyReplicas", "upToDateReplicas"],
    milestones: &[],
};

const STRATEGY: Strategy = Strategy { max_in_flight: "remediation.maxInFlight" };

fn default(deployment: &mut Value) {
    replicas::default(deployment);
    with(deployment, "spec", |spec| STRATEGY.default(spec));
}

fn to_stored(deployment: &mut Value) {
    rename(deployment, "spec.rolloutAfter", "spec.rollout.after");
    with(deployment, "spec", |spec| STRATEGY.to_stored(spec));
    // No controller has read these fields for a long time.
    take(deployment, "spec.progressDeadlineSeconds");
    take(deployment, "spec.revisionHistoryLimit");
    replicas::to_stored(deployment);
    STATUS.to_stored(deployment);
}

fn from_stored(deployment: &mut Value) {
    rename(deployment, "spec.rollout.after", "spec.rolloutAfter");
    with(deployment, "spec", |spec| STRATEGY.to_older(spec));
    drop_empty(deployment, "spec.remediation");
    replicas::from_stored(deployment);
    STATUS.to_older(deployment);
}
