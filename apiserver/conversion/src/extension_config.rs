//! Conversion of ExtensionConfig.

use serde_json::Value;

use crate::fields::each;
use crate::{Rules, empty, no_defaults, status};

/// Rules of v1alpha1.
pub(crate) const V1ALPHA1: Rules = Rules {
    group: "runtime.cluster.x-k8s.io",
    kind: "ExtensionConfig",
    version: "v1alpha1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored,
    from_stored,
};

fn to_stored(object: &mut Value) {
    each(object, "status.handlers", |handler| empty::drop_below_one(handler, "timeoutSeconds"));
    status::to_stored(object, status::CONDITIONS, status::CONDITIONS);
}

fn from_stored(object: &mut Value) {
    status::from_stored(object, status::CONDITIONS, status::CONDITIONS);
}
