//! Kinds that the workload API serves.

/// One kind.
#[derive(Debug)]
pub(crate) struct Kind {
    /// API group; empty for the core group.
    pub(crate) group: &'static str,
    /// API version.
    pub(crate) version: &'static str,
    /// Name in paths, and key in the store. So the two APIs of Events share their objects.
    pub(crate) plural: &'static str,
    /// Name of the type.
    pub(crate) kind: &'static str,
    /// True if objects are in namespaces.
    pub(crate) namespaced: bool,
    /// True if the status is a subresource.
    pub(crate) status: bool,
    /// Short names for kubectl.
    pub(crate) short: &'static [&'static str],
}

const fn kind(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    status: bool,
    short: &'static [&'static str],
) -> Kind {
    Kind { group, version: "v1", plural, kind, namespaced, status, short }
}

/// All kinds, those of one group together. All are in version `v1`.
pub(crate) static KINDS: [Kind; 44] = [
    kind("", "namespaces", "Namespace", false, true, &["ns"]),
    kind("", "nodes", "Node", false, true, &["no"]),
    kind("", "pods", "Pod", true, true, &["po"]),
    kind("", "secrets", "Secret", true, false, &[]),
    kind("", "configmaps", "ConfigMap", true, false, &["cm"]),
    kind("", "serviceaccounts", "ServiceAccount", true, false, &["sa"]),
    kind("", "services", "Service", true, true, &["svc"]),
    kind("", "endpoints", "Endpoints", true, false, &["ep"]),
    kind("", "events", "Event", true, false, &["ev"]),
    kind("", "persistentvolumes", "PersistentVolume", false, true, &["pv"]),
    kind("", "persistentvolumeclaims", "PersistentVolumeClaim", true, true, &["pvc"]),
    kind("", "limitranges", "LimitRange", true, false, &["limits"]),
    kind("", "resourcequotas", "ResourceQuota", true, true, &["quota"]),
    kind("", "podtemplates", "PodTemplate", true, false, &[]),
    kind("", "replicationcontrollers", "ReplicationController", true, true, &["rc"]),
    kind("apps", "daemonsets", "DaemonSet", true, true, &["ds"]),
    kind("apps", "deployments", "Deployment", true, true, &["deploy"]),
    kind("apps", "replicasets", "ReplicaSet", true, true, &["rs"]),
    kind("apps", "statefulsets", "StatefulSet", true, true, &["sts"]),
    kind("apps", "controllerrevisions", "ControllerRevision", true, false, &[]),
    kind("batch", "jobs", "Job", true, true, &[]),
    kind("batch", "cronjobs", "CronJob", true, true, &["cj"]),
    kind("coordination.k8s.io", "leases", "Lease", true, false, &[]),
    kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", true, true, &["pdb"]),
    kind("storage.k8s.io", "volumeattachments", "VolumeAttachment", false, true, &[]),
    kind("storage.k8s.io", "storageclasses", "StorageClass", false, false, &["sc"]),
    kind("storage.k8s.io", "csidrivers", "CSIDriver", false, false, &[]),
    kind("storage.k8s.io", "csinodes", "CSINode", false, false, &[]),
    kind("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false, false, &[]),
    kind("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", false, false, &[]),
    kind("rbac.authorization.k8s.io", "roles", "Role", true, false, &[]),
    kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", true, false, &[]),
    kind(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        false,
        true,
        &["csr"],
    ),
    kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", false, false, &["pc"]),
    kind("networking.k8s.io", "networkpolicies", "NetworkPolicy", true, false, &["netpol"]),
    kind("networking.k8s.io", "ingresses", "Ingress", true, true, &["ing"]),
    kind("networking.k8s.io", "ingressclasses", "IngressClass", false, false, &[]),
    kind("discovery.k8s.io", "endpointslices", "EndpointSlice", true, false, &[]),
    kind("events.k8s.io", "events", "Event", true, false, &["ev"]),
    kind(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
        true,
        &["crd"],
    ),
    kind("apiregistration.k8s.io", "apiservices", "APIService", false, true, &[]),
    kind(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        false,
        false,
        &[],
    ),
    kind(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        false,
        false,
        &[],
    ),
    kind("node.k8s.io", "runtimeclasses", "RuntimeClass", false, false, &[]),
];

/// Returns the kind at this path.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// Returns the kind with this plural name. All callers name kinds of the list.
pub(crate) fn named(plural: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.plural == plural).unwrap_or(&KINDS[0])
}

impl Kind {
    /// Returns `v1` or `<group>/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name in messages: `pods`, `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}
