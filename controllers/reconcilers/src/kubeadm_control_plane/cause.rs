//! Causes for which a Machine does not match its control plane, each with its remedy.

use std::fmt::{self, Display, Formatter};

/// Remedy that deletes Machines.
const DELETE: &str = "delete the Machines one at a time";

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

impl Cause {
    /// Reports whether a new Machine would have another version or other settings than the others.
    pub(super) const fn is_of_settings(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::Config)
    }

    /// Reports whether new Machines are the remedy.
    pub(super) const fn needs_new_machines(&self) -> bool {
        !self.is_of_settings()
    }

    /// Returns what a person can do while control planes are not rolled out.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::Version { .. } => {
                "Undo the change of spec.version: no Machine is made until then".to_owned()
            }
            Self::Config => {
                "Undo the change of spec.kubeadmConfigSpec: no Machine is made until then".to_owned()
            }
            Self::Infrastructure(kind) => {
                format!("For the template of the {kind}, {DELETE}: each is made again from it")
            }
            Self::After => format!("For spec.rollout.after, {DELETE}, or remove the field"),
            Self::Expiry(_) => format!(
                "For the certificates, run \"kubeadm certs renew all\" on the Nodes and restart their static pods, or {DELETE}. \
                 Renewed certificates are noticed within a day"
            ),
        }
    }
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
