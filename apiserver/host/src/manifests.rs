//! Manifests that a host cluster applies to serve Capstan's groups.

use apiserver_machinery::action::ActionMethod;
use apiserver_machinery::resource::{Registry, Resource};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::policy_parameters::{self, PolicyParameters};
use crate::{ca_bundles, definitions, provisional_namespaces};

/// Priority of groups, above the 1000 of CRDs: Capstan's come first if both exist.
const GROUP_PRIORITY: i32 = 1100;

/// Priority of versions, above the 100 of CRDs.
const VERSION_PRIORITY: i32 = 200;

/// Kinds of admission configurations.
const ADMISSION: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Role of a writer of Secrets, one in each namespace. None is of the whole cluster: a user who can create Secrets
/// everywhere gets a token of any service account.
const SECRETS_ROLE: &str = "capstan:secrets";

/// Verbs of a reader.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Address and user of Capstan, as the host knows them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service. With the namespace it makes the TLS name `<name>.<namespace>.svc`.
    pub service: String,
    /// Host name or address of Capstan; `None` selects pods labelled `app: capstan`.
    pub external_name: Option<String>,
    /// Port of Capstan.
    pub port: u16,
    /// CA of the serving certificate, PEM.
    pub ca: String,
    /// User of Capstan in the host.
    pub user: String,
    /// CRD objects that are published as metadata. They serve no requests.
    pub definitions: Vec<Value>,
    /// True if Capstan mirrors the roles, bindings, service accounts, token keys, admission configurations and quotas of the
    /// host.
    pub mirror: bool,
    /// True if all objects with a namespace must be in that of the Service, as clusterctl requires.
    pub one_namespace: bool,
    /// ConfigMaps that Capstan may read for policies.
    pub policy_parameters: Vec<PolicyParameters>,
    /// Namespaces in which Capstan may write the Secrets of clusters.
    pub write_secrets: Vec<String>,
    /// True if Capstan may write the CA bundles of the APIServices of its kinds.
    pub write_ca_bundle: bool,
    /// True if Capstan may write the metadata in the CRD objects of its kinds.
    pub write_crds: bool,
    /// True if Capstan may create namespaces: those that users have created in its own store during an outage.
    pub create_namespaces: bool,
}

/// Returns the objects, in an order in which they can be applied.
pub fn manifests(registry: &Registry, options: &Options) -> Vec<Value> {
    let hosted: Vec<&Resource> =
        registry.resources().iter().map(AsRef::as_ref).filter(|resource| resource.hosted).collect();
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace}}),
        service(options),
    ];
    objects.extend(access(&hosted, options));
    objects.extend(options.definitions.iter().cloned());
    for (group, versions) in registry.groups() {
        let served = |version: &&String| hosted.iter().any(|r| r.group == group && r.version == **version);
        for (version, below) in versions.iter().filter(served).zip(0_i32..) {
            objects.push(api_service(&group, version, VERSION_PRIORITY - below, options));
        }
    }
    objects
}

fn service(options: &Options) -> Value {
    let metadata = json!({"name": options.service, "namespace": options.namespace});
    let spec = match &options.external_name {
        // An address passes as an external name; kube-apiserver dials it as it stands.
        Some(name) => json!({"type": "ExternalName", "externalName": name}),
        None => json!({"selector": {"app": "capstan"},
            "ports": [{"name": "https", "port": options.port, "targetPort": options.port}]}),
    };
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
}

fn api_service(group: &str, version: &str, priority: i32, options: &Options) -> Value {
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY, "versionPriority": priority,
            "caBundle": STANDARD.encode(&options.ca),
            "service": {"namespace": options.namespace, "name": options.service, "port": options.port}}})
}

/// Returns the roles of Capstan in the host, and those of the host's users.
fn access(hosted: &[&Resource], options: &Options) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let version = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "User", "name": options.user, "apiGroup": rbac}]);
    let role = |kind: &str, name: &str| json!({"apiGroup": rbac, "kind": kind, "name": name});
    let mut objects = vec![
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "capstan:system:auth-delegator"},
            "roleRef": role("ClusterRole", "system:auth-delegator"), "subjects": subjects}),
    ];
    objects.extend(front_proxy(options, &subjects));
    objects.extend([
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "capstan:server"},
            // Secrets are read one by one, by the name that a controller knows: neither listed nor watched.
            "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
                {"nonResourceURLs": ["/.well-known/openid-configuration"], "verbs": ["get"]}]}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "capstan:server"},
            "roleRef": role("ClusterRole", "capstan:server"), "subjects": subjects}),
    ]);
    if options.mirror {
        objects.extend(of_mirror(&subjects));
    }
    objects.extend(options.write_secrets.iter().flat_map(|namespace| of_secrets(namespace, &subjects)));
    objects.extend(policy_parameters::access(&options.policy_parameters, &subjects, &READ));
    if options.write_ca_bundle {
        objects.extend(ca_bundles::access(hosted, &subjects));
    }
    if options.write_crds {
        objects.extend(definitions::access(&options.definitions, &subjects));
    }
    if options.create_namespaces {
        objects.extend(provisional_namespaces::access(&subjects));
    }
    objects.extend(roles(hosted));
    objects
}

