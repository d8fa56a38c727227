//! Settings under `admission`: configurations in files.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings of admission.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Admission {
    /// Directory with webhook configurations and policies in files. Default: none.
    pub(crate) manifests_directory: Option<PathBuf>,
}
