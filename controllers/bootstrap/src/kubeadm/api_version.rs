//! API version of a kubeadm configuration file.

use semver::Version;

use super::RenderError;

/// First minor whose kubeadm reads v1beta3. Older API versions are not written any more.
const FIRST: (u64, u64) = (1, 22);

/// First minor whose kubeadm reads v1beta4 without an experimental flag.
const FIRST_V1BETA4: (u64, u64) = (1, 31);

/// API version of a kubeadm configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiVersion {
    /// `kubeadm.k8s.io/v1beta3`, for kubeadm 1.22 to 1.30: arguments are maps, and several fields do not exist.
    V1Beta3,
    /// `kubeadm.k8s.io/v1beta4`, for kubeadm from 1.31 on.
    V1Beta4,
}

impl ApiVersion {
    /// Returns the API version for the kubeadm of this Kubernetes version. A pre-release counts as its release.
    pub(super) fn of(version: &str) -> Result<Self, RenderError> {
        let text = version.strip_prefix('v').unwrap_or(version);
        let parsed = Version::parse(text).map_err(|error| RenderError::Version {
            version: version.to_owned(),
            detail: error.to_string(),
        })?;
        match (parsed.major, parsed.minor) {
            minor if minor < FIRST => Err(RenderError::TooOld(version.to_owned())),
            minor if minor < FIRST_V1BETA4 => Ok(Self::V1Beta3),
            _ => Ok(Self::V1Beta4),
        }
    }

    /// Returns the API version that a document names; `None` if it is not known here.
    pub(super) fn read(text: &str) -> Option<Self> {
        [Self::V1Beta3, Self::V1Beta4].into_iter().find(|version| version.text() == text)
    }

    /// Returns the value of `apiVersion`.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::V1Beta3 => "kubeadm.k8s.io/v1beta3",
            Self::V1Beta4 => "kubeadm.k8s.io/v1beta4",
        }
    }
}
