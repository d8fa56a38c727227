//! kubeadm discovery: settings by which a joining node finds and verifies its cluster.

use std::collections::BTreeMap;

use crate::object::wire;
use crate::scalar::Bytes;

wire! {
    /// Settings by which a joining node finds and verifies its cluster.
    Discovery {
        optional {
            /// Discovery by a bootstrap token. Mutually exclusive with `file`.
            #[schemars(extend("minProperties" = 1))]
            bootstrap_token: BootstrapTokenDiscovery,
            /// Discovery by a kubeconfig file. Mutually exclusive with `bootstrapToken`.
            file: FileDiscovery,
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
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(extend("minProperties" = 1))]
            user: KubeConfigUser,
        }
        optional {
            /// API server of the cluster. Default: the endpoint and the CA of the Cluster.
            #[schemars(extend("minProperties" = 1))]
            cluster: KubeConfigCluster,
        }
    }

    /// Cluster entry of the generated kubeconfig.
    KubeConfigCluster {
        optional {
            /// CA certificates that verify the API server, as PEM in base64. Default: the CA of the cluster.
            #[schemars(length(min = 1, max = 51200))]
            certificate_authority_data: Bytes,
            /// Verification of the API server's certificate. If true, it is skipped, which is insecure.
            /// Default: false.
            #[serde(rename = "insecureSkipTLSVerify")]
            insecure_skip_tls_verify: bool,
            /// URL of the proxy for all requests to the API server.
            #[serde(rename = "proxyURL")]
            #[schemars(length(min = 1, max = 512))]
            proxy_url: String,
            /// URL of the API server. Default: the control plane endpoint of the Cluster.
            #[schemars(length(min = 1, max = 512))]
            server: String,
            /// Host name that the API server's certificate is verified against. Default: the host of
            /// `server`.
            #[schemars(length(min = 1, max = 512))]
            tls_server_name: String,
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

    /// Authentication provider plugin that is built into the client.
    KubeConfigAuthProvider {
        required {
            /// Name of the plugin.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Settings of the plugin, as key-value pairs.
            config: BTreeMap<String, String>,
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
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            args: Vec<String>,
            /// Additional environment variables of the command.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            env: Vec<KubeConfigAuthExecEnv>,
            /// Cluster information for the command. If true, the environment variable `KUBERNETES_EXEC_INFO`
            /// contains it. Default: false.
            provide_cluster_info: bool,
        }
    }

    /// Environment variable of a credential program.
    KubeConfigAuthExecEnv {
        required {
            /// Name of the variable.
            #[schemars(length(min = 1, max = 512))]
            name: String,
            /// Value of the variable.
            #[schemars(length(min = 1, max = 512))]
            value: String,
        }
    }
}
