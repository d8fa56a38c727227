//! OpenStackFloatingIPPool: strategy.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::rules::used_identities;

/// Strategy of OpenStackFloatingIPPool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackFloatingIPPoolStrategy;

impl Strategy for OpenStackFloatingIPPoolStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &["spec.identityRef"])
    }
}
