//! What the status of core kinds has in common beside conditions: counts and milestones.

use serde_json::Value;

use crate::fields::{drop_empty, put, rename, take};
use crate::status;

/// The words of one kind's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Fields of v1beta1 that v1beta2 has below `status.deprecated.v1beta1`.
    pub(crate) deprecated: &'static [&'static str],
    /// Fields of v1beta2 that v1beta1 has below `status.v1beta2`.
    pub(crate) modern: &'static [&'static str],
    /// Fields of v1beta1 that are true or absent, and the milestones they became.
    pub(crate) milestones: &'static [(&'static str, &'static str)],
}

/// Of a kind that reports conditions and nothing else that has changed.
pub(crate) const CONDITIONS: Words =
    Words { deprecated: status::CONDITIONS, modern: status::CONDITIONS, milestones: &[] };

impl Words {
    pub(crate) fn to_stored(self, object: &mut Value) {
        for (old, milestone) in self.milestones {
            // False says no more than absent: v1beta1 cannot leave it out.
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
