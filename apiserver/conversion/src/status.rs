//! Conversion of the status. The stored version has the older version's conditions under `deprecated`. The older
//! versions have the stored version's conditions under `v1beta2`. Neither is derived from the other.

use serde_json::Value;

use crate::fields::{drop_empty, rename, take};

/// Fields with an old and a new meaning in every kind with conditions.
pub(crate) const CONDITIONS: &[&str] = &["conditions"];

/// Converts the status from the older version. `older` are the fields with their old meaning, `new` those with their
/// new meaning. Both have the same names in both versions.
pub(crate) fn to_stored(object: &mut Value, older: &[&str], new: &[&str]) {
    for field in older {
        rename(object, &format!("status.{field}"), &format!("status.deprecated.v1beta1.{field}"));
    }
    for field in new {
        rename(object, &format!("status.v1beta2.{field}"), &format!("status.{field}"));
    }
    take(object, "status.v1beta2");
    crate::empty::drop_below_one(object, "status.observedGeneration");
    drop_empty(object, "status");
}

/// Converts the status to the older version.
pub(crate) fn from_stored(object: &mut Value, older: &[&str], new: &[&str]) {
    for field in new {
        rename(object, &format!("status.{field}"), &format!("status.v1beta2.{field}"));
    }
    for field in older {
        rename(object, &format!("status.deprecated.v1beta1.{field}"), &format!("status.{field}"));
    }
    take(object, "status.deprecated");
    drop_empty(object, "status");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_version_has_its_own_conditions() {
        let older = json!({"status": {"conditions": ["old"], "failureReason": "r",
            "v1beta2": {"conditions": ["new"]}, "observedGeneration": 3}});
        let stored = json!({"status": {"conditions": ["new"], "observedGeneration": 3,
            "deprecated": {"v1beta1": {"conditions": ["old"], "failureReason": "r"}}}});
        let fields = ["conditions", "failureReason"];
        let mut object = older.clone();
        to_stored(&mut object, &fields, CONDITIONS);
        assert_eq!(object, stored);
        from_stored(&mut object, &fields, CONDITIONS);
        assert_eq!(object, older);
    }

    #[test]
    fn an_empty_status_is_dropped() {
        let mut object = json!({"status": {"v1beta2": {}, "observedGeneration": 0}});
        to_stored(&mut object, CONDITIONS, CONDITIONS);
        assert_eq!(object, json!({}));
    }
}
