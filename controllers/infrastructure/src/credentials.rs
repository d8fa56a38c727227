//! Credentials of a cloud's user.

use std::fmt;

/// One entry of a `clouds.yaml` in a Secret.
///
/// Never printed: `Debug` shows the cloud's name only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The whole `clouds.yaml`.
    pub clouds_yaml: String,
    /// Name of the entry.
    pub cloud_name: String,
    /// PEM certificates to trust beside the system's, if the Secret has a `cacert`.
    pub ca_certificate: Option<String>,
    /// Overrides the entry's region.
    pub region: Option<String>,
    /// Shared identity that led to the credentials. Its users do not share a session with others.
    pub identity: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("cloud_name", &self.cloud_name).finish_non_exhaustive()
    }
}
