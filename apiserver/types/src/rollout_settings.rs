//! Settings of rollouts, remediations and deletions that upstream does not have: annotations of Clusters,
//! MachineDeployments and MachineSets. The server validates them, and the controllers read them with the same functions.

use k8s_openapi::jiff::SignedDuration;

use crate::cluster_upgrade::{UPGRADE, upgrade_versions};
use crate::maintenance_window::{MAINTENANCE_WINDOW, MaintenanceWindow};
use crate::node_labels::{NODE_LABELS, NodeLabels};
use crate::shared::IntOrString;

/// Annotation of a Cluster, and of a MachineSet without a MachineDeployment, with the maximum number of remediations in
/// flight. A number, or a percentage of the replicas that is rounded up. Absent: no limit.
pub const REMEDIATION_MAX_IN_FLIGHT: &str = "capstan.dev/remediation-max-in-flight";

/// Annotation of a MachineDeployment or MachineSet with the number of retries of a remediation. Absent: no limit.
pub const REMEDIATION_MAX_RETRY: &str = "capstan.dev/remediation-max-retry";

/// Annotation of a MachineDeployment or MachineSet with the least time between two retries, e.g. `10m`. Absent: 0.
pub const REMEDIATION_RETRY_PERIOD: &str = "capstan.dev/remediation-retry-period";

/// Annotation of a MachineDeployment or MachineSet with the time after which a failure is not a retry, e.g. `1h`, the
/// default. It counts from the last remediation.
pub const REMEDIATION_MIN_HEALTHY_PERIOD: &str = "capstan.dev/remediation-min-healthy-period";

/// Annotation of a MachineSet with its chains of remediations, in JSON. Its controller writes it.
pub const REMEDIATION_CHAINS: &str = "capstan.dev/remediation-chains";

/// Annotation of a MachineDeployment with the time in which it must progress, at least `1m`. Absent: `30m`.
pub const PROGRESS_DEADLINE: &str = "capstan.dev/progress-deadline";

/// Annotation of a MachineDeployment with the action at the end of that time: `pause`. Absent: none.
pub const ON_DEADLINE: &str = "capstan.dev/on-deadline";

/// Annotation of a MachineDeployment with the number of its revisions that are kept. 0 is the same as 1. Absent: 10.
pub const REVISION_HISTORY_LIMIT: &str = "capstan.dev/revision-history-limit";

/// Annotation of a MachineDeployment with its last progress, in JSON. Its controller writes it.
pub const PROGRESS: &str = "capstan.dev/progress";

/// Annotation of a MachineDeployment or KubeadmControlPlane with the policy of its rollouts, a [`RolloutPolicy`]. Absent:
/// `InPlaceThenReplace`.
pub const ROLLOUT_POLICY: &str = "capstan.dev/rollout-policy";

/// Annotation of a Cluster with the time limit of a drain, e.g. `30m`, for the deletion of its Machines that have no
/// `spec.deletion.nodeDrainTimeoutSeconds`. 0 and absent: no limit.
pub const NODE_DRAIN_TIMEOUT: &str = "capstan.dev/node-drain-timeout";

/// Annotation of a Cluster with the time limit of the wait for volumes, e.g. `10m`, for the deletion of its Machines that
/// have no `spec.deletion.nodeVolumeDetachTimeoutSeconds`. 0 and absent: no limit.
pub const NODE_VOLUME_DETACH_TIMEOUT: &str = "capstan.dev/node-volume-detach-timeout";

/// Policy of rollouts: how Machines become up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutPolicy {
    /// Machines with a difference that Capstan itself cannot make in place are replaced. No extension server is called.
    Replace,
    /// Differences are made in place where Capstan or an extension server can. Other Machines are replaced. The default, as
    /// upstream.
    InPlaceThenReplace,
    /// Differences are made in place, also by an extension server. No Machine is replaced for a rollout.
    InPlaceOnly,
}

/// Value of [`ON_DEADLINE`] that pauses the MachineDeployment.
pub const PAUSE: &str = "pause";

/// Default of [`PROGRESS_DEADLINE`].
pub const DEFAULT_DEADLINE: SignedDuration = SignedDuration::from_mins(30);

/// Shortest deadline: a Machine needs longer for most of its steps.
const SHORTEST_DEADLINE: SignedDuration = SignedDuration::from_mins(1);

/// Returns the value of [`REMEDIATION_MAX_IN_FLIGHT`], or `None` if it is neither a number nor a percentage up to 100.
#[must_use]
pub fn max_in_flight(text: &str) -> Option<IntOrString> {
    match text.strip_suffix('%') {
        Some(share) => {
            number(share).filter(|share| *share <= 100).map(|share| IntOrString::String(format!("{share}%")))
        }
        None => number(text).map(IntOrString::Int),
    }
}

/// Returns the value of [`REMEDIATION_MAX_RETRY`], or `None` if it is no number.
#[must_use]
pub fn max_retry(text: &str) -> Option<i32> {
    number(text)
}

/// Returns the value of [`REVISION_HISTORY_LIMIT`], or `None` if it is no number.
#[must_use]
pub fn history_limit(text: &str) -> Option<usize> {
    number(text).and_then(|limit| usize::try_from(limit).ok())
}

/// Returns the value of [`REMEDIATION_RETRY_PERIOD`] or [`REMEDIATION_MIN_HEALTHY_PERIOD`], or `None` if it is no
/// duration, or a negative one.
#[must_use]
pub fn period(text: &str) -> Option<SignedDuration> {
    text.parse().ok().filter(|period: &SignedDuration| !period.is_negative())
}

