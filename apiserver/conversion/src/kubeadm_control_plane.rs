//! Conversion of KubeadmControlPlane.

use serde_json::{Value, json};

use crate::core_status::StatusFields;
use crate::fields::{
    contract_reference, duration, get, namespace, object_reference, put, rename, rename_as, seconds, take,
    with,
};
use crate::{Rules, empty, kubeadm, references};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "controlplane.cluster.x-k8s.io",
    kind: "KubeadmControlPlane",
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
        "readyReplicas",
        "updatedReplicas",
        "unavailableReplicas",
    ],
    modern: &["conditions", "readyReplicas", "availableReplicas", "upToDateReplicas"],
    milestones: &[("initialized", "controlPlaneInitialized")],
};

fn default(object: &mut Value) {
    references::default(object, "spec.machineTemplate.infrastructureRef");
    with(object, "spec", |spec| {
        empty::drop_each(spec, &["kubeadmConfigSpec.format"]);
        default_strategy(spec);
    });
}

/// Sets v1beta1's default of the rollout strategy.
pub(crate) fn default_strategy(spec: &mut Value) {
    empty::drop_each(spec, &["rolloutStrategy.type"]);
    let has = |spec: &Value, field: &str| get(spec, field).is_some();
    if !spec.is_object() || get(spec, "rolloutStrategy").is_some_and(|strategy| !strategy.is_object()) {
        return;
    }
    if !has(spec, "rolloutStrategy.type") {
        put(spec, "rolloutStrategy.type", "RollingUpdate".into());
    }
    let is_rolling = get(spec, "rolloutStrategy.type").and_then(Value::as_str) == Some("RollingUpdate");
    if is_rolling && !has(spec, "rolloutStrategy.rollingUpdate.maxSurge") {
        put(spec, "rolloutStrategy.rollingUpdate.maxSurge", 1.into());
    }
}

fn to_stored(object: &mut Value) {
    with(object, "spec", |spec| {
        settings_to_stored(spec);
        rename_as(
            spec,
            "machineTemplate.infrastructureRef",
            "machineTemplate.spec.infrastructureRef",
            contract_reference,
        );
        rename(spec, "machineTemplate.readinessGates", "machineTemplate.spec.readinessGates");
        empty::drop_at(spec, "machineTemplate.spec.readinessGates");
    });
    take(object, "status.ready");
    rename(object, "status.lastRemediation.timestamp", "status.lastRemediation.time");
    STATUS.to_stored(object);
}

fn from_stored(object: &mut Value) {
    let namespace = namespace(object);
    with(object, "spec", |spec| {
        rename_as(
            spec,
            "machineTemplate.spec.infrastructureRef",
            "machineTemplate.infrastructureRef",
            |reference| object_reference(&reference, &namespace),
        );
        rename(spec, "machineTemplate.spec.readinessGates", "machineTemplate.readinessGates");
        settings_from_stored(spec);
    });
    rename(object, "status.lastRemediation.time", "status.lastRemediation.timestamp");
    STATUS.to_older(object);
    // In v1beta1, a control plane is ready if one of its machines is.
    if let Some(count) = get(object, "status.readyReplicas").and_then(Value::as_i64) {
        put(object, "status.ready", json!(count > 0));
    }
}

/// Converts the fields that a control plane and its template share, from v1beta1.
pub(crate) fn settings_to_stored(spec: &mut Value) {
    with(spec, "kubeadmConfigSpec", kubeadm::to_stored);
    rename(spec, "machineNamingStrategy", "machineNaming");
    rename(spec, "remediationStrategy", "remediation");
    rename_as(spec, "remediation.minHealthyPeriod", "remediation.minHealthyPeriodSeconds", |v| seconds(&v));
    rename_as(spec, "remediation.retryPeriod", "remediation.retryPeriodSeconds", |v| seconds(&v));
    rename(spec, "rolloutBefore", "rollout.before");
    empty::drop_below_one(spec, "rollout.before.certificatesExpiryDays");
    rename(spec, "rolloutAfter", "rollout.after");
    rename(spec, "rolloutStrategy", "rollout.strategy");
    empty::drop_at(spec, "rollout.strategy.rollingUpdate");
    with(spec, "rollout.strategy", |strategy| {
        if strategy.is_object() && get(strategy, "type").is_none() {
            put(strategy, "type", json!("RollingUpdate"));
        }
    });
    rename(spec, "machineTemplate.taints", "machineTemplate.spec.taints");
    for (older, stored) in TIMEOUTS {
        let (older, stored) =
            (format!("machineTemplate.{older}"), format!("machineTemplate.spec.deletion.{stored}"));
        rename_as(spec, &older, &stored, |wait| seconds(&wait));
    }
    for path in [
        "rollout.before",
        "rollout",
        "remediation",
        "machineNaming",
        "machineTemplate.metadata",
        "kubeadmConfigSpec",
    ] {
        empty::drop_at(spec, path);
    }
}

/// Converts the fields that a control plane and its template share, to v1beta1.
pub(crate) fn settings_from_stored(spec: &mut Value) {
    for (older, stored) in TIMEOUTS {
        let (older, stored) =
            (format!("machineTemplate.{older}"), format!("machineTemplate.spec.deletion.{stored}"));
        rename_as(spec, &stored, &older, |wait| duration(&wait));
    }
    rename(spec, "machineTemplate.spec.taints", "machineTemplate.taints");
    take(spec, "machineTemplate.spec");
    rename(spec, "rollout.strategy", "rolloutStrategy");
    rename(spec, "rollout.after", "rolloutAfter");
    rename(spec, "rollout.before", "rolloutBefore");
    take(spec, "rollout");
    rename_as(spec, "remediation.retryPeriodSeconds", "remediation.retryPeriod", |v| duration(&v));
    rename_as(spec, "remediation.minHealthyPeriodSeconds", "remediation.minHealthyPeriod", |v| duration(&v));
    rename(spec, "remediation", "remediationStrategy");
    rename(spec, "machineNaming", "machineNamingStrategy");
    // v1beta1 requires it.
    if spec.is_object() && get(spec, "kubeadmConfigSpec").is_none() {
        put(spec, "kubeadmConfigSpec", json!({}));
    }
    with(spec, "kubeadmConfigSpec", kubeadm::from_stored);
}

/// Timeouts of a machine's deletion: names in v1beta1 and in v1beta2.
const TIMEOUTS: [(&str, &str); 3] = [
    ("nodeDrainTimeout", "nodeDrainTimeoutSeconds"),
    ("nodeVolumeDetachTimeout", "nodeVolumeDetachTimeoutSeconds"),
    ("nodeDeletionTimeout", "nodeDeletionTimeoutSeconds"),
];
