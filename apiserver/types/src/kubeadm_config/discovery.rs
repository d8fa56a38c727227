//! kubeadm: how a joining node finds its cluster.

use std::collections::BTreeMap;

use crate::object::wire;
use crate::scalar::Bytes;

wire! {
    /// How a node finds the cluster it joins.
    Discovery {
        optional {
            /// Token discovery.
            #[schemars(extend("minProperties" = 1))]
            bootstrap_token: BootstrapTokenDiscovery,
            /// File discovery.
            file: FileDiscovery,
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
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(extend("minProperties" = 1))]
            user: KubeConfigUser,
        }
        optional {
            /// Cluster entry.
            #[schemars(extend("minProperties" = 1))]
            cluster: KubeConfigCluster,
        }
    }

    /// The cluster as the kubeconfig names it.
    KubeConfigCluster {
        optional {
            /// Certificates of the authority, PEM in base64.
            #[schemars(length(min = 1, max = 51200))]
            certificate_authority_data: Bytes,
            /// Skip TLS verification.
            #[serde(rename = "insecureSkipTLSVerify")]
            insecure_skip_tls_verify: bool,
            /// Proxy.
            #[serde(rename = "proxyURL")]
            #[schemars(length(min = 1, max = 512))]
            proxy_url: String,
            /// API server URL.
            #[schemars(length(min = 1, max = 512))]
            server: String,
            /// SNI name.
            #[schemars(length(min = 1, max = 512))]
            tls_server_name: String,
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

    /// An old style plugin that gets credentials.
    KubeConfigAuthProvider {
        required {
            /// Object name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Provider settings.
            config: BTreeMap<String, String>,
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
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            args: Vec<String>,
            /// Environment.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            env: Vec<KubeConfigAuthExecEnv>,
            /// Pass cluster info.
            provide_cluster_info: bool,
        }
    }

    /// An environment variable of that program.
    KubeConfigAuthExecEnv {
        required {
            /// Object name.
            #[schemars(length(min = 1, max = 512))]
            name: String,
            /// Value.
            #[schemars(length(min = 1, max = 512))]
            value: String,
        }
    }
}
