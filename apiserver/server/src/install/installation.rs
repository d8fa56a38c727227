//! Record of an installation: the settings that `capstan init` chose, and the node that has the record.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::static_pods::StaticPods;
use crate::config::is_dns_name;
use crate::pki;

/// Port at which clients reach the etcd of a node.
pub(crate) const ETCD_CLIENT: u16 = 2379;

/// Port at which the other nodes reach the etcd of a node.
pub(crate) const ETCD_PEER: u16 = 2380;

/// Longest name of a node: that of a label of DNS.
const LONGEST: usize = 63;

/// Place of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StoreKind {
    /// A file of this node, which stays the only one
    Embedded,
    /// An etcd with one member on each node
    Etcd,
    /// An etcd that you run
    ExternalEtcd,
}

/// Record of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Installation {
    /// Name of the installation.
    pub(crate) name: String,
    /// Name of this node.
    pub(crate) node: String,
    /// Address at which the other nodes and the clients reach this node.
    pub(crate) address: IpAddr,
    /// Port of the API.
    pub(crate) port: u16,
    /// Virtual address or DNS name of all nodes. Default: none.
    pub(crate) endpoint: Option<String>,
    pub(crate) store: StoreKind,
    /// URLs of an etcd that does not run on the nodes.
    pub(crate) etcd_endpoints: Vec<String>,
    /// True if Capstan also serves a host cluster.
    pub(crate) has_host: bool,
    /// Issuer of the tokens of service accounts: the same on all nodes.
    pub(crate) issuer: String,
    /// Client URLs of the members of etcd that were there before this one. The first node has none.
    pub(crate) peers: Vec<String>,
    /// Keystone whose users may log in. Absent in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keystone: Option<KeystoneLogin>,
    /// Images of the Pods that the kubelet of this node starts. Default: systemd starts the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) static_pods: Option<StaticPods>,
}

/// Keystone whose users may log in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeystoneLogin {
    /// URL of Keystone.
    pub(crate) url: String,
    /// True if the data directory has its CA. Default: the CAs of the system count.
    pub(crate) has_ca: bool,
}

impl Installation {
    /// CA of Keystone, in the data directory.
    pub(crate) const KEYSTONE_CA: &'static str = "keystone-ca.crt";

    /// Reads a record.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no record.
    pub(crate) fn read_file(path: &Path) -> anyhow::Result<Self> {
        serde_saphyr::from_str(&pki::read(path)?)
            .with_context(|| format!("{}: is no record of an installation", path.display()))
    }

    /// Returns the text of the record.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }

    /// Returns the names and addresses for the serving certificate of this node.
    pub(crate) fn server_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.endpoint.iter().cloned().collect();
        names.extend([self.node.clone(), self.address.to_string()]);
        names
    }

    /// Returns the URL at which clients reach the API.
    pub(crate) fn server(&self) -> String {
        let address = self.address.to_string();
        format!("https://{}:{}", bracketed(self.endpoint.as_deref().unwrap_or(&address)), self.port)
    }

    /// Reports whether Capstan has a certificate for an etcd that does not run on the nodes.
    pub(crate) fn uses_tls_for_etcd(&self) -> bool {
        self.etcd_endpoints.iter().any(|url| url.starts_with("https://"))
    }

    /// Returns the files of the data directory that all nodes share.
    pub(crate) fn shared_files(&self) -> Vec<&'static str> {
        let mut files = vec!["pki/ca.crt", "pki/ca.key", "encryption.yaml"];
        match self.store {
            StoreKind::Etcd => files.extend(["etcd/pki/ca.crt", "etcd/pki/ca.key"]),
            StoreKind::ExternalEtcd if self.uses_tls_for_etcd() => {
                files.extend(["etcd/client/ca.crt", "etcd/client/tls.crt", "etcd/client/tls.key"]);
            }
            StoreKind::Embedded | StoreKind::ExternalEtcd => {}
        }
        if self.has_host {
            files.push("host.kubeconfig");
        }
        if self.keystone.as_ref().is_some_and(|keystone| keystone.has_ca) {
            files.push(Self::KEYSTONE_CA);
        }
        files
    }

    /// Refuses settings that do not fit together. Errors name the flag.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for (flag, name) in [("--name", &self.name), ("--node-name", &self.node)] {
            if !is_node_name(name) {
                bail!(
                    "{flag}: {name:?} must have lower-case letters, digits and dashes only, and at most {LONGEST} of them"
                );
            }
        }
        if self.address.is_unspecified() {
            bail!("--address: {} is no address at which other machines reach this node", self.address);
        }
        if self.address.is_loopback() && self.store == StoreKind::Etcd {
            bail!("--address: other nodes cannot reach {}; give the address of a network", self.address);
        }
        let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
        let is_name = |text: &str| is_address(text) || (is_dns_name(text) && !text.starts_with("*."));
        if let Some(bad) = self.endpoint.as_deref().filter(|endpoint| !is_name(endpoint)) {
            bail!(
                "--endpoint: {bad:?} is neither an address nor a DNS name; give it without scheme and port"
            );
        }
        let is_of_etcd = matches!(self.port, ETCD_CLIENT | ETCD_PEER) && self.store == StoreKind::Etcd;
        if self.port == 0 || is_of_etcd {
            bail!(
                "--port: {} cannot be the port of the API; etcd has the ports {ETCD_CLIENT} and {ETCD_PEER}",
                self.port
            );
        }
        if (self.store == StoreKind::ExternalEtcd) == self.etcd_endpoints.is_empty() {
            bail!("--etcd-endpoints: give them with --store external-etcd, and only then");
        }
        let has_scheme = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        if let Some(bad) = self.etcd_endpoints.iter().find(|url| !has_scheme(url)) {
            bail!("--etcd-endpoints: {bad:?} is not a URL such as https://192.0.2.20:2379");
        }
        if self.static_pods.as_ref().is_some_and(|pods| pods.image.is_empty() || pods.etcd_image.is_empty()) {
            bail!("--static-pod: name the image of Capstan, and do not leave --etcd-image empty");
        }
        self.keystone.as_ref().map_or(Ok(()), KeystoneLogin::check)
    }
}

impl KeystoneLogin {
    /// Refuses a URL that the server would refuse: all who can read the network would see tokens that it gets by http.
    fn check(&self) -> anyhow::Result<()> {
        let url: Option<http::Uri> = self.url.parse().ok();
        let has_host = |url: &http::Uri| url.host().is_some_and(|host| !host.is_empty());
        match url.filter(|url| url.scheme_str() == Some("https") && has_host(url)) {
            Some(_) => Ok(()),
            None => bail!(
                "--keystone-url: {:?} is no URL with https, such as https://keystone.example.org:5000/v3",
                self.url
            ),
        }
    }
}

/// Reports whether a text can be the name of a node: a label of DNS.
pub(crate) fn is_node_name(text: &str) -> bool {
    let is_right = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !text.is_empty()
        && text.len() <= LONGEST
        && text.bytes().all(is_right)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns an IPv6 address with the brackets of a URL, and other texts unchanged.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Returns the URL at which the other members reach the etcd of a node.
pub(crate) fn peer_url(address: IpAddr) -> String {
    format!("https://{}:{ETCD_PEER}", bracketed(&address.to_string()))
}

/// Returns the URL at which clients reach the etcd of a node.
pub(crate) fn client_url(address: IpAddr) -> String {
    format!("https://{}:{ETCD_CLIENT}", bracketed(&address.to_string()))
}
