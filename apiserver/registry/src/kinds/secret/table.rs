//! Table of Secrets for `kubectl get`, with the number of keys and without values.

use apiserver_machinery::age::age;
use apiserver_machinery::object;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { format: "name", ..column("Name", "The name of the Secret.") },
        column("Type", "What it is for."),
        column("Data", "How many keys it has."),
        column("Age", "How long ago it was made."),
    ],
    cells,
};

const fn column(name: &'static str, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority: 0, description }
}

fn cells(secret: &Value, now: Timestamp) -> Vec<Value> {
    let kind = secret.get("type").and_then(Value::as_str).unwrap_or_default();
    let keys = secret.get("data").and_then(Value::as_object).map_or(0, Map::len);
    let age = age(object::meta(secret, "creationTimestamp"), now);
    vec![json!(object::name(secret)), json!(kind), json!(keys), json!(age)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_keys_and_shows_no_values() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let secret = json!({"metadata": {"name": "s", "creationTimestamp": "2026-11-20T23:59:00Z"}, "type": "Opaque",
            "data": {"password": "aHVudGVyMg==", "user": "YQ=="}});
        assert_eq!(Value::Array(cells(&secret, now)), json!(["s", "Opaque", 2, "60s"]));
    }
}
