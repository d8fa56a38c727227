//! Whole documents, compared with those that Cluster API 1.14.0 was observed to make from the same input.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apiserver_types::{ClusterNetwork, JoinConfiguration, KubeadmConfigSpec};
use controllers_bootstrap::certificates::{PemPair, Purpose};
use controllers_bootstrap::discovery::with_taint;
use controllers_bootstrap::{Command, File, Setup, cloud_config, kubeadm};
use serde_json::{Value, json};

/// Parses a cloud-config, and the documents of its kubeadm file.
fn parsed(document: &str) -> Value {
    let mut tree: Value = serde_saphyr::from_str(document).unwrap();
    for file in tree["write_files"].as_array_mut().unwrap() {
        if file["path"].as_str().unwrap().starts_with("/run/kubeadm/") {
            let text = file["content"].as_str().unwrap().to_owned();
            let parts = text.split("---\n").filter(|part| !part.trim().is_empty());
            file["content"] = parts.map(|part| serde_saphyr::from_str::<Value>(part).unwrap()).collect();
        }
    }
    tree
}

fn root(path: &str, permissions: &str, content: &Value) -> Value {
    json!({"path": path, "owner": "root:root", "permissions": permissions, "content": content})
}

fn placeholder() -> Value {
    root("/run/cluster-api/placeholder", "0640", &"makes this directory exist".into())
}

fn certificates() -> (Vec<File>, Vec<Value>) {
    let pair = PemPair { certificate: "certificate\n".to_owned(), key: "key\n".to_owned() };
    let files = Purpose::all(None).into_iter().flat_map(|purpose| purpose.files(&pair, None)).collect();
    let pki = |name: &str, permissions, content: &str| {
        root(&format!("/etc/kubernetes/pki/{name}"), permissions, &content.into())
    };
    let expected = vec![
        pki("ca.crt", "0640", "certificate\n"),
        pki("ca.key", "0600", "key\n"),
        pki("etcd/ca.crt", "0640", "certificate\n"),
        pki("etcd/ca.key", "0600", "key\n"),
        pki("front-proxy-ca.crt", "0640", "certificate\n"),
        pki("front-proxy-ca.key", "0600", "key\n"),
        pki("sa.pub", "0640", "certificate\n"),
        pki("sa.key", "0600", "key\n"),
    ];
    (files, expected)
}

/// Renders the document of a first node.
fn init(cluster: &str, network: Value, spec: Value) -> Value {
    let spec: KubeadmConfigSpec = serde_json::from_value(spec).unwrap();
    let network: ClusterNetwork = serde_json::from_value(network).unwrap();
    let text = kubeadm::init(&kubeadm::Init {
        cluster_name: cluster,
        version: "v1.33.0",
        endpoint: Some("172.24.0.6:6443"),
        network: Some(&network),
        cluster: &spec.cluster_configuration.clone().unwrap_or_default(),
        node: &spec.init_configuration.clone().unwrap_or_default(),
    });
    let files = spec.files.iter().flatten().map(|file| File {
        path: file.path.clone(),
        content: file.content.clone().unwrap_or_default().into_bytes(),
        ..File::default()
    });
    let files: Vec<File> = files.collect();
    let (certificates, _) = certificates();
    let setup = Setup {
        command: Command::Init,
        kubeadm: &text.unwrap(),
        certificates: &certificates,
        files: &files,
        discovery: None,
        users: &[],
        report: None,
        spec: &spec,
    };
    parsed(&cloud_config::render(&setup).unwrap())
}

fn provider_id() -> Value {
    json!([
        {"name": "cloud-provider", "value": "external"},
        {"name": "provider-id", "value": "openstack:///'{{ instance_id }}'"},
    ])
}

