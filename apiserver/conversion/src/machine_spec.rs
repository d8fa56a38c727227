//! Conversion of a Machine's spec, in a Machine and in templates of Machines.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{contract_reference, each, object_reference, rename_as, with};
use crate::references;
use crate::timeouts;

/// Fields with references to other objects.
const REFERENCES: [&str; 2] = ["bootstrap.configRef", "infrastructureRef"];

/// Converts the spec at `path` from v1beta1.
pub(crate) fn to_stored(object: &mut Value, path: &str) {
    with(object, path, |spec| {
        for field in REFERENCES {
            rename_as(spec, field, field, |reference| {
                contract_reference(reference).filter(references::is_not_empty)
            });
        }
        timeouts::to_stored(spec);
        drop_each(spec, &["readinessGates", "taints"]);
    });
}

/// Converts the spec at `path` to v1beta1.
pub(crate) fn from_stored(object: &mut Value, path: &str) {
    let namespace = crate::fields::namespace(object);
    with(object, path, |spec| {
        for field in REFERENCES {
            rename_as(spec, field, field, |reference| object_reference(&reference, &namespace));
        }
        timeouts::from_stored(spec);
    });
}

/// Sets v1beta1's defaults in the spec at `path`: references have the object's own namespace and the contract's
/// version. Empty texts are dropped, because upstream's types lose them before validation.
pub(crate) fn default(object: &mut Value, path: &str) {
    with(object, path, |spec| {
        each(spec, "readinessGates", |gate| drop_each(gate, &["polarity"]));
        each(spec, "taints", |taint| drop_each(taint, &["value"]));
        drop_each(spec, &["failureDomain", "providerID", "version", "taints"]);
    });
    for field in REFERENCES {
        references::default(object, &format!("{path}.{field}"));
    }
}
