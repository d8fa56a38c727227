//! kubeadm: how a joining node finds its cluster, in v1beta1.

use crate::kubeadm_config::{KubeConfigAuthExecEnv, KubeConfigAuthProvider, KubeConfigCluster};
use crate::object::wire;

wire! {
    /// How a node finds the cluster it joins.
    Discovery {
        optional {
            /// Token discovery.
            bootstrap_token: BootstrapTokenDiscovery,
            /// File discovery.
            file: FileDiscovery,
            /// Look for so long, as a Go duration.
            timeout: String,
            /// Token for TLS bootstrap.
            #[schemars(length(min = 1, max = 512))]
            tls_bootstrap_token: String,
        }
    }

    /// Finding the cluster by a bootstrap token.
    BootstrapTokenDiscovery {
        optional {
            /// Endpoint to join.
            #[schemars(length(min = 1, max = 512))]
            api_server_endpoint: String,
            /// CA pins.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            ca_cert_hashes: Vec<String>,
            /// Join token; generated when empty.
            #[schemars(length(min = 1, max = 512))]
            token: String,
            /// Skip CA pinning.
            #[serde(rename = "unsafeSkipCAVerification")]
            unsafe_skip_ca_verification: bool,
        }
    }

    /// Finding the cluster by a kubeconfig on the node.
    FileDiscovery {
        required {
            /// Path of the kubeconfig on the node.
            #[schemars(length(min = 1, max = 512))]
            kube_config_path: String,
        }
        optional {
            /// Kubeconfig contents to write.
            kube_config: FileDiscoveryKubeConfig,
        }
    }

    /// A kubeconfig that is written for discovery.
    FileDiscoveryKubeConfig {
        required {
            /// User entry.
            user: KubeConfigUser,
        }
        optional {
            /// Cluster entry.
            cluster: KubeConfigCluster,
        }
    }

    /// Who the node is while it looks for the cluster.
    KubeConfigUser {
        optional {
            /// Legacy auth provider.
            auth_provider: KubeConfigAuthProvider,
            /// Exec credential plugin.
            exec: KubeConfigAuthExec,
        }
    }

    /// A program that gets credentials.
    KubeConfigAuthExec {
        required {
            /// Command.
            #[schemars(length(min = 1, max = 1024))]
            command: String,
        }
        optional {
            /// API version.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Arguments.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            args: Vec<String>,
            /// Environment.
            #[schemars(length(max = 100))]
            env: Vec<KubeConfigAuthExecEnv>,
            /// Pass cluster info.
            provide_cluster_info: bool,
        }
    }
}
