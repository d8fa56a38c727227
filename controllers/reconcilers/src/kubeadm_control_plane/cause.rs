//! Causes for which a Machine does not match its control plane.

use std::fmt::{self, Display, Formatter};

/// Cause for which a Machine is to be replaced. The first ones come first in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The Machine has another version. The controller of topologies reads the text.
    Version {
        /// Version of the Machine.
        known: String,
        /// Version of the control plane.
        wished: String,
    },
    /// The Machine has other settings of kubeadm.
    Config,
    /// The infrastructure object of this kind was made from another template.
    Infrastructure(String),
    /// The Machine is older than `spec.rollout.after`, which has passed.
    After,
    /// The certificates expire in less than this number of days.
    Expiry(i32),
}

impl Display for Cause {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { known, wished } => write!(formatter, "Version {known}, {wished} required"),
            Self::Config => formatter.write_str("KubeadmConfig is not up-to-date"),
            Self::Infrastructure(kind) => write!(formatter, "{kind} is not up-to-date"),
            Self::After => formatter.write_str("spec.rollout.after has passed"),
            Self::Expiry(days) => write!(formatter, "the certificates expire in less than {days} days"),
        }
    }
}
