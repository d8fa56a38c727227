//! kubeadm ClusterConfiguration in v1beta1: settings of the whole workload cluster.

use std::collections::BTreeMap;

use crate::kubeadm_config::{DnsAddOn, EncryptionAlgorithm, EnvVar, HostPathMount};
use crate::object::wire;

wire! {
    /// kubeadm settings that are common to all control plane nodes of a cluster.
    ClusterConfiguration {
        optional {
            /// Settings of kube-apiserver.
            api_server: KubeadmApiServer,
            /// API version of the kubeadm configuration. Without effect.
            api_version: String,
            /// Validity period of generated CA certificates. Unit: days. Range: 1 to 36500. Default: 3650.
            #[schemars(range(min = 1, max = 36500))]
            ca_certificate_validity_period_days: i32,
            /// Validity period of generated certificates other than CA certificates. Unit: days. Range: 1 to
            /// 1095. Default: 365.
            #[schemars(range(min = 1, max = 1095))]
            certificate_validity_period_days: i32,
            /// Directory of the certificates on the node. Default: `/etc/kubernetes/pki`.
            #[schemars(length(min = 1, max = 512))]
            certificates_dir: String,
            /// Name of the workload cluster. Default: the name of the Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Stable address of the control plane, as `host:port`. Default: the control plane endpoint of
            /// the Cluster.
            #[schemars(length(min = 1, max = 512))]
            control_plane_endpoint: String,
            /// Settings of kube-controller-manager.
            controller_manager: ControlPlaneComponent,
            /// Image of the DNS add-on.
            dns: DnsAddOn,
            /// Algorithm and size of the keys of generated certificates. Default: RSA-2048.
            encryption_algorithm: EncryptionAlgorithm,
            /// Settings of etcd: stacked or external. Default: stacked.
            etcd: KubeadmEtcd,
            /// Feature gates of kubeadm, by name.
            feature_gates: BTreeMap<String, bool>,
            /// Registry and path prefix of the control plane images. Default: `registry.k8s.io`.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Kind of the kubeadm configuration. Without effect.
            kind: String,
            /// Kubernetes version of the control plane. Default: the version of the Machine.
            #[schemars(length(min = 1, max = 256))]
            kubernetes_version: String,
            /// Network settings of the workload cluster. Default: the network settings of the Cluster.
            networking: KubeadmNetworking,
            /// Settings of kube-scheduler.
            scheduler: ControlPlaneComponent,
        }
    }

    /// Settings of kube-apiserver.
    KubeadmApiServer {
        optional {
            /// Additional subject alternative names of the API server's certificate: host names or IP
            /// addresses.
            #[serde(rename = "certSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            cert_sans: Vec<String>,
            /// Additional flags of the component. A flag can occur more than once.
            extra_args: BTreeMap<String, String>,
            /// Additional environment variables of the component.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Additional host paths that are mounted into the component's pod.
            #[schemars(length(max = 100))]
            extra_volumes: Vec<HostPathMount>,
            /// Maximum wait for the API server to start, as a Go duration.
            timeout_for_control_plane: String,
        }
    }

    /// Settings of one control plane component.
    ControlPlaneComponent {
        optional {
            /// Additional flags of the component. A flag can occur more than once.
            extra_args: BTreeMap<String, String>,
            /// Additional environment variables of the component.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Additional host paths that are mounted into the component's pod.
            #[schemars(length(max = 100))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// Settings of etcd: stacked (`local`) or external. The two are mutually exclusive.
    KubeadmEtcd {
        optional {
            /// Connection settings of an external etcd cluster.
            external: ExternalEtcd,
            /// Settings of a stacked etcd, which runs on the control plane nodes.
            local: LocalEtcd,
        }
    }

    /// Settings of a stacked etcd, which runs on the control plane nodes.
    LocalEtcd {
        optional {
            /// Data directory of etcd on the node. Default: `/var/lib/etcd`.
            #[schemars(length(min = 1, max = 512))]
            data_dir: String,
            /// Additional flags of the component. A flag can occur more than once.
            extra_args: BTreeMap<String, String>,
            /// Additional environment variables of the component.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Registry and path prefix of the image. Default: `imageRepository` of the ClusterConfiguration.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Tag of the image. Default: the tag that kubeadm selects.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
            /// Additional subject alternative names of the etcd peer certificate.
            #[serde(rename = "peerCertSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            peer_cert_sans: Vec<String>,
            /// Additional subject alternative names of the etcd server certificate.
            #[serde(rename = "serverCertSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            server_cert_sans: Vec<String>,
        }
    }

    /// Connection settings of an external etcd cluster.
    ExternalEtcd {
        required {
            /// Path of the CA certificate on the node. It verifies the etcd servers.
            #[schemars(length(min = 1, max = 512))]
            ca_file: String,
            /// Path of the client certificate on the node.
            #[schemars(length(min = 1, max = 512))]
            cert_file: String,
            /// URLs of the etcd members.
            #[schemars(length(max = 50), inner(length(min = 1, max = 512)))]
            endpoints: Vec<String>,
            /// Path of the client key on the node.
            #[schemars(length(min = 1, max = 512))]
            key_file: String,
        }
    }

    /// Network settings of a workload cluster.
    KubeadmNetworking {
        optional {
            /// DNS domain of Services. Default: `cluster.local`.
            #[schemars(length(min = 1, max = 253))]
            dns_domain: String,
            /// Address range of pods, in CIDR notation.
            #[schemars(length(min = 1, max = 1024))]
            pod_subnet: String,
            /// Address range of Services, in CIDR notation.
            #[schemars(length(min = 1, max = 1024))]
            service_subnet: String,
        }
    }
}
