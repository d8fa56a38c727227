//! Objects that `kubeadm init` leaves in the cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::versions::Version;
use crate::api::access::JOINING;
use crate::cluster::Cluster;
use crate::json::{set, text};

/// Namespaces of a new cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// CoreDNS of each minor, from the newest.
const COREDNS: [(u64, &str); 6] =
    [(36, "v1.14.2"), (35, "v1.13.1"), (34, "v1.12.1"), (33, "v1.12.0"), (31, "v1.11.3"), (0, "v1.11.1")];

/// Corefile of a new cluster.
const COREFILE: &str = ".:53 {\n    errors\n    health {\n       lameduck 5s\n    }\n    ready\n    kubernetes \
    cluster.local in-addr.arpa ip6.arpa {\n       pods insecure\n       fallthrough in-addr.arpa ip6.arpa\n       ttl \
    30\n    }\n    prometheus :9153\n    forward . /etc/resolv.conf {\n       max_concurrent 1000\n    }\n    cache 30\n    \
    loop\n    reload\n    loadbalance\n}\n";

/// Returns the ClusterConfiguration with the defaults that kubeadm fills in.
pub(crate) fn completed(cluster: &Value, version: &Version) -> Value {
    let mut completed = cluster.clone();
    let defaults: [(&[&str], &str); 6] = [
        (&["certificatesDir"], "/etc/kubernetes/pki"),
        (&["clusterName"], "kubernetes"),
        (&["imageRepository"], "registry.k8s.io"),
        (&["kubernetesVersion"], version.text.as_str()),
        (&["networking", "dnsDomain"], "cluster.local"),
        (&["networking", "serviceSubnet"], "10.96.0.0/12"),
    ];
    for (path, value) in defaults {
        if text(&completed, &format!("/{}", path.join("/"))).is_empty() {
            set(&mut completed, path, value);
        }
    }
    let external = completed.pointer("/etcd/external").is_some();
    if !external && text(&completed, "/etcd/local/dataDir").is_empty() {
        set(&mut completed, &["etcd", "local", "dataDir"], "/var/lib/etcd");
    }
    completed
}

fn config_map(namespace: &str, name: &str, data: &Value) -> (&'static str, String, Value) {
    let body = json!({"metadata": {"name": name}, "data": data});
    ("configmaps", namespace.to_owned(), body)
}

/// Returns a kubeconfig with the authority and the endpoint, without a user.
fn cluster_info(cluster: &Cluster) -> String {
    let authority = STANDARD.encode(&cluster.pki.ca.pem);
    let server = format!("https://{}", cluster.address);
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    server: {server}\n  \
         name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
    )
}

/// Returns the text of a tree as YAML.
pub(crate) fn yaml(value: &Value) -> Result<String, String> {
    serde_saphyr::to_string(value).map_err(|error| error.to_string())
}

fn binding(name: &str, role: &str, subject: (&str, &str)) -> (&'static str, String, Value) {
    let group = "rbac.authorization.k8s.io";
    let body = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": subject.0, "name": subject.1}],
    });
    ("clusterrolebindings", String::new(), body)
}

fn role_bindings() -> Vec<(&'static str, String, Value)> {
    let nodes = "system:nodes";
    let client = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    let renewal = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    vec![
        binding("cluster-admin", "cluster-admin", ("Group", "system:masters")),
        binding("kubeadm:cluster-admins", "cluster-admin", ("Group", "kubeadm:cluster-admins")),
        binding("kubeadm:get-nodes", "kubeadm:get-nodes", ("Group", JOINING)),
        binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", ("Group", JOINING)),
        binding("kubeadm:node-autoapprove-bootstrap", client, ("Group", JOINING)),
        binding("kubeadm:node-autoapprove-certificate-rotation", renewal, ("Group", nodes)),
        binding(
            "kubeadm:node-proxier",
            "system:node-proxier",
            ("User", "system:serviceaccount:kube-system:kube-proxy"),
        ),
    ]
}