#[test]
fn the_first_node_of_the_cluster_without_a_load_balancer() {
    let external = json!([{"name": "cloud-provider", "value": "external"}]);
    let node = json!({"kubeletExtraArgs": provider_id(), "name": "{{ local_hostname }}"});
    let network = json!({"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local"});
    let spec = json!({
        "clusterConfiguration": {
            "controllerManager": {"extraArgs": external},
            "featureGates": {"ControlPlaneKubeletLocalMode": true},
        },
        "initConfiguration": {"nodeRegistration": node},
    });
    let kubeadm = json!([
        {
            "apiServer": {},
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "clusterName": "capo-without-lb",
            "controlPlaneEndpoint": "172.24.0.6:6443",
            "controllerManager": {"extraArgs": external},
            "dns": {},
            "etcd": {},
            "featureGates": {"ControlPlaneKubeletLocalMode": true},
            "kind": "ClusterConfiguration",
            "kubernetesVersion": "v1.33.0",
            "networking": {"dnsDomain": "cluster.local", "podSubnet": "192.168.0.0/16"},
            "proxy": {},
            "scheduler": {},
        },
        {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": {},
            "nodeRegistration": {"kubeletExtraArgs": provider_id(), "name": "{{ local_hostname }}", "taints": null},
        },
    ]);
    let (_, mut files) = certificates();
    files.extend([root("/run/kubeadm/kubeadm.yaml", "0640", &kubeadm), placeholder()]);
    let expected = json!({
        "write_files": files,
        // Upstream lacks the second argument, so that kubeadm prints a token to the console.
        "runcmd": ["kubeadm init --config /run/kubeadm/kubeadm.yaml --skip-token-print  && echo success > \
            /run/cluster-api/bootstrap-success.complete"],
    });
    assert_eq!(init("capo-without-lb", network, spec), expected);
}

#[test]
fn the_first_node_of_the_cluster_with_a_topology() {
    let admission = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: []\n";
    let path = "/etc/kubernetes/kube-apiserver-admission-pss.yaml";
    let server = json!({
        "certSANs": ["localhost", "host.docker.internal", "::", "::1", "127.0.0.1", "0.0.0.0"],
        "extraArgs": [{"name": "admission-control-config-file", "value": path}],
        "extraVolumes": [{"hostPath": path, "mountPath": path, "name": "admission-pss", "pathType": "File",
            "readOnly": true}],
    });
    let eviction = json!([{"name": "eviction-hard",
        "value": "nodefs.available<0%,nodefs.inodesFree<0%,imagefs.available<0%"}]);
    let network = json!({"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.128.0.0/12"]},
        "serviceDomain": "cluster.local"});
    let spec = json!({
        "clusterConfiguration": {"apiServer": server, "featureGates": {"ControlPlaneKubeletLocalMode": true}},
        "initConfiguration": {"nodeRegistration": {"kubeletExtraArgs": eviction}},
        "files": [{"path": path, "content": admission}],
    });
    let tree = init("capi-topology", network, spec);
    assert_eq!(tree["write_files"][8], json!({"path": path, "content": admission}));
    let documents = &tree["write_files"][9]["content"];
    assert_eq!(documents[0]["apiServer"], server);
    assert_eq!(
        documents[0]["networking"],
        json!({"dnsDomain": "cluster.local", "podSubnet": "192.168.0.0/16",
        "serviceSubnet": "10.128.0.0/12"})
    );
    assert_eq!(documents[1]["nodeRegistration"], json!({"kubeletExtraArgs": eviction, "taints": null}));
}

#[test]
fn a_worker_of_the_cluster_without_a_load_balancer() {
    let discovery = json!({"bootstrapToken": {
        "apiServerEndpoint": "172.24.0.6:6443",
        "caCertHashes": ["sha256:ef425922b22ee8f6a9dd3dbd2ddebe5ac26ca88349c50d51cccc98ec062b7661"],
        "token": "abcdef.0123456789abcdef",
    }});
    let node = json!({"kubeletExtraArgs": provider_id(), "name": "{{ local_hostname }}"});
    let join: JoinConfiguration =
        serde_json::from_value(json!({"discovery": discovery, "nodeRegistration": node})).unwrap();
    let spec = KubeadmConfigSpec::default();
    let setup = Setup {
        command: Command::Join,
        kubeadm: &kubeadm::join("v1.33.0", &with_taint(join)).unwrap(),
        certificates: &[],
        files: &[],
        discovery: None,
        users: &[],
        report: None,
        spec: &spec,
    };
    let kubeadm = json!([{
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "discovery": discovery,
        "kind": "JoinConfiguration",
        "nodeRegistration": {
            "kubeletExtraArgs": provider_id(),
            "name": "{{ local_hostname }}",
            "taints": [{"effect": "NoSchedule", "key": "node.cluster.x-k8s.io/uninitialized"}],
        },
    }]);
    let expected = json!({
        "write_files": [root("/run/kubeadm/kubeadm-join-config.yaml", "0640", &kubeadm), placeholder()],
        "runcmd": ["kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > \
            /run/cluster-api/bootstrap-success.complete"],
    });
    assert_eq!(parsed(&cloud_config::render(&setup).unwrap()), expected);
}
