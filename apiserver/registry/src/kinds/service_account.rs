//! ServiceAccount: strategy, table and protobuf form.

use apiserver_machinery::age::age;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Strategy of ServiceAccount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    fn drops_nulls(&self) -> bool {
        true
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
    Field::list(
        2,
        "secrets",
        Shape::Message(&[
            Field::new(1, "kind", Shape::Text),
            Field::new(2, "namespace", Shape::Text),
            Field::new(3, "name", Shape::Text),
            Field::new(4, "uid", Shape::Text),
            Field::new(5, "apiVersion", Shape::Text),
            Field::new(6, "resourceVersion", Shape::Text),
            Field::new(7, "fieldPath", Shape::Text),
        ]),
    ),
    Field::list(3, "imagePullSecrets", Shape::Message(&[Field::new(1, "name", Shape::Text)])),
    Field::pointer(4, "automountServiceAccountToken", Shape::Boolean),
];

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { format: "name", ..column("Name", "Name of the service account.") },
        column("Secrets", "Number of the Secrets that it names."),
        column("Age", "Time since its creation."),
    ],
    cells,
};

const fn column(name: &'static str, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority: 0, description }
}

fn cells(account: &Value, now: Timestamp) -> Vec<Value> {
    let secrets = account.get("secrets").and_then(Value::as_array).map_or(0, Vec::len);
    vec![
        json!(object::name(account)),
        json!(secrets),
        json!(age(object::meta(account, "creationTimestamp"), now)),
    ]
}
