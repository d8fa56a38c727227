//! Purposes of certificates: their Secrets, and their files on a control plane node.

use apiserver_types::ClusterConfiguration;

use super::PemPair;
use crate::setup::File;

/// Directory of the certificates on the node, if the user sets none. kubeadm's own value.
const DIRECTORY: &str = "/etc/kubernetes/pki";

/// Permissions of a file with a certificate.
const PUBLIC: &str = "0640";

/// Permissions of a file with a private key.
const PRIVATE: &str = "0600";

/// Purpose of a pair of certificate and key. The order is that of the files on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// CA of the cluster.
    ClusterCa,
    /// CA of etcd. With an external etcd, only its certificate is known.
    EtcdCa,
    /// CA of the front proxy.
    FrontProxyCa,
    /// Keys that sign service account tokens.
    ServiceAccount,
    /// Client certificate of the API server for an external etcd.
    ApiServerEtcdClient,
}

impl Purpose {
    /// Returns the purposes that a cluster needs. Only an external etcd needs a client certificate.
    pub fn all(configuration: Option<&ClusterConfiguration>) -> Vec<Self> {
        let mut all = vec![Self::ClusterCa, Self::EtcdCa, Self::FrontProxyCa, Self::ServiceAccount];
        all.extend(external(configuration).map(|_| Self::ApiServerEtcdClient));
        all
    }

    /// Returns the suffix of the Secret's name, after the name of the Cluster and a dash.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::ClusterCa => "ca",
            Self::EtcdCa => "etcd",
            Self::FrontProxyCa => "proxy",
            Self::ServiceAccount => "sa",
            Self::ApiServerEtcdClient => "apiserver-etcd-client",
        }
    }

    /// Returns true if the user must supply the pair: it is never generated.
    pub fn is_external(self, configuration: Option<&ClusterConfiguration>) -> bool {
        let of_etcd = matches!(self, Self::EtcdCa | Self::ApiServerEtcdClient);
        of_etcd && external(configuration).is_some()
    }

    /// Returns true if the pair may lack its private key: nothing is signed by the CA of an external etcd.
    pub fn may_lack_key(self, configuration: Option<&ClusterConfiguration>) -> bool {
        self == Self::EtcdCa && self.is_external(configuration)
    }

    /// Returns the paths of certificate and key on a node. A pair without a path for its key has no file for it.
    fn paths(self, configuration: Option<&ClusterConfiguration>) -> (String, Option<String>) {
        let set = configuration.and_then(|it| it.certificates_dir.as_deref());
        let directory = set.unwrap_or(DIRECTORY).trim_end_matches('/');
        let pair = |name: &str| (format!("{directory}/{name}.crt"), Some(format!("{directory}/{name}.key")));
        match (self, external(configuration)) {
            (Self::ClusterCa, _) => pair("ca"),
            (Self::EtcdCa, Some(etcd)) => (etcd.ca_file.clone(), None),
            (Self::EtcdCa, None) => pair("etcd/ca"),
            (Self::FrontProxyCa, _) => pair("front-proxy-ca"),
            (Self::ServiceAccount, _) => (format!("{directory}/sa.pub"), Some(format!("{directory}/sa.key"))),
            (Self::ApiServerEtcdClient, Some(etcd)) => (etcd.cert_file.clone(), Some(etcd.key_file.clone())),
            (Self::ApiServerEtcdClient, None) => pair("apiserver-etcd-client"),
        }
    }

    /// Returns the names of certificate and key among those that `kubeadm join` fetches. An external etcd has its own.
    pub(super) fn uploaded_names(
        self,
        configuration: Option<&ClusterConfiguration>,
    ) -> (&'static str, Option<&'static str>) {
        match (self, external(configuration)) {
            (Self::ClusterCa, _) => ("ca.crt", Some("ca.key")),
            (Self::EtcdCa, None) => ("etcd-ca.crt", Some("etcd-ca.key")),
            (Self::EtcdCa, Some(_)) => ("external-etcd-ca.crt", None),
            (Self::FrontProxyCa, _) => ("front-proxy-ca.crt", Some("front-proxy-ca.key")),
            (Self::ServiceAccount, _) => ("sa.pub", Some("sa.key")),
            (Self::ApiServerEtcdClient, _) => ("external-etcd.crt", Some("external-etcd.key")),
        }
    }

    /// Returns the files of a pair on a control plane node.
    pub fn files(self, pair: &PemPair, configuration: Option<&ClusterConfiguration>) -> Vec<File> {
        let (certificate, key) = self.paths(configuration);
        let mut files = vec![File::of_root(certificate, PUBLIC, pair.certificate.as_str())];
        let key = key.filter(|_| !pair.key.is_empty());
        files.extend(key.map(|path| File::of_root(path, PRIVATE, pair.key.as_str())));
        files
    }
}

fn external(configuration: Option<&ClusterConfiguration>) -> Option<&apiserver_types::ExternalEtcd> {
    configuration?.etcd.as_ref()?.external.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_where_kubeadm_and_an_external_etcd_expect_them() {
        let pair = PemPair { certificate: "c".to_owned(), key: "k".to_owned() };
        let files = |configuration: Option<&ClusterConfiguration>| -> Vec<String> {
            let all = Purpose::all(configuration);
            let files = all.into_iter().flat_map(|purpose| purpose.files(&pair, configuration));
            files.map(|file| format!("{} {}", file.path, file.permissions.unwrap())).collect()
        };
        let of = |name: &str| [format!("{name}.crt 0640"), format!("{name}.key 0600")];
        let directory = "/etc/kubernetes/pki";
        let mut expected = of(&format!("{directory}/ca")).to_vec();
        expected.extend(of(&format!("{directory}/etcd/ca")));
        expected.extend(of(&format!("{directory}/front-proxy-ca")));
        expected.extend([format!("{directory}/sa.pub 0640"), format!("{directory}/sa.key 0600")]);
        assert_eq!(files(None), expected);
        let external: ClusterConfiguration = serde_json::from_value(json!({"certificatesDir": "/pki/",
            "etcd": {"external": {"endpoints": ["https://e"], "caFile": "/e/ca", "certFile": "/e/crt", "keyFile": "/e/key"}}}))
        .unwrap();
        let found = files(Some(&external));
        assert_eq!(found[..3], ["/pki/ca.crt 0640", "/pki/ca.key 0600", "/e/ca 0640"]);
        assert_eq!(found[found.len() - 2..], ["/e/crt 0640", "/e/key 0600"]);
    }
}
