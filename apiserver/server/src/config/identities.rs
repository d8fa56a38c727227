//! Settings under `identities`: permission to use the credentials of others.

use serde::Deserialize;

/// Settings of references to credentials.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Identities {
    /// True if a user needs the permission `use` on each OpenStackClusterIdentity that an object of the user newly
    /// names. Default: false, as upstream.
    pub(crate) require_use: bool,
    /// True if a user needs the permission `get` on each Secret that an object of the user newly names in `identityRef`.
    /// Default: true on the direct endpoint. Through a host cluster it is false, as upstream.
    pub(crate) require_secret_read: Option<bool>,
}
