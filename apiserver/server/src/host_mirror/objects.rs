//! Roles and bindings of the host: as objects, as copies in the store, and as a policy.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver_access::rbac::{Binding, Policy};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::ResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rbac::policy;

const CLUSTER_ROLES: &str = "clusterroles";
const ROLES: &str = "roles";
const CLUSTER_BINDINGS: &str = "clusterrolebindings";
const BINDINGS: &str = "rolebindings";

/// Roles and bindings.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    pub(super) cluster_roles: Vec<Arc<ClusterRole>>,
    pub(super) roles: Vec<Arc<Role>>,
    pub(super) cluster_bindings: Vec<Arc<ClusterRoleBinding>>,
    pub(super) bindings: Vec<Arc<RoleBinding>>,
}

impl Permissions {
    /// Returns the policy of the host's users. A binding of the host means the host's names.
    pub(super) fn policy(&self) -> Policy {
        let of_cluster = self.cluster_roles.iter().map(|role| policy::role(&**role, role.rules.as_ref()));
        let local = self.roles.iter().map(|role| policy::role(&**role, role.rules.as_ref()));
        let everywhere =
            self.cluster_bindings.iter().map(|it| policy::binding(&**it, &it.role_ref, it.subjects.as_ref()));
        let in_one =
            self.bindings.iter().map(|it| policy::binding(&**it, &it.role_ref, it.subjects.as_ref()));
        let bindings = everywhere.chain(in_one).map(|binding| Binding { admits_host: true, ..binding });
        Policy { roles: of_cluster.chain(local).collect(), bindings: bindings.collect() }
    }

    /// Returns the copies by their names in the store; `None` if they have more bytes than `most`.
    pub(super) fn copies(&self, most: usize) -> Option<HashMap<String, Value>> {
        let (mut copies, mut size) = (HashMap::new(), 0);
        add(&mut copies, &mut size, CLUSTER_ROLES, &self.cluster_roles);
        add(&mut copies, &mut size, ROLES, &self.roles);
        add(&mut copies, &mut size, CLUSTER_BINDINGS, &self.cluster_bindings);
        add(&mut copies, &mut size, BINDINGS, &self.bindings);
        (size <= most).then_some(copies)
    }

    /// Returns the objects of copies. One that cannot be read gives no permission.
    pub(super) fn of_copies(copies: &HashMap<String, Value>) -> Self {
        Self {
            cluster_roles: read(copies, CLUSTER_ROLES),
            roles: read(copies, ROLES),
            cluster_bindings: read(copies, CLUSTER_BINDINGS),
            bindings: read(copies, BINDINGS),
        }
    }
}

fn add<K: ResourceExt + Serialize>(
    copies: &mut HashMap<String, Value>,
    size: &mut usize,
    kind: &str,
    objects: &[Arc<K>],
) {
    for object in objects {
        let place = object.namespace().map_or_else(String::new, |namespace| format!("{namespace}/"));
        if let Ok(value) = serde_json::to_value(&**object) {
            *size += value.to_string().len();
            copies.insert(format!("{kind}/{place}{}", object.name_any()), value);
        }
    }
}

fn read<K: DeserializeOwned>(copies: &HashMap<String, Value>, kind: &str) -> Vec<Arc<K>> {
    let of_kind = copies.iter().filter(|(name, _)| name.split('/').next() == Some(kind));
    of_kind.filter_map(|(_, value)| K::deserialize(value).ok().map(Arc::new)).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_access::rbac::Snapshot;
    use apiserver_access::{Attributes, Decision, Realm, User};
    use serde_json::json;

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> Arc<K> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn permissions() -> Permissions {
        let rules = json!([{"verbs": ["get"], "apiGroups": ["cluster.x-k8s.io"], "resources": ["machines"]}]);
        let of = |name: &str, namespace: Option<&str>| json!({"name": name, "namespace": namespace});
        let alice = json!([{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]);
        let role = |kind: &str| json!({"kind": kind, "name": "r", "apiGroup": "rbac.authorization.k8s.io"});
        Permissions {
            cluster_roles: vec![object(json!({"metadata": of("r", None), "rules": rules}))],
            roles: vec![object(json!({"metadata": of("r", Some("team")), "rules": rules}))],
            cluster_bindings: vec![],
            bindings: vec![object(json!({"metadata": of("b:1", Some("team")), "subjects": alice,
                "roleRef": role("ClusterRole")}))],
        }
    }

    fn may(policy: Policy, realm: Realm) -> bool {
        let attributes = Attributes {
            user: User::authenticated("alice", []).in_realm(realm).into(),
            verb: "get".to_owned(),
            group: "cluster.x-k8s.io".to_owned(),
            resource: "machines".to_owned(),
            namespace: "team".to_owned(),
            ..Attributes::default()
        };
        Snapshot::new(policy).decide(&attributes).0 == Decision::Allow
    }

    #[test]
    fn copies_give_the_permissions_of_the_objects() {
        let permissions = permissions();
        assert!(may(permissions.policy(), Realm::Host));
        let copies = permissions.copies(usize::MAX).unwrap();
        let mut names: Vec<&str> = copies.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["clusterroles/r", "rolebindings/team/b:1", "roles/team/r"]);
        assert!(may(Permissions::of_copies(&copies).policy(), Realm::Host));
        let cut = HashMap::from([("rolebindings/team/b:1".to_owned(), json!({"metadata": 7}))]);
        assert!(!may(Permissions::of_copies(&cut).policy(), Realm::Host));
        assert!(permissions.copies(10).is_none(), "the copies are bounded");
    }
}
