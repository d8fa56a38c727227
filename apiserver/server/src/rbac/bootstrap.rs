//! Creation and repair of the default roles and bindings at the start of the server.

use anyhow::bail;
use apiserver_access::Rule;
use apiserver_access::rbac::uncovered;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::store::{
    FieldValidation, Kind, ObjectStore, Replacement, SERVER, Target, WriteOptions,
};
use serde_json::{Value, json};

use super::{GROUP, defaults};

/// Annotation of a default object. An object with the value `false` stays as it is.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Label of the default objects, and its value.
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// Creates the default objects that are missing, and adds missing rules and subjects to the others. Other rules and
/// subjects stay, except for the rules of [`defaults::withdrawn`].
///
/// # Errors
/// The store's error. A later call continues.
pub(crate) async fn make_defaults(objects: &ObjectStore) -> anyhow::Result<()> {
    let registry = objects.registry();
    for (plural, wanted) in
        [("clusterroles", defaults::roles(registry)), ("clusterrolebindings", defaults::bindings())]
    {
        let Some(kind) = objects.kind(GROUP, "v1", plural) else { return Ok(()) };
        for mut object in wanted {
            object["metadata"]["labels"][BOOTSTRAPPING.0] = json!(BOOTSTRAPPING.1);
            object["metadata"]["annotations"] = json!({AUTOUPDATE: "true"});
            make(objects, kind, plural, &object).await?;
        }
    }
    Ok(())
}

async fn make(objects: &ObjectStore, kind: Kind<'_>, plural: &str, wanted: &Value) -> anyhow::Result<()> {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let options = || WriteOptions {
        dry_run: false,
        field_validation: FieldValidation::Strict,
        manager: SERVER.to_owned(),
        permissions: None,
        admission: None,
        lock: None,
        timeout: None,
    };
    let written = match objects.find(GROUP, plural, "", name).await {
        Ok(Some(found)) => {
            let Some(repaired) = repaired(&found, wanted) else { return Ok(()) };
            let again = || Ok(repaired.clone());
            let replacement = Replacement { object: repaired.clone(), again: &again };
            objects.update(kind, "", name, replacement, Target::Object, options()).await
        }
        Ok(None) => objects.create(kind, "", wanted.clone(), options()).await,
        Err(error) => bail!("{plural} {name:?} cannot be read: {error}"),
    };
    match written {
        Ok(_) => Ok(()),
        // Another replica has created it.
        Err(error) if error.code == 409 && error.reason == "AlreadyExists" => Ok(()),
        Err(error) => bail!("{plural} {name:?} cannot be written: {error}"),
    }
}

/// Returns the object with what it lacks; `None` if it lacks nothing or must stay as it is. A binding to another role
/// stays: the default subjects must not get the permissions of a role that an administrator chose for others.
fn repaired(found: &Value, wanted: &Value) -> Option<Value> {
    let annotation = |object: &Value| object["metadata"]["annotations"][AUTOUPDATE].clone();
    if annotation(found) == "false" {
        return None;
    }
    if found.get("roleRef") != wanted.get("roleRef") {
        let name = found["metadata"]["name"].as_str().unwrap_or_default();
        tracing::warn!(
            "ClusterRoleBinding {name:?} refers to another role than the default one and stays as it is; delete it to \
             get the default at the next start"
        );
        return None;
    }
    let mut new = found.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            if new["metadata"][field].get(key).is_none() {
                new["metadata"][field][key] = value.clone();
            }
        }
    }
    if wanted.get("aggregationRule").is_none() {
        repair_rules(&mut new, wanted);
    } else if new.get("aggregationRule").is_none() {
        new["aggregationRule"] = wanted["aggregationRule"].clone();
    }
    let is_missing = |subject: &&Value| {
        let is_same = |other: &Value| other["kind"] == subject["kind"] && other["name"] == subject["name"];
        !list(found, "subjects").iter().any(is_same)
    };
    let missing: Vec<Value> = list(wanted, "subjects").iter().filter(is_missing).cloned().collect();
    extend(&mut new, "subjects", &missing);
    (new != *found).then_some(new)
}

