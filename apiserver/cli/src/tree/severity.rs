//! Severity of an object, and of one condition.

use apiserver_types::{Condition, ConditionStatus};

/// Conditions for which False is the steady state. All others are steady while they are True.
const NEGATIVE: [&str; 12] = [
    "Paused",
    "Deleting",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
    "Updating",
    "Upgrading",
    "Progressing",
    "Deleted",
    "Reconciling",
    "Stalled",
];

/// Parts of reasons that name an error. All other reasons name a state in which the controller continues by itself.
const ERROR_PARTS: [&str; 18] = [
    "Conflict",
    "Denied",
    "DoesNotExist",
    "Error",
    "Exceeded",
    "Failed",
    "Failure",
    "Forbidden",
    "Invalid",
    "NoCapacity",
    "NotFound",
    "NotSupported",
    "Timeout",
    "TimedOut",
    "Unauthorized",
    "Unhealthy",
    "Unreachable",
    "Unsatisfiable",
];

/// Reason of a MachineDeployment in which nothing has changed for too long.
const DEADLINE: &str = "ProgressDeadlineExceeded";

/// Reasons that repeat the status of their condition. The message says more.
const GENERIC: [&str; 8] = [
    "NotReady",
    "NotAvailable",
    "NotHealthy",
    "InspectionFailed",
    "ReadyUnknown",
    "HealthUnknown",
    "Ready",
    "Available",
];

/// Severity of the state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object is as desired.
    Done,
    /// The controller waits for something else.
    Waiting,
    /// A change is in flight: a rollout, an update, an operation, a deletion.
    Running,
    /// The state is unknown, or no controller acts.
    Warning,
    /// An attempt failed.
    Failed,
}

impl Severity {
    /// Returns the word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }

    /// Returns the severity of a condition.
    #[must_use]
    pub fn of(condition: &Condition) -> Self {
        if is_steady(condition) {
            return Self::Done;
        }
        if NEGATIVE.contains(&condition.kind.as_str()) && condition.holds() {
            return match condition.kind.as_str() {
                "Paused" => Self::Warning,
                "Stalled" => Self::Failed,
                _ => Self::Running,
            };
        }
        if waits(condition) {
            return Self::Waiting;
        }
        if condition.status == ConditionStatus::Unknown {
            return Self::Warning;
        }
        let is_error = ERROR_PARTS.iter().any(|part| condition.reason.contains(part));
        if is_error { Self::Failed } else { Self::Waiting }
    }
}

/// Returns true if the condition reports nothing that needs attention.
pub(crate) fn is_steady(condition: &Condition) -> bool {
    // A MachineDeployment that has nothing left to do holds it, and one that is blocked does not.
    if condition.kind == "Progressing" && ["Complete", DEADLINE].contains(&condition.reason.as_str()) {
        return condition.reason != DEADLINE;
    }
    let steady = if NEGATIVE.contains(&condition.kind.as_str()) {
        ConditionStatus::False
    } else {
        ConditionStatus::True
    };
    condition.status == steady
}

/// Returns true if the reason only repeats the status of the condition.
pub(crate) fn is_generic(reason: &str) -> bool {
    reason.is_empty() || GENERIC.contains(&reason)
}

/// Returns true if reason or message name a prerequisite.
fn waits(condition: &Condition) -> bool {
    condition.reason.starts_with("Waiting") || only_waits(&condition.message)
}

/// Returns true if every statement of the message names a prerequisite. Messages of summaries are lists of bullets, of
/// which those that end with a colon are titles.
fn only_waits(message: &str) -> bool {
    let lines = message.lines().map(|line| line.trim_start_matches([' ', '*']));
    let mut statements = lines.filter(|line| !line.is_empty() && !line.ends_with(':')).peekable();
    statements.peek().is_some()
        && statements.all(|line| {
            let last = line.rsplit(": ").next().unwrap_or_default();
            [line, last].iter().any(|it| it.starts_with("Waiting for")) || line.ends_with(" yet")
        })
}

/// Returns the state of an object whose reason only repeats a status.
pub(crate) fn state_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Done => "Ready",
        Severity::Waiting => "Waiting",
        Severity::Running => "Running",
        Severity::Warning => "Unknown",
        Severity::Failed => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::Time;

    use super::*;

    #[test]
    fn a_condition_has_the_severity_of_its_status_reason_and_message() {
        use ConditionStatus::{False, True, Unknown};
        for (kind, status, reason, message, expected) in [
            ("Ready", True, "Ready", "", Severity::Done),
            ("Paused", False, "NotPaused", "", Severity::Done),
            ("Paused", True, "Paused", "", Severity::Warning),
            ("Deleting", True, "DrainingNode", "", Severity::Running),
            ("Upgrading", True, "ClusterUpgrading", "", Severity::Running),
            ("Upgrading", False, "NotUpgrading", "", Severity::Done),
            ("InstanceReady", False, "WaitingForBootstrapData", "", Severity::Waiting),
            ("NodeHealthy", Unknown, "InspectionFailed", "Waiting for Cluster", Severity::Waiting),
            ("Ready", False, "NotReady", "* DataSecretAvailable: Waiting for Cluster", Severity::Waiting),
            (
                "Ready",
                Unknown,
                "ReadyUnknown",
                "* Machine a:\n  * NodeHealthy: Waiting for B",
                Severity::Waiting,
            ),
            ("RemoteConnectionProbe", False, "ProbeFailed", "Not established yet", Severity::Waiting),
            ("EtcdMemberHealthy", Unknown, "InspectionFailed", "deadline exceeded", Severity::Warning),
            ("InstanceReady", False, "InstanceCreateFailed", "nova: no host", Severity::Failed),
            ("Reconciling", True, "ScalingUp", "See the condition ScalingUp", Severity::Running),
            ("Stalled", True, "RolloutBlocked", "", Severity::Failed),
            ("Progressing", True, "Progressing", "", Severity::Running),
            ("Progressing", True, "Complete", "", Severity::Done),
            ("Progressing", False, "ProgressDeadlineExceeded", "No progress", Severity::Failed),
            ("Progressing", Unknown, "RolloutPaused", "", Severity::Warning),
            ("InstanceReady", False, "QuotaExceeded", "", Severity::Failed),
            ("InstanceReady", False, "InstanceNotReady", "", Severity::Waiting),
        ] {
            let condition = Condition::new(kind, status, reason, message, Time::default());
            assert_eq!(Severity::of(&condition), expected, "{kind} {reason}");
        }
    }
}
