//! Escalation check: a user grants only permissions that the user has.

use apiserver_machinery::admission::{Action, Caller, GrantedRule, GrantingWrite, Uncovered};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult, ResourceNames};
use apiserver_schema::go_text::quoted;
use apiserver_types::rbac_kinds::GROUP;
use serde_json::Value;

/// Group whose members may grant everything.
const MASTERS: &str = "system:masters";

/// Metadata fields that the garbage collector and the server change. A change of only these grants nothing.
const BOOKKEEPING: [&str; 4] = ["finalizers", "managedFields", "ownerReferences", "resourceVersion"];

/// Checks a write of a Role or a ClusterRole. A user with the verb `escalate` on it may write any rules.
pub(crate) async fn check_role(write: GrantingWrite<'_>, resource: &str) -> ApiResult<()> {
    let namespace = object::namespace(write.new);
    let name = write.permissions.requested_name();
    if is_free(&write) || may(&write, "escalate", resource, namespace, name).await? {
        return Ok(());
    }
    require(&write, resource, namespace, &rules(write.new)).await?;
    let is_aggregated = |role: &Value| role.get("aggregationRule").is_some();
    if is_aggregated(write.new) || write.old.is_some_and(is_aggregated) {
        let missing = write.permissions.uncovered("", &everything()).await;
        if !missing.rules.is_empty() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(ApiError::forbidden(GROUP, resource, object::name(write.new), why));
        }
    }
    Ok(())
}

/// Checks a write of a RoleBinding or a ClusterRoleBinding. A user with the verb `bind` on the role may bind it.
pub(crate) async fn check_binding(write: GrantingWrite<'_>, resource: &str) -> ApiResult<()> {
    if is_free(&write) {
        return Ok(());
    }
    let namespace = object::namespace(write.new);
    let text = |field: &str| {
        let found = write.new.get("roleRef").and_then(|role| role.get(field));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let role = match text("kind") {
        "ClusterRole" => RoleKind { kind: "ClusterRole", plural: "clusterroles", namespace: "" },
        "Role" => RoleKind { kind: "Role", plural: "roles", namespace },
        // Validation refuses it.
        _ => return Ok(()),
    };
    let name = text("name");
    if text("apiGroup") == GROUP && may(&write, "bind", role.plural, namespace, name).await? {
        return Ok(());
    }
    match write.others.find(GROUP, role.plural, role.namespace, name).await? {
        Some(found) => require(&write, resource, namespace, &rules(&found)).await,
        // As upstream, the error has the resource of the binding and the name of the role.
        None => Err(ApiError::not_found(&RoleKind { plural: resource, ..role }, name)),
    }
}

/// Label of a namespace with the id of the Keystone project whose users have permissions in it.
pub const KEYSTONE_PROJECT: &str = "capstan.dev/keystone-project";

/// Checks a write of a Namespace: who changes its project needs the verb `assign` on the old and on the new project.
pub(crate) async fn check_project(write: GrantingWrite<'_>) -> ApiResult<()> {
    let project = |namespace: &Value| {
        let labels = object::metadata_field(namespace, "labels");
        labels
            .and_then(|labels| labels.get(KEYSTONE_PROJECT))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (old, new) = (write.old.map(project).unwrap_or_default(), project(write.new));
    if old == new {
        return Ok(());
    }
    for name in [&old, &new].into_iter().filter(|id| !id.is_empty()) {
        let (group, version, resource) = ("capstan.dev", "v1alpha1", "keystoneprojects");
        let action = Action { verb: "assign", group, version, resource, name, ..Action::default() };
        write.permissions.require(action).await?;
    }
    Ok(())
}

/// Kind of a role, and the namespace in which a binding looks for it.
struct RoleKind<'a> {
    kind: &'static str,
    plural: &'a str,
    namespace: &'a str,
}

impl ResourceNames for RoleKind<'_> {
    fn group(&self) -> &str {
        GROUP
    }

    fn kind(&self) -> &str {
        self.kind
    }

    fn plural(&self) -> &str {
        self.plural
    }
}

/// Returns true if the write needs no check.
fn is_free(write: &GrantingWrite<'_>) -> bool {
    let is_master = write.permissions.caller().groups.iter().any(|group| group == MASTERS);
    is_master || write.old.is_some_and(|old| without_bookkeeping(old) == without_bookkeeping(write.new))
}

fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    for field in BOOKKEEPING {
        object::remove_meta(&mut object, field);
    }
    object
}

async fn may(
    write: &GrantingWrite<'_>,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> ApiResult<bool> {
    let action = Action { verb, group: GROUP, version: "*", resource, subresource: "", namespace, name };
    match write.permissions.require(action).await {
        Ok(()) => Ok(true),
        Err(error) if error.code == 403 => Ok(false),
        Err(error) => Err(error),
    }
}

async fn require(
    write: &GrantingWrite<'_>,
    resource: &str,
    namespace: &str,
    rules: &[GrantedRule],
) -> ApiResult<()> {
    let missing = write.permissions.uncovered(namespace, rules).await;
    if missing.rules.is_empty() {
        return Ok(());
    }
    let why = refusal(&write.permissions.caller(), &missing);
    Err(ApiError::forbidden(GROUP, resource, object::name(write.new), &why))
}

/// Returns the reason of a refusal, in upstream's words.
fn refusal(caller: &Caller, missing: &Uncovered) -> String {
    let groups: Vec<String> = caller.groups.iter().map(|group| quoted(group)).collect();
    let mut text = format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(&caller.username),
        groups.join(" "),
        missing.rules.join("\n")
    );
    if !missing.unknown.is_empty() {
        text = format!("{text}; resolution errors: [{}]", missing.unknown);
    }
    text
}

/// Returns the rules of a role. Values of a wrong type are left out; validation refuses them.
fn rules(role: &Value) -> Vec<GrantedRule> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let all = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let all = role.get("rules").and_then(Value::as_array).into_iter().flatten();
    let read = |rule: &Value| GrantedRule {
        verbs: texts(rule, "verbs"),
        groups: texts(rule, "apiGroups"),
        resources: texts(rule, "resources"),
        names: texts(rule, "resourceNames"),
        paths: texts(rule, "nonResourceURLs"),
    };
    all.map(read).collect()
}

/// Returns the rules of everything: an aggregated role can gather any rules.
fn everything() -> [GrantedRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        GrantedRule { verbs: all(), groups: all(), resources: all(), ..GrantedRule::default() },
        GrantedRule { verbs: all(), paths: all(), ..GrantedRule::default() },
    ]
}
