//! ConfigMap: strategy, validation, table and protobuf form.

use apiserver_machinery::age::age;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::rules::data_key;

/// Largest data of a ConfigMap: upstream's limit. Unit: bytes.
const LARGEST: u32 = 1024 * 1024;

/// Strategy of ConfigMap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigMapStrategy;

impl Strategy for ConfigMapStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut total: usize = 0;
        for (field, other) in [("data", "binaryData"), ("binaryData", "data")] {
            let path = FieldPath::new(field);
            for (key, value) in new.get(field).and_then(Value::as_object).into_iter().flatten() {
                errors.extend(data_key::validate(&path, key));
                if field == "data" && new.get(other).and_then(|map| map.get(key)).is_some() {
                    let detail = format!("duplicate of key present in {other}");
                    errors.push(FieldError::invalid(path.key(key), &json!(key), &detail));
                }
                let text = value.as_str().unwrap_or_default();
                total = total.saturating_add(text.len());
                if field == "binaryData" && STANDARD.decode(text).is_err() {
                    errors.push(FieldError::invalid(path.key(key), &json!(key), "must be base64"));
                }
            }
        }
        if u32::try_from(total).map_or(true, |total| total > LARGEST) {
            errors.push(FieldError::too_long(FieldPath::new("data"), LARGEST.into()));
        }
        if let Some(old) = old {
            errors.extend(data_key::immutable(new, old, &["data", "binaryData"]));
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(2, "data", Shape::Texts),
    Field::new(3, "binaryData", Shape::Blobs),
    Field::pointer(4, "immutable", Shape::Boolean),
];

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { format: "name", ..column("Name", "The name of the ConfigMap.") },
        column("Data", "How many keys it has."),
        column("Age", "How long ago it was made."),
    ],
    cells,
};

const fn column(name: &'static str, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority: 0, description }
}

fn cells(map: &Value, now: Timestamp) -> Vec<Value> {
    let count = |field: &str| map.get(field).and_then(Value::as_object).map_or(0, Map::len);
    let keys = count("data").saturating_add(count("binaryData"));
    vec![json!(object::name(map)), json!(keys), json!(age(object::meta(map, "creationTimestamp"), now))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_of_files_in_one_map_only_and_an_immutable_map_does_not_change() {
        let fields = |new: &Value, old: Option<&Value>| -> Vec<String> {
            ConfigMapStrategy.validate(new, old).iter().map(|error| error.field.to_string()).collect()
        };
        let old = json!({"data": {"a": "1"}, "immutable": true});
        let table = [
            (json!({"data": {"a.b-c_D": "1"}, "binaryData": {"b": "YQ=="}}), None, vec![]),
            (json!({"data": {"..a": "1"}}), None, vec!["data[..a]"]),
            (json!({"data": {"a": "1"}, "binaryData": {"a": "YQ=="}}), None, vec!["data[a]"]),
            (json!({"binaryData": {"a": "*"}}), None, vec!["binaryData[a]"]),
            (json!({"data": {"a": "2"}, "immutable": true}), Some(&old), vec!["data"]),
            (json!({"data": {"a": "1"}}), Some(&old), vec!["immutable"]),
        ];
        for (new, old, expected) in table {
            assert_eq!(fields(&new, old), expected, "{new}");
        }
    }
}
