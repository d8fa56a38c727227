//! Reasons why a pass ends before the data exists, and what they mean for conditions.

use std::time::Duration;

use controllers_runtime::ReconcileError;
use controllers_workload::WorkloadError;

/// Interval of a pass that waits for the control plane or the lock. Upstream's value; watches report changes sooner.
pub(super) const WAITING: Duration = Duration::from_secs(30);

/// Interval of a pass that waits for the endpoint or the workload cluster, or that failed. Upstream's value for the
/// endpoint.
pub(super) const SHORT: Duration = Duration::from_secs(10);

/// Interval of a pass that waits for a Secret of the user. Secrets are not watched, and a late one is to take effect within
/// a few seconds. A pass costs a few reads of our own API.
pub(super) const SECRET: Duration = Duration::from_secs(3);

/// Interval of a pass that has released a stale lock: it may take the lock now.
pub(super) const RELEASED: Duration = Duration::from_secs(1);

/// Part of the bootstrap that a stopped pass concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Infrastructure of the Cluster, which is awaited.
    Infrastructure,
    /// Control plane, which is awaited.
    ControlPlane,
    /// Certificates of a first node, which cannot be used.
    InitCertificates,
    /// Certificates of a joining node, which cannot be used.
    JoinCertificates,
    /// Content of the data, which cannot be prepared.
    Data,
    /// An object that cannot be read, written or used. It is not known whether the others can.
    Access,
}

/// Reason why a pass ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub part: Part,
    /// For people.
    pub message: String,
    /// Time after which the next pass is due.
    pub after: Duration,
}

/// End of a pass that has no data to report.
#[derive(Debug)]
pub(super) enum Failure {
    /// The conditions tell it.
    Stop(Stop),
    /// The API failed, or another client has written.
    Api(ReconcileError),
}

impl Failure {
    /// Creates the failure of a part.
    pub(super) fn of(part: Part, message: impl Into<String>) -> Self {
        let after = match part {
            Part::Infrastructure | Part::ControlPlane => WAITING,
            Part::InitCertificates | Part::JoinCertificates | Part::Data | Part::Access => SHORT,
        };
        Self::Stop(Stop { part, message: message.into(), after })
    }

    /// Creates the failure of content that cannot be prepared.
    pub(super) fn data(error: impl std::fmt::Display) -> Self {
        Self::of(Part::Data, error.to_string())
    }

    /// Creates the end of a pass that has released a stale lock.
    pub(super) fn released(message: impl Into<String>) -> Self {
        Self::Stop(Stop { part: Part::ControlPlane, message: message.into(), after: RELEASED })
    }

    /// Creates the failure of content whose Secret or key does not exist yet.
    pub(super) fn missing_content(cause: impl Into<String>) -> Self {
        Self::Stop(Stop { part: Part::Data, message: cause.into(), after: SECRET })
    }

    /// Assigns what is not a failure of the API to a part.
    pub(super) fn in_part(part: Part) -> impl Fn(ReconcileError) -> Self {
        move |error| match error {
            ReconcileError::Waiting { message, .. } => Self::of(part, message),
            other => Self::Api(other),
        }
    }
}

/// Returns the cause of a failed call in the words of the other side, and the remedy if there is one.
pub(super) fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("{}. Grant Capstan this permission", status.message)
        }
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl From<ReconcileError> for Failure {
    fn from(error: ReconcileError) -> Self {
        Self::in_part(Part::Data)(error)
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Api(error.into())
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Self::data(error)
    }
}
