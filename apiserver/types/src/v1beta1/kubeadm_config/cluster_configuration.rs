//! kubeadm: what holds for the whole cluster, in v1beta1.

use std::collections::BTreeMap;

use crate::kubeadm_config::{DnsAddOn, EncryptionAlgorithm, EnvVar, HostPathMount};
use crate::object::wire;

wire! {
    /// Settings that hold for all control planes of a cluster.
    ClusterConfiguration {
        optional {
            /// Kube-apiserver settings.
            api_server: KubeadmApiServer,
            /// Version of kubeadm's own file; not used.
            api_version: String,
            /// CA validity.
            #[schemars(range(min = 1, max = 36500))]
            ca_certificate_validity_period_days: i32,
            /// Leaf validity.
            #[schemars(range(min = 1, max = 1095))]
            certificate_validity_period_days: i32,
            /// Certificate directory.
            #[schemars(length(min = 1, max = 512))]
            certificates_dir: String,
            /// Name of the cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Stable endpoint (defaulted from Cluster).
            #[schemars(length(min = 1, max = 512))]
            control_plane_endpoint: String,
            /// Kube-controller-manager settings.
            controller_manager: ControlPlaneComponent,
            /// DNS add-on image.
            dns: DnsAddOn,
            /// Key algorithm for certificates.
            encryption_algorithm: EncryptionAlgorithm,
            /// Etcd settings.
            etcd: KubeadmEtcd,
            /// Kubeadm feature gates.
            feature_gates: BTreeMap<String, bool>,
            /// Control plane image prefix.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Kind of kubeadm's own file; not used.
            kind: String,
            /// Version of the control plane.
            #[schemars(length(min = 1, max = 256))]
            kubernetes_version: String,
            /// Networks of the cluster.
            networking: KubeadmNetworking,
            /// Kube-scheduler settings.
            scheduler: ControlPlaneComponent,
        }
    }

    /// Settings of kube-apiserver.
    KubeadmApiServer {
        optional {
            /// Extra SANs.
            #[serde(rename = "certSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            cert_sans: Vec<String>,
            /// Extra flags (repeatable).
            extra_args: BTreeMap<String, String>,
            /// Extra environment.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Host path mounts.
            #[schemars(length(max = 100))]
            extra_volumes: Vec<HostPathMount>,
            /// Wait for the API server for so long, as a Go duration.
            timeout_for_control_plane: String,
        }
    }

    /// Settings of one component of the control plane.
    ControlPlaneComponent {
        optional {
            /// Extra flags (repeatable).
            extra_args: BTreeMap<String, String>,
            /// Extra environment.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Host path mounts.
            #[schemars(length(max = 100))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// etcd: beside the API server, or elsewhere.
    KubeadmEtcd {
        optional {
            /// External etcd.
            external: ExternalEtcd,
            /// Stacked etcd.
            local: LocalEtcd,
        }
    }

    /// An etcd beside the API server.
    LocalEtcd {
        optional {
            /// Data directory.
            #[schemars(length(min = 1, max = 512))]
            data_dir: String,
            /// Extra flags (repeatable).
            extra_args: BTreeMap<String, String>,
            /// Extra environment.
            #[schemars(length(max = 100))]
            extra_envs: Vec<EnvVar>,
            /// Image prefix.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Image tag.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
            /// Extra peer SANs.
            #[serde(rename = "peerCertSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            peer_cert_sans: Vec<String>,
            /// Extra server SANs.
            #[serde(rename = "serverCertSANs")]
            #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
            server_cert_sans: Vec<String>,
        }
    }

    /// An etcd that stands elsewhere.
    ExternalEtcd {
        required {
            /// CA file on the node.
            #[schemars(length(min = 1, max = 512))]
            ca_file: String,
            /// Client certificate file.
            #[schemars(length(min = 1, max = 512))]
            cert_file: String,
            /// Endpoint URLs.
            #[schemars(length(max = 50), inner(length(min = 1, max = 512)))]
            endpoints: Vec<String>,
            /// Client key file.
            #[schemars(length(min = 1, max = 512))]
            key_file: String,
        }
    }

    /// Networks of the cluster.
    KubeadmNetworking {
        optional {
            /// Domain of Services.
            #[schemars(length(min = 1, max = 253))]
            dns_domain: String,
            /// Addresses of pods.
            #[schemars(length(min = 1, max = 1024))]
            pod_subnet: String,
            /// Addresses of Services.
            #[schemars(length(min = 1, max = 1024))]
            service_subnet: String,
        }
    }
}
