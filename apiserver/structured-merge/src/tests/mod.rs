//! Tests of the whole crate, on the kind of the specification's vectors.

mod properties;
mod replay;
mod units;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::*;

const V1: &str = "lab.example.io/v1";
const V1BETA1: &str = "lab.example.io/v1beta1";

static WIDGET: LazyLock<Arc<Type>> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../../../tests/widget/schema.json")).unwrap();
    Arc::new(Type::of_object(&schema).unwrap())
});

/// Versions that differ only in name.
struct Widgets;

impl Versions for Widgets {
    fn of_version(&self, api_version: &str) -> Option<Arc<Type>> {
        [V1, V1BETA1].contains(&api_version).then(|| Arc::clone(&WIDGET))
    }

    fn convert(&self, mut object: Value, _: &str, to: &str) -> Result<Value, VersionError> {
        object["apiVersion"] = json!(to);
        Ok(object)
    }
}

fn manager(manager: &str, operation: Operation) -> ManagerIdentifier {
    let subresource = String::new();
    ManagerIdentifier { manager: manager.to_owned(), operation, api_version: V1.to_owned(), subresource }
}

fn tracker<'a>(manager: &'a str, reset: &'a Set) -> FieldManager<'a> {
    FieldManager { versions: &Widgets, api_version: V1, manager, subresource: "", reset, now: 1_000 }
}

/// Returns the paths of a set within `spec`, as text.
fn shown(set: &Set) -> Vec<String> {
    set.paths().iter().map(Path::to_string).collect()
}
