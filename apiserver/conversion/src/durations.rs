//! Durations of older versions, which are strings there: their paths in each kind, and the errors of invalid ones.
//!
//! An invalid text has no seconds that can be stored. Without an error, a timeout with a typing mistake would be lost
//! silently.

use serde_json::json;

use crate::fields::seconds;

/// Durations of a Machine's spec.
const DELETION: &[&str] = &["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout"];

/// Durations of a health check.
const CHECK: &[&str] =
    &["nodeStartupTimeout", "unhealthyConditions[].timeout", "unhealthyMachineConditions[].timeout"];

/// Durations of a KubeadmConfig's spec.
const KUBEADM: &[&str] = &[
    "initConfiguration.bootstrapTokens[].ttl",
    "clusterConfiguration.apiServer.timeoutForControlPlane",
    "joinConfiguration.discovery.timeout",
];

/// Durations of a control plane.
const REMEDIATION: &[&str] = &["minHealthyPeriod", "retryPeriod"];

/// Paths with durations, and the durations below each path.
type Paths = &'static [(&'static str, &'static [&'static str])];

/// Durations by kind.
const KINDS: [(&str, Paths); 11] = [
    ("Machine", &[("spec", DELETION)]),
    ("MachineSet", TEMPLATE),
    ("MachineDeployment", TEMPLATE),
    ("MachinePool", TEMPLATE),
    ("MachineHealthCheck", &[("spec", CHECK)]),
    (
        "Cluster",
        &[
            ("spec.topology.controlPlane", DELETION),
            ("spec.topology.controlPlane.machineHealthCheck", CHECK),
            ("spec.topology.workers.machineDeployments[]", DELETION),
            ("spec.topology.workers.machineDeployments[].machineHealthCheck", CHECK),
            ("spec.topology.workers.machinePools[]", DELETION),
        ],
    ),
    (
        "ClusterClass",
        &[
            ("spec.controlPlane", DELETION),
            ("spec.controlPlane.machineHealthCheck", CHECK),
            ("spec.workers.machineDeployments[]", DELETION),
            ("spec.workers.machineDeployments[].machineHealthCheck", CHECK),
            ("spec.workers.machinePools[]", DELETION),
        ],
    ),
    ("KubeadmConfig", &[("spec", KUBEADM)]),
    ("KubeadmConfigTemplate", &[("spec.template.spec", KUBEADM)]),
    (
        "KubeadmControlPlane",
        &[
            ("spec.kubeadmConfigSpec", KUBEADM),
            ("spec.machineTemplate", DELETION),
            ("spec.remediationStrategy", REMEDIATION),
        ],
    ),
    (
        "KubeadmControlPlaneTemplate",
        &[
            ("spec.template.spec.kubeadmConfigSpec", KUBEADM),
            ("spec.template.spec.machineTemplate", DELETION),
            ("spec.template.spec.remediationStrategy", REMEDIATION),
        ],
    ),
];

const TEMPLATE: Paths = &[("spec.template.spec", DELETION)];

/// Returns the paths of the durations in objects of a kind in v1beta1.
pub(crate) fn paths(kind: &str) -> impl Iterator<Item = String> {
    let places = KINDS.into_iter().filter(move |(of, _)| *of == kind).flat_map(|(_, places)| places);
    places.flat_map(|(place, durations)| durations.iter().map(move |duration| format!("{place}.{duration}")))
}

/// Returns the error of a duration in the words of Go, which upstream reports.
pub(crate) fn error(text: &str) -> Option<String> {
    if let Some(error) = syntax_error(text) {
        return Some(error);
    }
    let is_negative =
        seconds(&json!(text)).and_then(|seconds| seconds.as_i64()).is_some_and(|found| found < 0);
    is_negative.then(|| "must be greater than or equal to 0".to_owned())
}

fn syntax_error(text: &str) -> Option<String> {
    let invalid = || Some(format!("time: invalid duration {text:?}"));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(digits)?;
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return invalid();
        }
        let (unit, tail) = tail.split_at_checked(tail.find(is_number).unwrap_or(tail.len()))?;
        if unit.is_empty() || number.matches('.').count() > 1 {
            return Some(format!("time: missing unit in duration {text:?}"));
        }
        let Some((_, factor)) = crate::fields::UNITS.iter().find(|(known, _)| *known == unit) else {
            return Some(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        total += number.parse::<f64>().unwrap_or(f64::INFINITY) * factor;
        rest = tail;
    }
    if total > LONGEST_SECONDS { invalid() } else { None }
}

/// Longest duration: as many nanoseconds as fit in 63 bits. Unit: seconds.
const LONGEST_SECONDS: f64 = 9_223_372_036.854_775;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_durations_get_the_error_messages_of_go() {
        for good in ["0", "0s", "1h30m", "1.5h", ".5s", "+2m", "1500ms", "2562047h"] {
            assert_eq!(error(good), None, "{good}");
        }
        for (text, problem) in [
            ("abc", "time: invalid duration \"abc\""),
            ("", "time: invalid duration \"\""),
            (".s", "time: invalid duration \".s\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
            ("10", "time: missing unit in duration \"10\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("1h-1m", "time: unknown unit \"h-\" in duration \"1h-1m\""),
            ("-5s", "must be greater than or equal to 0"),
        ] {
            assert_eq!(error(text).as_deref(), Some(problem), "{text}");
        }
    }
}
