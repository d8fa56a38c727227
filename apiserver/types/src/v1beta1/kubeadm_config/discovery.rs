//! kubeadm discovery in v1beta1: settings by which a joining node finds and verifies its cluster.

use crate::kubeadm_config::{KubeConfigAuthExecEnv, KubeConfigAuthProvider, KubeConfigCluster};
use crate::object::wire;

wire! {
    /// Settings by which a joining node finds and verifies its cluster.
    Discovery {
        optional {
            /// Discovery by a bootstrap token. Mutually exclusive with `file`.
            bootstrap_token: BootstrapTokenDiscovery,
            /// Discovery by a kubeconfig file. Mutually exclusive with `bootstrapToken`.
            file: FileDiscovery,
            /// Maximum time for discovery, as a Go duration.
            timeout: String,
            /// Token of the kubelet's TLS bootstrap. Default: the discovery token.
            #[schemars(length(min = 1, max = 512))]
            tls_bootstrap_token: String,
        }
    }

    /// Discovery by a bootstrap token.
    BootstrapTokenDiscovery {
        optional {
            /// Address of the API server, as `host:port`. Default: the control plane endpoint of the Cluster.
            #[schemars(length(min = 1, max = 512))]
            api_server_endpoint: String,
            /// Hashes of accepted CA public keys, in the form `sha256:<hex>`. Default: the hashes of the
            /// cluster's CA.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            ca_cert_hashes: Vec<String>,
            /// Bootstrap token, in the form `id.secret`. If empty, the bootstrap controller generates a
            /// token.
            #[schemars(length(min = 1, max = 512))]
            token: String,
            /// Verification of the CA by `caCertHashes`. If true, the verification is skipped, which is
            /// insecure. Default: false.
            #[serde(rename = "unsafeSkipCAVerification")]
            unsafe_skip_ca_verification: bool,
        }
    }

    /// Discovery by a kubeconfig file on the node.
    FileDiscovery {
        required {
            /// Path of the kubeconfig on the node.
            #[schemars(length(min = 1, max = 512))]
            kube_config_path: String,
        }
        optional {
            /// Kubeconfig that is generated and written to `kubeConfigPath`.
            kube_config: FileDiscoveryKubeConfig,
        }
    }

    /// Kubeconfig that is generated for discovery.
    FileDiscoveryKubeConfig {
        required {
            /// Credentials of the node during discovery.
            user: KubeConfigUser,
        }
        optional {
            /// API server of the cluster. Default: the endpoint and the CA of the Cluster.
            cluster: KubeConfigCluster,
        }
    }

    /// Credentials of the node during discovery. `authProvider` and `exec` are mutually exclusive.
    KubeConfigUser {
        optional {
            /// Authentication provider plugin that is built into the client. Deprecated in Kubernetes.
            auth_provider: KubeConfigAuthProvider,
            /// Program that supplies credentials.
            exec: KubeConfigAuthExec,
        }
    }

    /// Program that supplies credentials.
    KubeConfigAuthExec {
        required {
            /// Command to run.
            #[schemars(length(min = 1, max = 1024))]
            command: String,
        }
        optional {
            /// API version of the ExecCredential object. Default: `client.authentication.k8s.io/v1`.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Arguments of the command.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            args: Vec<String>,
            /// Additional environment variables of the command.
            #[schemars(length(max = 100))]
            env: Vec<KubeConfigAuthExecEnv>,
            /// Cluster information for the command. If true, the environment variable `KUBERNETES_EXEC_INFO`
            /// contains it. Default: false.
            provide_cluster_info: bool,
        }
    }
}
