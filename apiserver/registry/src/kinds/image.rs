//! Image: strategy.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::rules::used_secrets;

/// Strategy of Image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageStrategy;

impl Strategy for ImageStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &["spec.cloudCredentialsRef.secretName"])
    }
}
