//! Permissions of Capstan's ServiceAccount in the host cluster.

use anyhow::ensure;

use super::Packaged;
use super::rendered;
use crate::e2e::lab::until;

/// Capstan's user in the host cluster.
const USER: &str = "system:serviceaccount:capstan-system:capstan";

/// Rights of Capstan's user in the host cluster: verb, resource, namespace, and whether it has the right.
const RIGHTS: [(&str, &str, &str, bool); 13] = [
    ("watch", "namespaces", "default", true),
    ("get", "secrets", "default", true),
    ("create", "secrets", "default", false),
    ("create", "events", "default", true),
    ("create", "subjectaccessreviews.authorization.k8s.io", "default", true),
    ("create", "tokenreviews.authentication.k8s.io", "default", true),
    ("get", "configmaps/extension-apiserver-authentication", "kube-system", true),
    ("get", "/.well-known/openid-configuration", "default", true),
    ("list", "secrets", "default", false),
    ("delete", "secrets", "default", false),
    ("get", "configmaps", "default", false),
    ("create", "pods", "default", false),
    ("delete", "namespaces", "default", false),
];

/// Scenario: the ServiceAccount has these rights, and no more.
pub(super) fn exact(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let objects = packaged.overlay(&rendered::EMBEDDED)?;
    let access = objects.only(&["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding"]);
    packaged.apply("access", &access, &[])?;
    let can = |verb: &str, resource: &str, namespace: &str| {
        let question = ["auth", "can-i", verb, resource, "-n", namespace, "--as", USER];
        anyhow::Ok(packaged.lab.try_kubectl("admin", &question)?.1.trim() == "yes")
    };
    until("the roles are in force", || can("get", "secrets", "default"))?;
    for (verb, resource, namespace, expected) in RIGHTS {
        let found = can(verb, resource, namespace)?;
        ensure!(found == expected, "{verb} {resource} in {namespace}: allowed is {found}");
    }
    Ok(())
}
