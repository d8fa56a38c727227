//! kubeadm: what holds for the whole cluster.

use std::collections::BTreeMap;

use crate::kubeadm_config::EnvVar;
use crate::object::wire;
use crate::shared::words;

wire! {
    /// Settings that hold for all control planes of a cluster.
    ClusterConfiguration {
        optional {
            /// Kube-apiserver settings.
            #[schemars(extend("minProperties" = 1))]
            api_server: KubeadmApiServer,
            /// CA validity.
            #[schemars(range(min = 1, max = 36500))]
            ca_certificate_validity_period_days: i32,
            /// Leaf validity.
            #[schemars(range(min = 1, max = 1095))]
            certificate_validity_period_days: i32,
            /// Certificate directory.
            #[schemars(length(min = 1, max = 512))]
            certificates_dir: String,
            /// Stable endpoint (defaulted from Cluster).
            #[schemars(length(min = 1, max = 512))]
            control_plane_endpoint: String,
            /// Kube-controller-manager settings.
            #[schemars(extend("minProperties" = 1))]
            controller_manager: ControlPlaneComponent,
            /// DNS add-on image.
            #[schemars(extend("minProperties" = 1))]
            dns: DnsAddOn,
            /// Key algorithm for certificates.
            encryption_algorithm: EncryptionAlgorithm,
            /// Etcd settings.
            #[schemars(extend("minProperties" = 1))]
            etcd: KubeadmEtcd,
            /// Kubeadm feature gates.
            feature_gates: BTreeMap<String, bool>,
            /// Control plane image prefix.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Kube-scheduler settings.
            #[schemars(extend("minProperties" = 1))]
            scheduler: ControlPlaneComponent,
        }
    }

    /// Settings of kube-apiserver.
    KubeadmApiServer {
        optional {
            /// Extra SANs.
            #[serde(rename = "certSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            cert_sans: Vec<String>,
            /// Extra flags (repeatable).
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Extra environment.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Host path mounts.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// Settings of one component of the control plane.
    ControlPlaneComponent {
        optional {
            /// Extra flags (repeatable).
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Extra environment.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Host path mounts.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// Image of the DNS server.
    DnsAddOn {
        optional {
            /// Image prefix.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Image tag.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
        }
    }

    /// etcd: beside the API server, or elsewhere.
    KubeadmEtcd {
        optional {
            /// External etcd.
            external: ExternalEtcd,
            /// Stacked etcd.
            #[schemars(extend("minProperties" = 1))]
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
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Extra environment.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Image prefix.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Image tag.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
            /// Extra peer SANs.
            #[serde(rename = "peerCertSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            peer_cert_sans: Vec<String>,
            /// Extra server SANs.
            #[serde(rename = "serverCertSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            endpoints: Vec<String>,
            /// Client key file.
            #[schemars(length(min = 1, max = 512))]
            key_file: String,
        }
    }

    /// One flag of a component. The same flag may stand here more than once.
    Arg {
        required {
            /// Name of the flag, without dashes.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Value; may be empty.
            #[schemars(length(min = 0, max = 1024))]
            value: String,
        }
    }

    /// A directory or file of the host that a component sees.
    HostPathMount {
        required {
            /// Path on the host.
            #[schemars(length(min = 1, max = 512))]
            host_path: String,
            /// Path in the pod.
            #[schemars(length(min = 1, max = 512))]
            mount_path: String,
            /// Name of the volume.
            #[schemars(length(min = 1, max = 512))]
            name: String,
        }
        optional {
            /// What must be at the path of the host.
            path_type: String,
            /// Whether the component may not write.
            read_only: bool,
        }
    }
}

words! {
    /// Kind and size of the keys of certificates.
    EncryptionAlgorithm {
        /// ECDSA with the curve P-256.
        #[serde(rename = "ECDSA-P256")]
        EcdsaP256,
        /// ECDSA with the curve P-384.
        #[serde(rename = "ECDSA-P384")]
        EcdsaP384,
        /// RSA of 2048 bits.
        #[serde(rename = "RSA-2048")]
        #[default]
        Rsa2048,
        /// RSA of 3072 bits.
        #[serde(rename = "RSA-3072")]
        Rsa3072,
        /// RSA of 4096 bits.
        #[serde(rename = "RSA-4096")]
        Rsa4096,
    }
}
