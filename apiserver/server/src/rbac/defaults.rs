//! Default ClusterRoles and ClusterRoleBindings of the direct endpoint.

use apiserver_machinery::action::ActionMethod;
use apiserver_machinery::resource::{Registry, Resource};
use serde_json::{Value, json};

use super::GROUP;

/// Verbs of a reader.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Verbs of a writer.
const WRITE: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Kinds that scale with a cluster, and that a cluster autoscaler changes.
const SCALED: [&str; 3] = ["machinedeployments", "machinepools", "machinesets"];

/// Returns all default ClusterRoles.
pub(super) fn roles(registry: &Registry) -> Vec<Value> {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let all_paths = paths(&["*"], &["*"]);
    let mut roles = vec![role("cluster-admin", &json!([all, all_paths]))];
    roles.extend(aggregated());
    roles.extend(of_kinds(registry));
    roles.extend(of_tools(registry));
    roles.extend(of_everyone());
    roles
}

/// Returns all default ClusterRoleBindings: role and groups.
pub(super) fn bindings() -> Vec<Value> {
    let all: [(&str, &[&str]); 6] = [
        ("cluster-admin", &["system:masters", "capstan:admins"]),
        ("system:basic-user", &["system:authenticated"]),
        ("system:discovery", &["system:authenticated"]),
        ("system:monitoring", &["system:monitoring"]),
        ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
    ];
    all.into_iter().map(|(role, groups)| binding(role, groups)).collect()
}

/// Returns the rules that an earlier release gave to a default role by mistake. The repair of the role removes them.
pub(super) fn withdrawn(role: &str) -> Vec<Value> {
    match role {
        "capstan:operator" => vec![rule("", &["serviceaccounts/token"], &["create"])],
        _ => Vec::new(),
    }
}

fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> =
        groups.iter().map(|name| json!({"apiGroup": GROUP, "kind": "Group", "name": name})).collect();
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}, "subjects": subjects})
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn paths(paths: &[&str], verbs: &[&str]) -> Value {
    json!({"nonResourceURLs": paths, "verbs": verbs})
}

/// Returns the roles that join the rules of labelled roles. Each includes the next one.
fn aggregated() -> Vec<Value> {
    let label = |name: &str| format!("rbac.authorization.k8s.io/aggregate-to-{name}");
    let names = [("admin", None), ("edit", Some("admin")), ("view", Some("edit"))];
    let role = |(name, part_of): (&str, Option<&str>)| {
        let mut role = role(name, &json!([]));
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {(label(name)): "true"}}]});
        if let Some(other) = part_of {
            role["metadata"]["labels"] = json!({(label(other)): "true"});
        }
        role
    };
    names.into_iter().map(role).collect()
}

/// Returns the roles with permissions on Capstan's kinds, as a host cluster has them, and on the core kinds that only the
/// direct endpoint serves.
fn of_kinds(registry: &Registry) -> Vec<Value> {
    let mut roles = apiserver_host::user_roles(registry);
    for role in &mut roles {
        let name = role.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let more = match name {
            "capstan:view" => {
                vec![rule(
                    "",
                    &["configmaps", "events", "namespaces", "resourcequotas", "serviceaccounts"],
                    &READ,
                )]
            }
            "capstan:edit" => of_editor(),
            "capstan:admin" => [of_editor(), vec![rule(GROUP, &["rolebindings", "roles"], &WRITE)]].concat(),
            _ => Vec::new(),
        };
        if let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) {
            rules.extend(more);
        }
    }
    roles
}

fn of_editor() -> Vec<Value> {
    vec![
        rule("", &["configmaps", "secrets", "serviceaccounts"], &WRITE),
        rule("", &["serviceaccounts"], &["impersonate"]),
        rule("", &["serviceaccounts/token"], &["create"]),
        rule("", &["events", "namespaces", "resourcequotas"], &READ),
        rule("coordination.k8s.io", &["leases"], &WRITE),
    ]
}

/// Returns the roles of operators and of programs.
fn of_tools(registry: &Registry) -> Vec<Value> {
    let all = registry.stored().iter().map(AsRef::as_ref);
    let kinds: Vec<&Resource> = all.filter(|kind: &&Resource| kind.plural != "secrets").collect();
    let read = |kind: &&Resource| rule(&kind.group, &[kind.plural.as_str()], &READ);
    let mut operator: Vec<Value> = kinds.iter().map(read).collect();
    // No action of a kind of Kubernetes: `serviceaccounts/token` gives the permissions of any service account.
    for kind in kinds.iter().filter(|kind| kind.hosted) {
        for method in [ActionMethod::Post, ActionMethod::Get] {
            // The role deletes nothing.
            let actions = kind.verbs.iter().filter(|action| action.method() == method && !action.deletes());
            let actions: Vec<String> =
                actions.map(|action| format!("{}/{}", kind.plural, action.name())).collect();
            if !actions.is_empty() {
                let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
                operator.push(rule(&kind.group, &actions, &[method.verb()]));
            }
        }
    }
    operator.push(rule("capstan.dev", &["machineoperations"], &["patch"]));
    let mut clusterctl: Vec<Value> = kinds.iter().filter(|kind| kind.hosted).map(read).collect();
    clusterctl.push(rule("", &["configmaps", "namespaces", "secrets"], &READ));
    clusterctl.push(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &READ));
    let (core, infrastructure) = ("cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io");
    let machines = ["machines", SCALED[0], SCALED[1], SCALED[2]];
    let scales = SCALED.map(|kind| format!("{kind}/scale"));
    let scales = scales.each_ref().map(String::as_str);
    let autoscaler = json!([
        rule(core, &machines, &["get", "list", "update", "watch"]),
        rule(core, &scales, &["get", "patch", "update"]),
        rule(infrastructure, &["openstackmachinetemplates"], &["get"]),
    ]);
    vec![
        role("capstan:operator", &json!(operator)),
        role("capstan:secret-reader", &json!([rule("", &["secrets"], &["get", "list"])])),
        role("capstan:clusterctl", &json!(clusterctl)),
        role("capstan:cluster-autoscaler", &autoscaler),
    ]
}

