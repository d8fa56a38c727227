//! Conversion of the status of core kinds: conditions, counts and milestones.

use serde_json::Value;

use crate::fields::{drop_empty, put, rename, take};
use crate::status;

/// Fields of one kind's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusFields {
    /// Fields of v1beta1, which v1beta2 has below `status.deprecated.v1beta1`.
    pub(crate) deprecated: &'static [&'static str],
    /// Fields of v1beta2, which v1beta1 has below `status.v1beta2`.
    pub(crate) modern: &'static [&'static str],
    /// Fields of v1beta1 that are true or absent, with the milestones of v1beta2.
    pub(crate) milestones: &'static [(&'static str, &'static str)],
}

/// Status of a kind in which only the conditions differ.
pub(crate) const CONDITIONS: StatusFields =
    StatusFields { deprecated: status::CONDITIONS, modern: status::CONDITIONS, milestones: &[] };

impl StatusFields {
    pub(crate) fn to_stored(self, object: &mut Value) {
        for (old, milestone) in self.milestones {
            // False equals absent, because v1beta1 cannot omit the field.
            if take(object, &format!("status.{old}")) == Some(Value::Bool(true)) {
                put(object, &format!("status.initialization.{milestone}"), Value::Bool(true));
            }
        }
        status::to_stored(object, self.deprecated, self.modern);
    }

    pub(crate) fn to_older(self, object: &mut Value) {
        for (old, milestone) in self.milestones {
            rename(object, &format!("status.initialization.{milestone}"), &format!("status.{old}"));
        }
        drop_empty(object, "status.initialization");
        status::from_stored(object, self.deprecated, self.modern);
    }
}
