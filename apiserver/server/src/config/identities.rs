//! Settings under `identities`: permission to use OpenStackClusterIdentities.

use serde::Deserialize;

/// Settings of OpenStackClusterIdentities.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Identities {
    /// True if a user needs the permission `use` on each OpenStackClusterIdentity that an object of the user newly
    /// names. Default: false, as upstream.
    pub(crate) require_use: bool,
}
