//! kubeadm ClusterConfiguration: settings of the whole workload cluster.

use std::collections::BTreeMap;

use crate::kubeadm_config::EnvVar;
use crate::object::wire;
use crate::shared::words;

wire! {
    /// kubeadm settings that are common to all control plane nodes of a cluster.
    ClusterConfiguration {
        optional {
            /// Settings of kube-apiserver.
            #[schemars(extend("minProperties" = 1))]
            api_server: KubeadmApiServer,
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
            /// Stable address of the control plane, as `host:port`. Default: the control plane endpoint of
            /// the Cluster.
            #[schemars(length(min = 1, max = 512))]
            control_plane_endpoint: String,
            /// Settings of kube-controller-manager.
            #[schemars(extend("minProperties" = 1))]
            controller_manager: ControlPlaneComponent,
            /// Image of the DNS add-on.
            #[schemars(extend("minProperties" = 1))]
            dns: DnsAddOn,
            /// Algorithm and size of the keys of generated certificates. Default: RSA-2048.
            encryption_algorithm: EncryptionAlgorithm,
            /// Settings of etcd: stacked or external. Default: stacked.
            #[schemars(extend("minProperties" = 1))]
            etcd: KubeadmEtcd,
            /// Feature gates of kubeadm, by name.
            feature_gates: BTreeMap<String, bool>,
            /// Registry and path prefix of the control plane images. Default: `registry.k8s.io`.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Settings of kube-scheduler.
            #[schemars(extend("minProperties" = 1))]
            scheduler: ControlPlaneComponent,
        }
    }

    /// Settings of kube-apiserver.
    KubeadmApiServer {
        optional {
            /// Additional subject alternative names of the API server's certificate: host names or IP
            /// addresses.
            #[serde(rename = "certSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            cert_sans: Vec<String>,
            /// Additional flags of the component. A flag can occur more than once.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Additional environment variables of the component.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Additional host paths that are mounted into the component's pod.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// Settings of one control plane component.
    ControlPlaneComponent {
        optional {
            /// Additional flags of the component. A flag can occur more than once.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Additional environment variables of the component.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Additional host paths that are mounted into the component's pod.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_volumes: Vec<HostPathMount>,
        }
    }

    /// Image of the DNS add-on.
    DnsAddOn {
        optional {
            /// Registry and path prefix of the image. Default: `imageRepository` of the ClusterConfiguration.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Tag of the image. Default: the tag that kubeadm selects.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
        }
    }

    /// Settings of etcd: stacked (`local`) or external. The two are mutually exclusive.
    KubeadmEtcd {
        optional {
            /// Connection settings of an external etcd cluster.
            external: ExternalEtcd,
            /// Settings of a stacked etcd, which runs on the control plane nodes.
            #[schemars(extend("minProperties" = 1))]
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
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "extraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            extra_args: Vec<Arg>,
            /// Additional environment variables of the component.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            extra_envs: Vec<EnvVar>,
            /// Registry and path prefix of the image. Default: `imageRepository` of the ClusterConfiguration.
            #[schemars(length(min = 1, max = 512))]
            image_repository: String,
            /// Tag of the image. Default: the tag that kubeadm selects.
            #[schemars(length(min = 1, max = 256))]
            image_tag: String,
            /// Additional subject alternative names of the etcd peer certificate.
            #[serde(rename = "peerCertSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
            peer_cert_sans: Vec<String>,
            /// Additional subject alternative names of the etcd server certificate.
            #[serde(rename = "serverCertSANs")]
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            endpoints: Vec<String>,
            /// Path of the client key on the node.
            #[schemars(length(min = 1, max = 512))]
            key_file: String,
        }
    }

    /// One flag of a component. A list of flags can contain the same flag more than once.
    Arg {
        required {
            /// Name of the flag, without leading dashes.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Value of the flag. It can be empty.
            #[schemars(length(min = 0, max = 1024))]
            value: String,
        }
    }

    /// File or directory of the node that is mounted into a component's pod.
    HostPathMount {
        required {
            /// Path on the node.
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
            /// Required type of the host path, as in a pod's `hostPath` volume, e.g. `DirectoryOrCreate`.
            path_type: String,
            /// Access mode of the mount. If true, the component cannot write. Default: false.
            read_only: bool,
        }
    }
}

words! {
    /// Algorithm and size of the keys of certificates.
    EncryptionAlgorithm {
        /// ECDSA with curve P-256.
        #[serde(rename = "ECDSA-P256")]
        EcdsaP256,
        /// ECDSA with curve P-384.
        #[serde(rename = "ECDSA-P384")]
        EcdsaP384,
        /// RSA with 2048 bits.
        #[serde(rename = "RSA-2048")]
        #[default]
        Rsa2048,
        /// RSA with 3072 bits.
        #[serde(rename = "RSA-3072")]
        Rsa3072,
        /// RSA with 4096 bits.
        #[serde(rename = "RSA-4096")]
        Rsa4096,
    }
}
