//! kubeadm: the first node, and those that join it, in v1beta1.

use std::collections::BTreeMap;

use crate::kubeadm_config::{ImagePullPolicy, KubeadmPatches, NodeTaint};
use crate::object::wire;
use crate::shared::Time;
use crate::v1beta1::kubeadm_config::Discovery;

wire! {
    /// Settings of the first control plane.
    InitConfiguration {
        optional {
            /// Version of kubeadm's own file; not used.
            api_version: String,
            /// Bootstrap tokens.
            #[schemars(length(max = 100))]
            bootstrap_tokens: Vec<BootstrapToken>,
            /// Kind of kubeadm's own file; not used.
            kind: String,
            /// Advertised API endpoint.
            #[serde(rename = "localAPIEndpoint")]
            local_api_endpoint: LocalApiEndpoint,
            /// Node registration.
            node_registration: NodeRegistrationOptions,
            /// Kubeadm patches.
            patches: KubeadmPatches,
            /// Kubeadm phases to skip.
            #[schemars(length(max = 50), inner(length(min = 1, max = 256)))]
            skip_phases: Vec<String>,
        }
    }

    /// A bootstrap token that is made in the new cluster.
    BootstrapToken {
        required {
            /// The token: id, a dot, secret.
            token: String,
        }
        optional {
            /// For people.
            #[schemars(length(min = 1, max = 512))]
            description: String,
            /// When it dies.
            expires: Time,
            /// Groups of who uses it.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            groups: Vec<String>,
            /// How long it lives, as a Go duration.
            ttl: String,
            /// What it may be used for.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            usages: Vec<String>,
        }
    }

    /// Where the API server of this node answers.
    LocalApiEndpoint {
        optional {
            /// Address that others are told.
            #[schemars(length(min = 1, max = 39))]
            advertise_address: String,
            /// TCP port.
            bind_port: i32,
        }
    }

    /// How a node enters the cluster.
    NodeRegistrationOptions {
        optional {
            /// CRI socket.
            #[schemars(length(min = 1, max = 512))]
            cri_socket: String,
            /// Preflight errors to ignore.
            #[schemars(length(max = 50), inner(length(min = 1, max = 512)))]
            ignore_preflight_errors: Vec<String>,
            /// Pull policy.
            image_pull_policy: ImagePullPolicy,
            /// Pull one by one.
            image_pull_serial: bool,
            /// Kubelet flags.
            kubelet_extra_args: BTreeMap<String, String>,
            /// Node name (may be a cloud-init template).
            #[schemars(length(min = 1, max = 253))]
            name: String,
            /// Initial taints; null vs [] differ.
            #[schemars(length(max = 100))]
            taints: Vec<NodeTaint>,
        }
    }

    /// Settings of every node after the first.
    JoinConfiguration {
        optional {
            /// Version of kubeadm's own file; not used.
            api_version: String,
            /// Cluster CA path on the node.
            #[schemars(length(min = 1, max = 512))]
            ca_cert_path: String,
            /// Control plane part.
            control_plane: JoinControlPlane,
            /// Cluster discovery.
            discovery: Discovery,
            /// Kind of kubeadm's own file; not used.
            kind: String,
            /// Node registration.
            node_registration: NodeRegistrationOptions,
            /// Kubeadm patches.
            patches: KubeadmPatches,
            /// Kubeadm phases to skip.
            #[schemars(length(max = 50), inner(length(min = 1, max = 256)))]
            skip_phases: Vec<String>,
        }
    }

    /// What a joining node needs to become a control plane.
    JoinControlPlane {
        optional {
            /// Advertised API endpoint.
            #[serde(rename = "localAPIEndpoint")]
            local_api_endpoint: LocalApiEndpoint,
        }
    }
}
