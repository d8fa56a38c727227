//! Documents for real programs: `cargo xtask e2e --only bootstrap` gives each kubeadm file to the kubeadm of its version,
//! each cloud-config to cloud-init, and each Ignition configuration to Ignition.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod refused;

use std::path::Path;

use apiserver_types::{ClusterNetwork, InitConfiguration, JoinConfiguration, KubeadmConfigSpec};
use controllers_bootstrap::certificates::{PemPair, Purpose};
use controllers_bootstrap::discovery::with_taint;
use controllers_bootstrap::token;
use controllers_bootstrap::{Command, File, Setup, cloud_config, ignition, kubeadm};
use serde_json::{Value, json};

/// Environment variable with the folder that the documents are written to: one folder per version.
const FOLDER: &str = "CAPSTAN_DOCUMENTS";

/// Environment variable with the versions, separated by commas.
const VERSIONS: &str = "CAPSTAN_DOCUMENT_VERSIONS";

/// Versions without the variable: the last one of each API version of kubeadm.
const BOTH: &str = "v1.30.14,v1.36.3";

/// Path of the kubeconfig for discovery by a file. kubeadm checks that it exists.
const KUBECONFIG: &str = "/dev/null";

/// One document: its name, command and kubeadm file.
type Rendered = (&'static str, Command, String);

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node() -> Value {
    json!({
        "name": "{{ local_hostname }}",
        "criSocket": "unix:///run/containerd/containerd.sock",
        "ignorePreflightErrors": ["NumCPU"],
        "imagePullPolicy": "IfNotPresent",
        "imagePullSerial": false,
        "kubeletExtraArgs": [{"name": "cloud-provider", "value": "external"},
            {"name": "provider-id", "value": "openstack:///{{ instance_id }}"}],
        "taints": [{"key": "dedicated", "value": "x: y", "effect": "NoSchedule"}],
    })
}

fn timeouts() -> Value {
    json!({
        "controlPlaneComponentHealthCheckSeconds": 300, "kubeletHealthCheckSeconds": 240,
        "kubernetesAPICallSeconds": 60, "etcdAPICallSeconds": 120, "tlsBootstrapSeconds": 300,
        "discoverySeconds": 30,
    })
}

/// Returns all settings of a cluster.
fn cluster() -> Value {
    let component = json!({
        "extraArgs": [{"name": "v", "value": "2"}, {"name": "profiling", "value": "false"}],
        "extraEnvs": [{"name": "GOMEMLIMIT", "value": "3GiB"}],
        "extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/a", "readOnly": true,
            "pathType": "DirectoryOrCreate"}],
    });
    let mut server = component.clone();
    server["certSANs"] = json!(["api.blue.lab", "203.0.113.10"]);
    json!({
        "apiServer": server, "controllerManager": component, "scheduler": component,
        "certificatesDir": "/etc/kubernetes/pki", "imageRepository": "registry.lab:5000/kubernetes",
        "dns": {"imageRepository": "registry.lab:5000/dns", "imageTag": "v1.12.0"},
        "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.5.15-0",
            "extraArgs": [{"name": "quota-backend-bytes", "value": "8589934592"}],
            "serverCertSANs": ["etcd.lab"], "peerCertSANs": ["etcd.lab"]}},
        "featureGates": {"PublicKeysECDSA": true},
        "caCertificateValidityPeriodDays": 3650, "certificateValidityPeriodDays": 180,
        "encryptionAlgorithm": "ECDSA-P256",
    })
}

fn discovery() -> Value {
    json!({"bootstrapToken": {
        "apiServerEndpoint": "203.0.113.10:6443", "token": "k3v9qz.1x5w8m2c7r4t6y0p",
        "caCertHashes": ["sha256:3f1c0e5a9d7b44e0a1c2d3e4f5061728394a5b6c7d8e9f00112233445566778a"],
    }})
}

fn first_node(version: &str, cluster: Value, node: Value) -> String {
    let network: ClusterNetwork = typed(json!({"serviceDomain": "cluster.local",
        "services": {"cidrBlocks": ["10.96.0.0/16"]}, "pods": {"cidrBlocks": ["10.244.0.0/16"]}}));
    let node: InitConfiguration = typed(node);
    let input = kubeadm::Init {
        cluster_name: "blue",
        version,
        endpoint: Some("203.0.113.10:6443"),
        network: Some(&network),
        cluster: &typed(cluster),
        node: &node,
    };
    kubeadm::init(&input).unwrap()
}

