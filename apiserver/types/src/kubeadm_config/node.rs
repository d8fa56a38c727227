//! kubeadm: the first node, and those that join it.

use crate::kubeadm_config::{Arg, Discovery};
use crate::object::wire;
use crate::shared::{Time, words};

wire! {
    /// Settings of the first control plane.
    InitConfiguration {
        optional {
            /// Bootstrap tokens.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            bootstrap_tokens: Vec<BootstrapToken>,
            /// Advertised API endpoint.
            #[serde(rename = "localAPIEndpoint")]
            #[schemars(extend("minProperties" = 1))]
            local_api_endpoint: LocalApiEndpoint,
            /// Node registration.
            #[schemars(extend("minProperties" = 1))]
            node_registration: NodeRegistrationOptions,
            /// Kubeadm patches.
            #[schemars(extend("minProperties" = 1))]
            patches: KubeadmPatches,
            /// Kubeadm phases to skip.
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            skip_phases: Vec<String>,
            /// Kubeadm timeouts.
            #[schemars(extend("minProperties" = 1))]
            timeouts: KubeadmTimeouts,
        }
    }

    /// A bootstrap token that is made in the new cluster.
    BootstrapToken {
        required {
            /// The token: id, a dot, secret.
            #[schemars(length(min = 1, max = 23))]
            token: String,
        }
        optional {
            /// For people.
            #[schemars(length(min = 1, max = 512))]
            description: String,
            /// When it dies.
            expires: Time,
            /// Groups of who uses it.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            groups: Vec<String>,
            /// How long it lives. Unit: seconds.
            #[schemars(range(min = 0))]
            ttl_seconds: i32,
            /// What it may be used for.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(range(min = 1))]
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
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            ignore_preflight_errors: Vec<String>,
            /// Pull policy.
            image_pull_policy: ImagePullPolicy,
            /// Pull one by one.
            image_pull_serial: bool,
            /// Kubelet flags.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "value"], "x-kubernetes-validations" = [{"message": "kubeletExtraArgs name must be unique", "rule": "self.all(x, self.exists_one(y, x.name == y.name))"}]))]
            kubelet_extra_args: Vec<Arg>,
            /// Node name (may be a cloud-init template).
            #[schemars(length(min = 1, max = 253))]
            name: String,
            /// Initial taints; null vs [] differ.
            #[schemars(length(min = 0, max = 100))]
            taints: Vec<NodeTaint>,
        }
    }

    /// A taint that the node is born with.
    NodeTaint {
        required {
            /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
            effect: String,
            /// Key.
            key: String,
        }
        optional {
            /// When it was set.
            time_added: Time,
            /// Value.
            value: String,
        }
    }

    /// Patches of what kubeadm deploys.
    KubeadmPatches {
        optional {
            /// Directory of the node with the patches.
            #[schemars(length(min = 1, max = 512))]
            directory: String,
        }
    }

    /// How long kubeadm waits for what.
    KubeadmTimeouts {
        optional {
            /// For a component of the control plane to be well. Unit: seconds.
            #[schemars(range(min = 0))]
            control_plane_component_health_check_seconds: i32,
            /// For the cluster to be found. Unit: seconds.
            #[schemars(range(min = 0))]
            discovery_seconds: i32,
            /// For a call to etcd. Unit: seconds.
            #[serde(rename = "etcdAPICallSeconds")]
            #[schemars(range(min = 0))]
            etcd_api_call_seconds: i32,
            /// For the kubelet to be well. Unit: seconds.
            #[schemars(range(min = 0))]
            kubelet_health_check_seconds: i32,
            /// For a call to the API server. Unit: seconds.
            #[serde(rename = "kubernetesAPICallSeconds")]
            #[schemars(range(min = 0))]
            kubernetes_api_call_seconds: i32,
            /// For the kubelet to get its certificate. Unit: seconds.
            #[schemars(range(min = 0))]
            tls_bootstrap_seconds: i32,
        }
    }

    /// Settings of every node after the first.
    JoinConfiguration {
        optional {
            /// Cluster CA path on the node.
            #[schemars(length(min = 1, max = 512))]
            ca_cert_path: String,
            /// Control plane part.
            control_plane: JoinControlPlane,
            /// Cluster discovery.
            #[schemars(extend("minProperties" = 1))]
            discovery: Discovery,
            /// Node registration.
            #[schemars(extend("minProperties" = 1))]
            node_registration: NodeRegistrationOptions,
            /// Kubeadm patches.
            #[schemars(extend("minProperties" = 1))]
            patches: KubeadmPatches,
            /// Kubeadm phases to skip.
            #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            skip_phases: Vec<String>,
            /// Kubeadm timeouts.
            #[schemars(extend("minProperties" = 1))]
            timeouts: KubeadmTimeouts,
        }
    }

    /// What a joining node needs to become a control plane.
    JoinControlPlane {
        optional {
            /// Advertised API endpoint.
            #[serde(rename = "localAPIEndpoint")]
            #[schemars(extend("minProperties" = 1))]
            local_api_endpoint: LocalApiEndpoint,
        }
    }
}

words! {
    /// When images are pulled.
    ImagePullPolicy {
        /// Always.
        Always,
        /// When they are not there.
        #[default]
        IfNotPresent,
        /// Never.
        Never,
    }
}
