//! Settings under `admission`: configurations in files, and the client certificate for webhooks.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings of admission.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Admission {
    /// Directory with webhook configurations and policies in files. Default: none.
    pub(crate) manifests_directory: Option<PathBuf>,
    /// Client certificate that webhooks get, in PEM. Default: none.
    pub(crate) client_cert_file: Option<PathBuf>,
    /// Key of the client certificate, in PEM. Default: none.
    pub(crate) client_key_file: Option<PathBuf>,
}
