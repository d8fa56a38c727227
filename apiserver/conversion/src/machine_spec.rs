//! What a Machine is wanted to be, in itself and in the template of those that make Machines.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{contract_reference, each, object_reference, rename_as, with};
use crate::references;
use crate::timeouts;

/// Fields that refer to other objects.
const REFERENCES: [&str; 2] = ["bootstrap.configRef", "infrastructureRef"];

/// At `path`, from v1beta1.
pub(crate) fn to_stored(object: &mut Value, path: &str) {
    with(object, path, |spec| {
        for field in REFERENCES {
            rename_as(spec, field, field, |reference| {
                contract_reference(reference).filter(references::says_something)
            });
        }
        timeouts::to_stored(spec);
        drop_each(spec, &["readinessGates", "taints"]);
    });
}

/// At `path`, to v1beta1.
pub(crate) fn from_stored(object: &mut Value, path: &str) {
    let namespace = crate::fields::namespace(object);
    with(object, path, |spec| {
        for field in REFERENCES {
            rename_as(spec, field, field, |reference| object_reference(&reference, &namespace));
        }
        timeouts::from_stored(spec);
    });
}

/// At `path`, in v1beta1: references are to the object's own namespace unless they say otherwise, and an empty text says
/// nothing, where upstream has lost it before the schema is asked.
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
