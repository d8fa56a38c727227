//! kubeadm InitConfiguration and JoinConfiguration: settings of the first node and of joining nodes.

use crate::kubeadm_config::{Arg, Discovery};
use crate::object::wire;
use crate::shared::{Time, words};

wire! {
    /// kubeadm settings of the first control plane node.
    InitConfiguration {
        optional {
            /// Bootstrap tokens that kubeadm creates in the new cluster.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            bootstrap_tokens: Vec<BootstrapToken>,
            /// Endpoint of the API server instance on this node. Default: the address of the default network
            /// interface and the API server port.
            #[serde(rename = "localAPIEndpoint")]
            #[schemars(extend("minProperties" = 1))]
            local_api_endpoint: LocalApiEndpoint,
            /// Registration of the node in the cluster.
            #[schemars(extend("minProperties" = 1))]
            node_registration: NodeRegistrationOptions,
            /// Patches that kubeadm applies to the manifests that it deploys.
            #[schemars(extend("minProperties" = 1))]
            patches: KubeadmPatches,
            /// Names of the kubeadm phases to skip.
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            skip_phases: Vec<String>,
            /// Timeouts of kubeadm.
            #[schemars(extend("minProperties" = 1))]
            timeouts: KubeadmTimeouts,
        }
    }

    /// Bootstrap token that kubeadm creates in the new cluster.
    BootstrapToken {
        required {
            /// Token, in the form `id.secret`.
            #[schemars(length(min = 1, max = 23))]
            token: String,
        }
        optional {
            /// Human-readable purpose of the token.
            #[schemars(length(min = 1, max = 512))]
            description: String,
            /// Time at which the token expires. Mutually exclusive with the time to live.
            expires: Time,
            /// Groups of clients that authenticate with the token.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            groups: Vec<String>,
            /// Time to live of the token. 0 means no limit. Unit: seconds. Default: 86400. Mutually exclusive
            /// with `expires`.
            #[schemars(range(min = 0))]
            ttl_seconds: i32,
            /// Permitted uses of the token: `signing` and `authentication`.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            usages: Vec<String>,
        }
    }

    /// Endpoint of the API server instance on a node.
    LocalApiEndpoint {
        optional {
            /// IP address that the API server advertises. Default: the address of the default network
            /// interface.
            #[schemars(length(min = 1, max = 39))]
            advertise_address: String,
            /// TCP port that the API server binds to. Default: 6443.
            #[schemars(range(min = 1))]
            bind_port: i32,
        }
    }

    /// Registration of a node in the cluster.
    NodeRegistrationOptions {
        optional {
            /// Socket of the container runtime (CRI). Default: detected by kubeadm.
            #[schemars(length(min = 1, max = 512))]
            cri_socket: String,
            /// Preflight checks whose errors are ignored. `all` ignores the errors of all checks.
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            ignore_preflight_errors: Vec<String>,
            /// Pull policy of kubeadm for images: Always, IfNotPresent or Never. Default: IfNotPresent.
            image_pull_policy: ImagePullPolicy,
            /// Order of image pulls. If true, images are pulled one after the other. Default: true.
            image_pull_serial: bool,
            /// Additional flags of the kubelet.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "kubeletExtraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            kubelet_extra_args: Vec<Arg>,
            /// Name of the Node. It can be a cloud-init template. Default: the host name.
            #[schemars(length(min = 1, max = 253))]
            name: String,
            /// Taints of the new Node. If unset, control plane nodes get the standard taint. An empty list
            /// sets no taint.
            #[schemars(length(min = 0, max = 100))]
            taints: Vec<NodeTaint>,
        }
    }

    /// Taint of a new Node.
    NodeTaint {
        required {
            /// Effect of the taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
            effect: String,
            /// Key of the taint.
            key: String,
        }
        optional {
            /// Time of the taint's creation.
            time_added: Time,
            /// Value of the taint.
            value: String,
        }
    }

    /// Patches that kubeadm applies to the manifests that it deploys.
    KubeadmPatches {
        optional {
            /// Directory of the patch files on the node.
            #[schemars(length(min = 1, max = 512))]
            directory: String,
        }
    }

    /// Timeouts of kubeadm.
    KubeadmTimeouts {
        optional {
            /// Maximum wait for a control plane component to become healthy. Unit: seconds. Default: 240.
            #[schemars(range(min = 0))]
            control_plane_component_health_check_seconds: i32,
            /// Maximum time for discovery of the cluster. Unit: seconds. Default: 300.
            #[schemars(range(min = 0))]
            discovery_seconds: i32,
            /// Timeout of one call of the etcd API. Unit: seconds. Default: 120.
            #[serde(rename = "etcdAPICallSeconds")]
            #[schemars(range(min = 0))]
            etcd_api_call_seconds: i32,
            /// Maximum wait for the kubelet to become healthy. Unit: seconds. Default: 240.
            #[schemars(range(min = 0))]
            kubelet_health_check_seconds: i32,
            /// Timeout of one call of the Kubernetes API. Unit: seconds. Default: 60.
            #[serde(rename = "kubernetesAPICallSeconds")]
            #[schemars(range(min = 0))]
            kubernetes_api_call_seconds: i32,
            /// Maximum time for the kubelet's TLS bootstrap. Unit: seconds. Default: 300.
            #[schemars(range(min = 0))]
            tls_bootstrap_seconds: i32,
        }
    }

    /// kubeadm settings of every node that joins.
    JoinConfiguration {
        optional {
            /// Path of the cluster's CA certificate on the node. Default: `/etc/kubernetes/pki/ca.crt`.
            #[schemars(length(min = 1, max = 512))]
            ca_cert_path: String,
            /// Settings of a joining control plane node. Unset for workers.
            control_plane: JoinControlPlane,
            /// Settings by which the node finds and verifies its cluster.
            #[schemars(extend("minProperties" = 1))]
            discovery: Discovery,
            /// Registration of the node in the cluster.
            #[schemars(extend("minProperties" = 1))]
            node_registration: NodeRegistrationOptions,
            /// Patches that kubeadm applies to the manifests that it deploys.
            #[schemars(extend("minProperties" = 1))]
            patches: KubeadmPatches,
            /// Names of the kubeadm phases to skip.
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            skip_phases: Vec<String>,
            /// Timeouts of kubeadm.
            #[schemars(extend("minProperties" = 1))]
            timeouts: KubeadmTimeouts,
        }
    }

    /// Settings of a joining control plane node.
    JoinControlPlane {
        optional {
            /// Endpoint of the API server instance on this node. Default: the address of the default network
            /// interface and the API server port.
            #[serde(rename = "localAPIEndpoint")]
            #[schemars(extend("minProperties" = 1))]
            local_api_endpoint: LocalApiEndpoint,
        }
    }
}

words! {
    /// Pull policy of kubeadm for images.
    ImagePullPolicy {
        /// Images are always pulled.
        Always,
        /// Only missing images are pulled.
        #[default]
        IfNotPresent,
        /// Images are never pulled.
        Never,
    }
}
