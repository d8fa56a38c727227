//! Effect of a pass on the spec.

use apiserver_types::ExtensionConfig;
use controllers_runtime::ReconcileError;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

/// Writes CA certificates, in base64, into the spec. Returns the written object.
///
/// # Errors
/// A conflict, if another client has written since.
pub(super) async fn inject(
    api: &Api<ExtensionConfig>,
    config: &ExtensionConfig,
    bundle: &str,
) -> Result<ExtensionConfig, ReconcileError> {
    let guard = json!({"resourceVersion": config.resource_version(), "uid": config.uid()});
    let change = json!({"metadata": guard, "spec": {"clientConfig": {"caBundle": bundle}}});
    Ok(api.patch(&config.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?)
}
