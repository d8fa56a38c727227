//! Kinds of `rbac.authorization.k8s.io/v1` that the direct endpoint serves: roles and their bindings.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use crate::core_kinds::core_kind;
use crate::descriptor::{Described, Descriptor};
use crate::schema::{object, structural};

/// API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

const fn descriptor(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
) -> Descriptor {
    Descriptor {
        group: GROUP,
        version: "v1",
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced,
        status_subresource: false,
        scale: None,
        deprecation: None,
        columns: &[],
    }
}

core_kind! {
    /// Role of `rbac.authorization.k8s.io/v1`.
    Role, role, descriptor("Role", "roles", "role", true)
}

core_kind! {
    /// ClusterRole of `rbac.authorization.k8s.io/v1`.
    ClusterRole, cluster_role, descriptor("ClusterRole", "clusterroles", "clusterrole", false)
}

core_kind! {
    /// RoleBinding of `rbac.authorization.k8s.io/v1`.
    RoleBinding, role_binding, descriptor("RoleBinding", "rolebindings", "rolebinding", true)
}

core_kind! {
    /// ClusterRoleBinding of `rbac.authorization.k8s.io/v1`.
    ClusterRoleBinding, cluster_role_binding,
    descriptor("ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", false)
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn list(description: &str, items: &Value) -> Value {
    json!({"type": "array", "description": description, "items": items, "x-kubernetes-list-type": "atomic"})
}

fn texts(description: &str) -> Value {
    list(description, &json!({"type": "string"}))
}

fn rules() -> Value {
    let rule = json!({"type": "object", "description": "Permission: verbs on resources, or on paths.", "properties": {
        "verbs": texts("Verbs, such as get or create. `*` is all verbs."),
        "apiGroups": texts("API groups. The empty text is the core group, and `*` is all groups."),
        "resources": texts("Plurals. `pods/log` is one subresource, `*/log` is that subresource of all \
            resources, and `*` is all resources with their subresources."),
        "resourceNames": texts("Names of objects. An empty list allows all names. Requests without a name, \
            such as create, need an empty list."),
        "nonResourceURLs": texts("Paths that belong to no resource. A trailing `*` allows all paths below. Only \
            for ClusterRoles."),
    }});
    list("Permissions of the role.", &rule)
}

fn role() -> Value {
    let mut schema = object("Permissions within one namespace.", None, None, false);
    schema["properties"]["rules"] = rules();
    schema
}

fn cluster_role() -> Value {
    let description =
        "Permissions in the whole cluster, or in the namespaces of the RoleBindings that refer to it.";
    let mut schema = object(description, None, None, false);
    schema["properties"]["rules"] = rules();
    let selectors = list(
        "Selectors of ClusterRoles by their labels. The rules of all roles that one of them matches are joined.",
        &structural::<LabelSelector>(),
    );
    schema["properties"]["aggregationRule"] = json!({"type": "object",
        "description": "Other ClusterRoles whose rules the server joins into this role. It overwrites `rules`.",
        "properties": {"clusterRoleSelectors": selectors}});
    schema
}

fn binding(description: &str) -> Value {
    let mut schema = object(description, None, None, false);
    let subject = json!({"type": "object", "x-kubernetes-map-type": "atomic",
    "description": "User, group or service account that gets the permissions.", "properties": {
        "kind": text("User, Group or ServiceAccount."),
        "apiGroup": text("API group of the subject: empty for ServiceAccount, else rbac.authorization.k8s.io, \
            which is the default."),
        "name": text("Name of the subject."),
        "namespace": text("Namespace of a ServiceAccount."),
    }});
    schema["properties"]["subjects"] = list("Subjects that get the permissions of the role.", &subject);
    schema["properties"]["roleRef"] = json!({"type": "object", "x-kubernetes-map-type": "atomic",
    "description": "Role whose permissions the subjects get. It cannot be changed.", "properties": {
        "apiGroup": text("API group of the role: rbac.authorization.k8s.io."),
        "kind": text("Role or ClusterRole."),
        "name": text("Name of the role."),
    }});
    schema
}

fn role_binding() -> Value {
    binding("Permissions of a Role or a ClusterRole for subjects, within one namespace.")
}

fn cluster_role_binding() -> Value {
    binding("Permissions of a ClusterRole for subjects, in the whole cluster.")
}
