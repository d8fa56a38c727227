//! kubeadm InitConfiguration and JoinConfiguration in v1beta1: settings of the first node and of joining
//! nodes.

use std::collections::BTreeMap;

use crate::kubeadm_config::{ImagePullPolicy, KubeadmPatches, NodeTaint};
use crate::object::wire;
use crate::shared::Time;
use crate::v1beta1::kubeadm_config::Discovery;

wire! {
    /// kubeadm settings of the first control plane node.
    InitConfiguration {
        optional {
            /// API version of the kubeadm configuration. Without effect.
            api_version: String,
            /// Bootstrap tokens that kubeadm creates in the new cluster.
            #[schemars(length(max = 100))]
            bootstrap_tokens: Vec<BootstrapToken>,
            /// Kind of the kubeadm configuration. Without effect.
            kind: String,
            /// Endpoint of the API server instance on this node. Default: the address of the default network
            /// interface and the API server port.
            #[serde(rename = "localAPIEndpoint")]
            local_api_endpoint: LocalApiEndpoint,
            /// Registration of the node in the cluster.
            node_registration: NodeRegistrationOptions,
            /// Patches that kubeadm applies to the manifests that it deploys.
            patches: KubeadmPatches,
            /// Names of the kubeadm phases to skip.
            #[schemars(length(max = 50), inner(length(min = 1, max = 256)))]
            skip_phases: Vec<String>,
        }
    }

    /// Bootstrap token that kubeadm creates in the new cluster.
    BootstrapToken {
        required {
            /// Token, in the form `id.secret`.
            token: String,
        }
        optional {
            /// Human-readable purpose of the token.
            #[schemars(length(min = 1, max = 512))]
            description: String,
            /// Time at which the token expires. Mutually exclusive with the time to live.
            expires: Time,
            /// Groups of clients that authenticate with the token.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            groups: Vec<String>,
            /// Time to live of the token, as a Go duration. Default: `24h`. Mutually exclusive with
            /// `expires`.
            ttl: String,
            /// Permitted uses of the token: `signing` and `authentication`.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
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
            #[schemars(length(max = 50), inner(length(min = 1, max = 512)))]
            ignore_preflight_errors: Vec<String>,
            /// Pull policy of kubeadm for images: Always, IfNotPresent or Never. Default: IfNotPresent.
            image_pull_policy: ImagePullPolicy,
            /// Order of image pulls. If true, images are pulled one after the other. Default: true.
            image_pull_serial: bool,
            /// Additional flags of the kubelet.
            kubelet_extra_args: BTreeMap<String, String>,
            /// Name of the Node. It can be a cloud-init template. Default: the host name.
            #[schemars(length(min = 1, max = 253))]
            name: String,
            /// Taints of the new Node. If unset, control plane nodes get the standard taint. An empty list
            /// sets no taint.
            #[schemars(length(max = 100))]
            taints: Vec<NodeTaint>,
        }
    }

    /// kubeadm settings of every node that joins.
    JoinConfiguration {
        optional {
            /// API version of the kubeadm configuration. Without effect.
            api_version: String,
            /// Path of the cluster's CA certificate on the node. Default: `/etc/kubernetes/pki/ca.crt`.
            #[schemars(length(min = 1, max = 512))]
            ca_cert_path: String,
            /// Settings of a joining control plane node. Unset for workers.
            control_plane: JoinControlPlane,
            /// Settings by which the node finds and verifies its cluster.
            discovery: Discovery,
            /// Kind of the kubeadm configuration. Without effect.
            kind: String,
            /// Registration of the node in the cluster.
            node_registration: NodeRegistrationOptions,
            /// Patches that kubeadm applies to the manifests that it deploys.
            patches: KubeadmPatches,
            /// Names of the kubeadm phases to skip.
            #[schemars(length(max = 50), inner(length(min = 1, max = 256)))]
            skip_phases: Vec<String>,
        }
    }

    /// Settings of a joining control plane node.
    JoinControlPlane {
        optional {
            /// Endpoint of the API server instance on this node. Default: the address of the default network
            /// interface and the API server port.
            #[serde(rename = "localAPIEndpoint")]
            local_api_endpoint: LocalApiEndpoint,
        }
    }
}