/// Returns the value of [`NODE_DRAIN_TIMEOUT`] or [`NODE_VOLUME_DETACH_TIMEOUT`] in seconds, rounded up, or `None` if it is
/// no duration, or a negative one.
#[must_use]
pub fn timeout_seconds(text: &str) -> Option<i64> {
    let period = period(text)?;
    Some(period.as_secs().saturating_add(i64::from(period.subsec_nanos() > 0)))
}

/// Returns the value of [`PROGRESS_DEADLINE`], or `None` if it is no duration of at least `1m`.
#[must_use]
pub fn deadline(text: &str) -> Option<SignedDuration> {
    period(text).filter(|deadline| *deadline >= SHORTEST_DEADLINE)
}

/// Returns the value of [`ROLLOUT_POLICY`], or `None` if it is no policy.
#[must_use]
pub fn rollout_policy(text: &str) -> Option<RolloutPolicy> {
    match text {
        "Replace" => Some(RolloutPolicy::Replace),
        "InPlaceThenReplace" => Some(RolloutPolicy::InPlaceThenReplace),
        "InPlaceOnly" => Some(RolloutPolicy::InPlaceOnly),
        _ => None,
    }
}

/// Returns the problem with the value of one of these settings, for people; `None` if there is none, or if the annotation
/// is no setting.
#[must_use]
pub fn setting_problem(key: &str, value: &str) -> Option<String> {
    let (is_usable, problem) = match key {
        REMEDIATION_MAX_IN_FLIGHT => {
            (max_in_flight(value).is_some(), "must be a number or a percentage, such as \"2\" or \"20%\"")
        }
        REMEDIATION_MAX_RETRY => (max_retry(value).is_some(), "must be a number, such as \"3\""),
        REVISION_HISTORY_LIMIT => (history_limit(value).is_some(), "must be a number, such as \"10\""),
        REMEDIATION_RETRY_PERIOD
        | REMEDIATION_MIN_HEALTHY_PERIOD
        | NODE_DRAIN_TIMEOUT
        | NODE_VOLUME_DETACH_TIMEOUT => (period(value).is_some(), "must be a duration, such as \"10m\""),
        PROGRESS_DEADLINE => {
            (deadline(value).is_some(), "must be a duration of at least 1m, such as \"30m\"")
        }
        ON_DEADLINE => (value == PAUSE, "must be \"pause\", or absent"),
        ROLLOUT_POLICY => (
            rollout_policy(value).is_some(),
            "must be \"Replace\", \"InPlaceThenReplace\" or \"InPlaceOnly\"",
        ),
        MAINTENANCE_WINDOW => return MaintenanceWindow::parse(value).err(),
        NODE_LABELS => return NodeLabels::parse(value).err(),
        UPGRADE => return upgrade_versions(value).err(),
        _ => return None,
    };
    (!is_usable).then(|| problem.to_owned())
}

/// Returns a number that is not negative. A sign is not allowed.
fn number(text: &str) -> Option<i32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_usable_and_unusable_values() {
        let table = [
            (
                REMEDIATION_MAX_IN_FLIGHT,
                vec!["0", "3", "0%", "20%", "100%"],
                vec!["", "-1", "+1", "101%", "%", "x"],
            ),
            (REMEDIATION_MAX_RETRY, vec!["0", "3"], vec!["", "-1", "1.5", "3x", "99999999999"]),
            (REVISION_HISTORY_LIMIT, vec!["0", "10"], vec!["", "-1", "x"]),
            (REMEDIATION_RETRY_PERIOD, vec!["0s", "90s", "1h30m"], vec!["", "10", "-5m", "soon"]),
            (REMEDIATION_MIN_HEALTHY_PERIOD, vec!["1h"], vec!["hour"]),
            (NODE_DRAIN_TIMEOUT, vec!["0s", "30m"], vec!["", "600", "-1m"]),
            (NODE_VOLUME_DETACH_TIMEOUT, vec!["10m"], vec!["never"]),
            (NODE_LABELS, vec!["team", "a,example.org/*"], vec!["", "a b"]),
            (UPGRADE, vec!["v1.34.2", "v1.34.2,v1.35.0"], vec!["", "1.34.2", "v1.35.0,v1.34.2"]),
            (PROGRESS_DEADLINE, vec!["1m", "30m", "48h"], vec!["59s", "0s", "-1h", "30", ""]),
            (ON_DEADLINE, vec!["pause"], vec!["", "Pause", "delete"]),
            (
                ROLLOUT_POLICY,
                vec!["Replace", "InPlaceThenReplace", "InPlaceOnly"],
                vec!["", "inplaceonly", "Never"],
            ),
            (
                MAINTENANCE_WINDOW,
                vec!["0 2 * * 6 4h Europe/Berlin", "* * * * * 1h UTC"],
                vec!["", "0 2 * * 6 4h", "0 2 * * 6 4h Here", "0 2 30 2 * 4h UTC"],
            ),
        ];
        for (key, usable, unusable) in table {
            assert!(usable.iter().all(|value| setting_problem(key, value).is_none()), "{key}");
            for value in unusable {
                assert!(
                    setting_problem(key, value).is_some_and(|it| it.starts_with("must be")),
                    "{key} {value}"
                );
            }
        }
        assert_eq!(setting_problem(PROGRESS, "x"), None);
        assert_eq!(max_in_flight("7"), Some(IntOrString::Int(7)));
        assert_eq!(max_in_flight("07%"), Some(IntOrString::String("7%".to_owned())));
        assert_eq!(period("1h30m"), Some(SignedDuration::from_mins(90)));
        let seconds = ["0s", "2m", "1500ms", "-1s"].map(timeout_seconds);
        assert_eq!(seconds, [Some(0), Some(120), Some(2), None]);
    }
}