fn kube_proxy(repository: &str, tag: &str) -> (&'static str, String, Value) {
    let labels = json!({"k8s-app": "kube-proxy"});
    let container = json!({"name": "kube-proxy", "image": format!("{repository}/kube-proxy:{tag}")});
    let body = json!({
        "metadata": {"name": "kube-proxy", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [container], "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists"}], "serviceAccountName": "kube-proxy", "hostNetwork": true,
            }},
        },
    });
    ("daemonsets", "kube-system".to_owned(), body)
}

fn coredns(image: &str) -> (&'static str, String, Value) {
    let labels = json!({"k8s-app": "kube-dns"});
    let volume = json!({"name": "config-volume", "configMap": {
        "name": "coredns", "defaultMode": 420, "items": [{"key": "Corefile", "path": "Corefile"}],
    }});
    let mount = json!({"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true});
    let container = json!({
        "name": "coredns", "image": image, "args": ["-conf", "/etc/coredns/Corefile"], "volumeMounts": [mount],
    });
    let body = json!({
        "metadata": {"name": "coredns", "labels": labels},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [container], "volumes": [volume], "serviceAccountName": "coredns",
                "priorityClassName": "system-cluster-critical",
                "tolerations": [
                    {"key": "CriticalAddonsOnly", "operator": "Exists"},
                    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                ],
            }},
        },
    });
    ("deployments", "kube-system".to_owned(), body)
}

/// Returns the image of CoreDNS that the configuration names, or that of the version.
fn coredns_image(configuration: &Value, version: &Version) -> String {
    let own = text(configuration, "/dns/imageRepository");
    let shared = text(configuration, "/imageRepository");
    let image = match (own, shared) {
        ("", "registry.k8s.io") => "registry.k8s.io/coredns/coredns".to_owned(),
        ("", shared) => format!("{shared}/coredns"),
        (own, _) => format!("{own}/coredns"),
    };
    let default = COREDNS.iter().find(|(minor, _)| version.minor >= *minor).map_or("v1.12.0", |(_, tag)| tag);
    let configured = text(configuration, "/dns/imageTag");
    format!("{image}:{}", if configured.is_empty() { default } else { configured })
}

/// Creates the objects of a new cluster.
pub(crate) fn create(cluster: &Cluster, configuration: &Value, version: &Version) -> Result<(), String> {
    for namespace in NAMESPACES {
        let body = json!({
            "metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        cluster.store.seed("namespaces", "", body);
        cluster.store.seed("serviceaccounts", namespace, json!({"metadata": {"name": "default"}}));
    }
    let system = "kube-system";
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "rotateCertificates": true,
        "clusterDomain": text(configuration, "/networking/dnsDomain"), "cgroupDriver": "systemd",
    });
    let proxy = json!({"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"});
    let mut objects = vec![
        config_map(system, "kubeadm-config", &json!({"ClusterConfiguration": yaml(configuration)?})),
        config_map(system, "kubelet-config", &json!({"kubelet": yaml(&kubelet)?})),
        config_map("kube-public", "cluster-info", &json!({"kubeconfig": cluster_info(cluster)})),
    ];
    objects.extend(role_bindings());
    let repository = text(configuration, "/imageRepository");
    let disabled = |part: &str| crate::json::flag(configuration, &format!("/{part}/disabled"));
    if !disabled("proxy") {
        objects.push(config_map(system, "kube-proxy", &json!({"config.conf": yaml(&proxy)?})));
        objects.push(kube_proxy(repository, &version.text.replace('+', "_")));
    }
    if !disabled("dns") {
        objects.push(config_map(system, "coredns", &json!({"Corefile": COREFILE})));
        objects.push(coredns(&coredns_image(configuration, version)));
    }
    for (plural, namespace, body) in objects {
        cluster.store.seed(plural, &namespace, body);
    }
    Ok(())
}
