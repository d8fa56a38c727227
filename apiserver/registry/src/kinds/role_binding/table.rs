//! Tables of RoleBindings and ClusterRoleBindings for `kubectl get`.

use apiserver_machinery::age::age;
use apiserver_machinery::object;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::text;

const COLUMNS: &[OwnColumn] = &[
    OwnColumn { format: "name", ..column("Name", 0, "Name of the binding.") },
    column("Role", 0, "Role whose permissions the subjects get."),
    column("Age", 0, "Time since its creation."),
    column("Users", 1, "Users that get the permissions."),
    column("Groups", 1, "Groups that get the permissions."),
    column("ServiceAccounts", 1, "Service accounts that get the permissions."),
];

pub(super) const TABLE: OwnTable = OwnTable { columns: COLUMNS, cells };

const fn column(name: &'static str, priority: i32, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority, description }
}

fn cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = binding.get("roleRef").unwrap_or(&Value::Null);
    let subjects = |kind: &str| {
        let all = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        let names = all.filter(|subject| text(subject, "kind") == kind).map(|subject| {
            let (namespace, name) = (text(subject, "namespace"), text(subject, "name"));
            if kind == "ServiceAccount" { format!("{namespace}/{name}") } else { name.to_owned() }
        });
        names.collect::<Vec<_>>().join(", ")
    };
    vec![
        json!(object::name(binding)),
        json!(format!("{}/{}", text(role, "kind"), text(role, "name"))),
        json!(age(object::meta(binding, "creationTimestamp"), now)),
        json!(subjects("User")),
        json!(subjects("Group")),
        json!(subjects("ServiceAccount")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_role_and_the_subjects_by_kind() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let subject = |kind: &str, name: &str| json!({"kind": kind, "name": name, "namespace": "ns"});
        let binding = json!({"metadata": {"name": "b", "creationTimestamp": "2026-11-20T23:59:00Z"},
            "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [subject("User", "a"),
                subject("User", "b"), subject("Group", "g"), subject("ServiceAccount", "s")]});
        let expected = json!(["b", "ClusterRole/view", "60s", "a, b", "g", "ns/s"]);
        assert_eq!(Value::Array(cells(&binding, now)), expected);
    }
}