fn joining(version: &str, worker: bool, mut join: Value) -> String {
    if !worker {
        join["controlPlane"] =
            json!({"localAPIEndpoint": {"advertiseAddress": "192.0.2.10", "bindPort": 6443}});
    }
    let join: JoinConfiguration = typed(join);
    kubeadm::join(version, &if worker { with_taint(join) } else { join }).unwrap()
}

/// Renders every kind of kubeadm file, with few settings and with all.
fn kubeadm_files(version: &str) -> Vec<Rendered> {
    let external = json!({"etcd": {"external": {"endpoints": ["https://192.0.2.1:2379"],
        "caFile": "/ca", "certFile": "/cert", "keyFile": "/key"}}});
    let full = json!({
        "nodeRegistration": node(), "timeouts": timeouts(), "skipPhases": ["addon/kube-proxy"],
        "patches": {"directory": "/etc/kubernetes/patches"},
        "localAPIEndpoint": {"advertiseAddress": "192.0.2.10", "bindPort": 6443},
        "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 900,
            "usages": ["signing", "authentication"], "description": "a",
            "groups": ["system:bootstrappers:kubeadm:default-node-token"]}],
    });
    let by_file = json!({"discovery": {"file": {"kubeConfigPath": KUBECONFIG}, "tlsBootstrapToken":
        "k3v9qz.1x5w8m2c7r4t6y0p"}});
    let joined = json!({
        "discovery": discovery(), "nodeRegistration": node(), "timeouts": timeouts(),
        "patches": {"directory": "/etc/kubernetes/patches"}, "caCertPath": "/etc/kubernetes/pki/ca.crt",
        "skipPhases": ["preflight"],
    });
    let minimal = json!({"discovery": discovery()});
    let (init, join) = (Command::Init, Command::Join);
    vec![
        (
            "init",
            init,
            first_node(version, json!({}), json!({"bootstrapTokens": [token::for_init().unwrap()]})),
        ),
        ("init-with-all-settings", init, first_node(version, cluster(), full)),
        ("init-with-external-etcd", init, first_node(version, external, json!({}))),
        ("control-plane", join, joining(version, false, minimal.clone())),
        ("control-plane-with-all-settings", join, joining(version, false, joined.clone())),
        ("worker", join, joining(version, true, minimal)),
        ("worker-with-all-settings", join, joining(version, true, joined)),
        ("worker-by-file", join, joining(version, true, by_file)),
    ]
}

/// Returns everything besides kubeadm that a KubeadmConfig says.
fn machine() -> KubeadmConfigSpec {
    typed(json!({
        "bootCommands": ["modprobe br_netfilter"],
        "preKubeadmCommands": ["echo 'a: b' # c"], "postKubeadmCommands": ["touch /done"],
        "ntp": {"enabled": true, "servers": ["ntp1.lab"]},
        "diskSetup": {
            "filesystems": [{"label": "etcd", "filesystem": "ext4", "device": "/dev/vdb",
                "extraOpts": ["-E", "lazy_itable_init=1"], "overwrite": false}],
            "partitions": [{"device": "/dev/vdb", "layout": true, "tableType": "gpt", "overwrite": false}],
        },
        "mounts": [["LABEL=etcd", "/var/lib/etcd"]],
        "users": [{"name": "ops", "groups": "adm, sudo", "lockPassword": false, "passwd": "*",
            "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 AAAA ops@lab"], "shell": "/bin/bash"}],
        "verbosity": 4,
    }))
}

/// Returns the same for Ignition, which has no commands of the early boot.
fn ignition_machine() -> KubeadmConfigSpec {
    let additional = "
networkd:
  units:
  - name: 00-eth0.network
    contents: x
storage:
  filesystems:
  - name: data
    mount:
      device: /dev/vdc
      format: ext4
  files:
  - path: /a
    filesystem: data
    contents:
      remote:
        url: https://a.lab/a.gz
        compression: gzip
passwd:
  groups:
  - name: team
";
    let config = typed(json!({"containerLinuxConfig": {"additionalConfig": additional}}));
    KubeadmConfigSpec { boot_commands: None, ignition: Some(config), ..machine() }
}