/// Returns the permission to read the CA of the front proxy, which is in a ConfigMap of the namespace `kube-system`.
fn front_proxy(options: &Options, subjects: &Value) -> Vec<Value> {
    let (rbac, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    if !options.one_namespace {
        let reader = "extension-apiserver-authentication-reader";
        return vec![json!({"apiVersion": version, "kind": "RoleBinding",
            "metadata": {"name": "capstan-auth-reader", "namespace": "kube-system"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": reader}, "subjects": subjects})];
    }
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["extension-apiserver-authentication"], "verbs": READ});
    Vec::from(cluster_role("capstan:auth-reader", &[rule], subjects))
}

/// Returns the role of a writer of Secrets in a namespace, and its binding.
fn of_secrets(namespace: &str, subjects: &Value) -> [Value; 2] {
    let (rbac, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let metadata = json!({"name": SECRETS_ROLE, "namespace": namespace});
    let rule =
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update", "delete"]});
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": SECRETS_ROLE}, "subjects": subjects}),
    ]
}

/// Returns the role of the mirror, and its binding.
fn of_mirror(subjects: &Value) -> [Value; 2] {
    let kinds = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
    let rules = [
        json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": kinds, "verbs": READ}),
        json!({"apiGroups": [""], "resources": ["resourcequotas", "serviceaccounts", "services"], "verbs": READ}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ}),
        json!({"apiGroups": ["admissionregistration.k8s.io"], "resources": ADMISSION, "verbs": READ}),
        json!({"nonResourceURLs": ["/openid/v1/jwks"], "verbs": ["get"]}),
    ];
    cluster_role("capstan:mirror", &rules, subjects)
}

/// Returns a role of the whole cluster with these rules, and its binding of the same name.
pub(crate) fn cluster_role(name: &str, rules: &[Value], subjects: &Value) -> [Value; 2] {
    let (rbac, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}, "subjects": subjects}),
    ]
}

/// Returns the ClusterRoles `capstan:view`, `capstan:edit` and `capstan:admin` with the permissions on Capstan's kinds.
/// The host cluster and the direct endpoint have the same.
pub fn user_roles(registry: &Registry) -> Vec<Value> {
    let all = registry.resources().iter().map(AsRef::as_ref);
    roles(&all.filter(|resource| resource.hosted).collect::<Vec<_>>())
}

fn roles(hosted: &[&Resource]) -> Vec<Value> {
    let write = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let names = [("view", &READ[..]), ("edit", &write[..]), ("admin", &write[..])];
    let role = |(name, verbs): (&str, &[&str])| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("capstan:{name}"),
                "labels": {(format!("rbac.authorization.k8s.io/aggregate-to-{name}")): "true"}},
            "rules": rules(hosted, verbs, name != "view")})
    };
    names.into_iter().map(role).collect()
}

/// Returns the rules of a role for each kind, in any version. A user who may delete a Machine may also reboot it.
/// `acts` is set if the role changes anything. Only controllers write status.
fn rules(hosted: &[&Resource], verbs: &[&str], acts: bool) -> Vec<Value> {
    let kinds: Vec<&&Resource> = hosted.iter().filter(|resource| resource.conversion.is_none()).collect();
    let rule = |group: &str, resources: &[String], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let mut rules = Vec::new();
    for kind in &kinds {
        let allowed = if kind.strategy.is_read_only() { &READ[..] } else { verbs };
        rules.push(rule(&kind.group, std::slice::from_ref(&kind.plural), allowed));
        if kind.status_subresource {
            rules.push(rule(&kind.group, &[format!("{}/status", kind.plural)], &["get"]));
        }
        if kind.scale.is_some() {
            let scale: &[&str] = if acts { &["get", "patch", "update"] } else { &["get"] };
            rules.push(rule(&kind.group, &[format!("{}/scale", kind.plural)], scale));
        }
        for method in [ActionMethod::Post, ActionMethod::Get] {
            let verbs = kind.verbs.iter().filter(|verb| verb.method() == method);
            let names: Vec<String> = verbs.map(|verb| format!("{}/{}", kind.plural, verb.name())).collect();
            if !names.is_empty() && (acts || method == ActionMethod::Get) {
                rules.push(rule(&kind.group, &names, &[method.verb()]));
            }
        }
    }
    rules
}

impl Options {
    /// Returns the name in the serving certificate that the host verifies, whatever address it dials.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}