/// Removes the rules that an earlier release gave by mistake, and adds those that the role lacks.
fn repair_rules(role: &mut Value, wanted: &Value) {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let withdrawn: Vec<Rule> = defaults::withdrawn(name).iter().map(rule).collect();
    if let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) {
        rules.retain(|held| !withdrawn.contains(&rule(held)));
    }
    let held: Vec<Rule> = list(role, "rules").iter().map(rule).collect();
    let is_missing = |wanted: &&Value| !uncovered(&held, &[rule(wanted)]).is_empty();
    let missing: Vec<Value> = list(wanted, "rules").iter().filter(is_missing).cloned().collect();
    extend(role, "rules", &missing);
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn extend(object: &mut Value, field: &str, more: &[Value]) {
    if !more.is_empty() {
        object[field] = json!([list(object, field), more].concat());
    }
}

fn rule(rule: &Value) -> Rule {
    let texts = |field: &str| -> Vec<String> {
        list(rule, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Rule {
        verbs: texts("verbs"),
        groups: texts("apiGroups"),
        resources: texts("resources"),
        names: texts("resourceNames"),
        paths: texts("nonResourceURLs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(rules: &Value, autoupdate: &str) -> Value {
        json!({"metadata": {"name": "r", "labels": {"a": "b"}, "annotations": {AUTOUPDATE: autoupdate}}, "rules": rules})
    }

    #[test]
    fn missing_rules_and_subjects_are_added_and_others_stay() {
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let more = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["*"]});
        let nodes = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]});
        let wanted = object(&json!([pods]), "true");
        assert_eq!(repaired(&wanted, &wanted), None);
        assert_eq!(repaired(&object(&json!([more]), "true"), &wanted), None, "wider rules cover it");
        let found = repaired(&object(&json!([nodes]), "true"), &wanted).unwrap();
        assert_eq!(found["rules"], json!([nodes, pods]));
        assert_eq!(repaired(&object(&json!([]), "false"), &wanted), None);
        let bare = json!({"metadata": {"name": "r"}, "rules": [pods]});
        assert_eq!(repaired(&bare, &wanted).unwrap()["metadata"], wanted["metadata"]);

        let subject = |name: &str| json!({"kind": "Group", "name": name, "apiGroup": GROUP});
        let binding = |names: &[&str]| {
            let subjects: Vec<Value> = names.iter().map(|name| subject(name)).collect();
            json!({"metadata": {"name": "b"}, "subjects": subjects})
        };
        let found = repaired(&binding(&["mine"]), &binding(&["a", "mine"])).unwrap();
        assert_eq!(found["subjects"], json!([subject("mine"), subject("a")]));
        let mut other = binding(&["mine"]);
        other["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"});
        assert_eq!(repaired(&other, &binding(&["a"])), None, "the subjects must not get another role");
    }

    #[test]
    fn a_rule_that_was_given_by_mistake_is_removed_from_its_role_alone() {
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let token = json!({"verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"]});
        let wider =
            json!({"verbs": ["create", "get"], "apiGroups": [""], "resources": ["serviceaccounts/token"]});
        let role = |name: &str, rules: &Value, autoupdate: &str| {
            let mut role = object(rules, autoupdate);
            role["metadata"]["name"] = json!(name);
            role
        };
        let operator = |rules: Value, autoupdate: &str| role("capstan:operator", &rules, autoupdate);
        let wanted = operator(json!([pods]), "true");
        let found = repaired(&operator(json!([pods, token, wider]), "true"), &wanted).unwrap();
        assert_eq!(found["rules"], json!([pods, wider]), "the wider rule is an administrator's");
        assert_eq!(repaired(&found, &wanted), None);
        assert_eq!(repaired(&operator(json!([pods, token]), "false"), &wanted), None);
        let other = role("capstan:view", &json!([pods, token]), "true");
        assert_eq!(repaired(&other, &role("capstan:view", &json!([pods]), "true")), None);
    }

    #[test]
    fn an_aggregated_role_gets_its_selectors_and_keeps_its_rules() {
        let mut wanted = object(&json!([]), "true");
        wanted["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
        let mut found = wanted.clone();
        found["rules"] = json!([{"verbs": ["get"]}]);
        assert_eq!(repaired(&found, &wanted), None);
        found.as_object_mut().unwrap().remove("aggregationRule");
        let new = repaired(&found, &wanted).unwrap();
        assert_eq!((&new["aggregationRule"], &new["rules"]), (&wanted["aggregationRule"], &found["rules"]));
    }
}