/// Form of a document.
#[derive(Clone, Copy)]
enum Format {
    CloudConfig,
    Ignition,
    /// A document whose files are compressed.
    LargeIgnition,
}

fn document(format: Format, command: Command, kubeadm: &str, spec: &KubeadmConfigSpec) -> String {
    let pair = PemPair { certificate: "certificate\n".to_owned(), key: "key\n".to_owned() };
    let certificates: Vec<File> =
        Purpose::all(None).into_iter().flat_map(|purpose| purpose.files(&pair, None)).collect();
    let file = |path: &str, content: &str| File {
        path: path.to_owned(),
        content: content.into(),
        permissions: Some("0644".to_owned()),
        ..File::default()
    };
    let mut files = vec![
        file("/etc/blanks", "   leading blanks\nand no end"),
        file("/etc/returns", "a\r\nb\r\n\n"),
        File { append: Some(true), ..file("/etc/hosts", "192.0.2.5 registry.lab\n") },
    ];
    if matches!(format, Format::LargeIgnition) {
        files.push(file("/etc/large", &"a line\n".repeat(10_000)));
    }
    let users = spec.users.clone().unwrap_or_default();
    let setup = Setup {
        command,
        kubeadm,
        certificates: &certificates,
        files: &files,
        discovery: None,
        users: &users,
        report: Some("m"),
        spec,
    };
    match format {
        Format::CloudConfig => cloud_config::render(&setup).unwrap(),
        Format::Ignition | Format::LargeIgnition => ignition::render(&setup).unwrap(),
    }
}

/// Fills in what cloud-init knows on the machine, so that the result is no template any more.
fn on_the_machine(text: &str) -> String {
    let text = text.strip_prefix("## template: jinja\n").unwrap_or(text);
    text.replace("{{ local_hostname }}", "node-1").replace("{{ instance_id }}", "i-1")
}

#[test]
fn documents_of_every_version_are_rendered_and_written_for_real_programs() {
    let folder = std::env::var_os(FOLDER);
    let versions = std::env::var(VERSIONS).unwrap_or_else(|_| BOTH.to_owned());
    for version in versions.split(',') {
        for (name, command, kubeadm) in kubeadm_files(version) {
            let cloud_config = document(Format::CloudConfig, command, &kubeadm, &machine());
            let ignition = document(Format::Ignition, command, &kubeadm, &ignition_machine());
            let large = document(Format::LargeIgnition, command, &kubeadm, &ignition_machine());
            assert!(!on_the_machine(&cloud_config).contains("{{"), "{name} is still a template");
            let Some(folder) = &folder else { continue };
            let folder = Path::new(folder).join(version);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{name}.kubeadm.yaml")), on_the_machine(&kubeadm)).unwrap();
            let path = folder.join(format!("{name}.cloud-config.yaml"));
            std::fs::write(path, on_the_machine(&cloud_config)).unwrap();
            std::fs::write(folder.join(format!("{name}.ignition.json")), ignition).unwrap();
            std::fs::write(folder.join(format!("{name}-large.ignition.json")), large).unwrap();
        }
    }
}

#[test]
fn values_that_kubeadm_refuses_are_found_and_written_for_real_programs() {
    let folder = std::env::var_os(FOLDER);
    let versions = std::env::var(VERSIONS).unwrap_or_else(|_| BOTH.to_owned());
    for version in versions.split(',') {
        for (name, text) in refused::files(version) {
            let Some(folder) = &folder else { continue };
            let folder = Path::new(folder).join(version);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{name}.{}", refused::SUFFIX)), text).unwrap();
        }
    }
}

#[test]
fn nothing_that_kubeadm_accepts_is_found() {
    let init: InitConfiguration =
        typed(json!({"nodeRegistration": node(), "bootstrapTokens": [token::for_init().unwrap()]}));
    let network: ClusterNetwork = typed(json!({"services": {"cidrBlocks": ["10.96.0.0/12"]}}));
    let input = kubeadm::Init {
        cluster_name: "blue",
        version: "v1.36.3",
        endpoint: None,
        network: Some(&network),
        cluster: &typed(cluster()),
        node: &init,
    };
    assert_eq!(kubeadm::refusals_of_init(&input), []);
    let join: JoinConfiguration = typed(json!({"discovery": discovery(), "nodeRegistration": node()}));
    assert_eq!(kubeadm::refusals_of_join(&join), []);
}