/// Returns the roles of Kubernetes for discovery, health and reviews.
fn of_everyone() -> Vec<Value> {
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let documents = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    let issuer =
        ["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks"];
    let metrics = ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"];
    let permissions = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    let basic = json!([
        rule("authorization.k8s.io", &permissions, &["create"]),
        rule("authentication.k8s.io", &["selfsubjectreviews"], &["create"]),
    ]);
    let get = |list: &[&str]| json!([paths(list, &["get"])]);
    let delegator = json!([
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ]);
    vec![
        role("system:auth-delegator", &delegator),
        role("system:basic-user", &basic),
        role("system:discovery", &get(&[&public[..], &documents[..]].concat())),
        role("system:monitoring", &get(&metrics)),
        role("system:public-info-viewer", &get(&public)),
        role("system:service-account-issuer-discovery", &get(&issuer)),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use apiserver_machinery::encryption::Encryption;
    use storage_embedded::EmbeddedStore;

    use super::*;
    use crate::assembly::Assembly;
    use crate::service_accounts::{LONGEST, TokenIssuer};

    fn rules_of(name: &str) -> Vec<Value> {
        let roles = roles(&apiserver_registry::registry());
        let role = roles.into_iter().find(|role| role["metadata"]["name"] == name).unwrap();
        role["rules"].as_array().unwrap().clone()
    }

    /// Returns the verbs that a role allows on a resource.
    fn verbs(name: &str, resource: &str) -> Vec<String> {
        let has =
            |rule: &Value| rule["resources"].as_array().is_some_and(|list| list.contains(&json!(resource)));
        let rules = rules_of(name).into_iter().filter(has);
        let verbs = rules.flat_map(|rule| rule["verbs"].as_array().unwrap().clone());
        verbs.map(|verb| verb.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_roles_give_what_their_names_say() {
        for (role, resource, expected) in [
            ("capstan:view", "machines", &READ[..]),
            ("capstan:view", "secrets", &[]),
            ("capstan:view", "machines/reboot", &[]),
            ("capstan:view", "configmaps", &READ),
            ("capstan:edit", "secrets", &WRITE),
            ("capstan:edit", "machines/reboot", &["create"]),
            ("capstan:edit", "machines/retire", &["create"]),
            ("capstan:edit", "roles", &[]),
            ("capstan:admin", "roles", &WRITE),
            ("capstan:operator", "machines", &READ),
            ("capstan:operator", "machines/reboot", &["create"]),
            ("capstan:operator", "machines/retire", &[]),
            ("capstan:view", "machines/drain", &[]),
            ("capstan:edit", "machines/cordon", &["create"]),
            ("capstan:edit", "machines/uncordon", &["create"]),
            ("capstan:operator", "machines/drain", &["create"]),
            ("capstan:operator", "secrets", &[]),
            ("capstan:operator", "machineoperations", &["get", "list", "watch", "patch"]),
            ("capstan:secret-reader", "secrets", &["get", "list"]),
            ("capstan:clusterctl", "clusters", &READ),
            ("capstan:cluster-autoscaler", "machinedeployments/scale", &["get", "patch", "update"]),
        ] {
            assert_eq!(verbs(role, resource), expected, "{role} {resource}");
        }
    }

    /// Returns the registry of a server: only the server itself knows the action `serviceaccounts/token`.
    fn registry_with_tokens(data: &Path) -> Registry {
        let store = Arc::new(EmbeddedStore::open(&data.join("store.redb")).unwrap());
        let issuer = TokenIssuer::new(store, Arc::new(Encryption::default()), "https://issuer", LONGEST);
        Assembly::default().registry_with("serviceaccounts", &issuer.action())
    }

    #[tokio::test]
    async fn an_operator_gets_no_action_of_a_kind_of_kubernetes() {
        let data = tempfile::tempdir().unwrap();
        let roles = roles(&registry_with_tokens(data.path()));
        let operator = roles.iter().find(|role| role["metadata"]["name"] == "capstan:operator").unwrap();
        let rules = operator["rules"].as_array().unwrap();
        let resources = rules.iter().flat_map(|rule| rule["resources"].as_array().unwrap());
        let resources: Vec<&str> = resources.filter_map(Value::as_str).collect();
        assert!(resources.contains(&"serviceaccounts") && resources.contains(&"machines/reboot"));
        assert!(!resources.contains(&"serviceaccounts/token"), "{resources:?}");
    }

    #[test]
    fn every_binding_has_a_role() {
        let roles = roles(&apiserver_registry::registry());
        for binding in bindings() {
            let name = &binding["roleRef"]["name"];
            assert!(roles.iter().any(|role| &role["metadata"]["name"] == name), "{name}");
        }
    }
}
