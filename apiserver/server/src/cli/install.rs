//! Arguments of the commands for an installation: `init`, `join`, `join-token`, `doctor`, `leave` and `reset`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::install::{Balancer, StoreKind};

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Ask nothing: use the defaults of what the flags leave open
    #[arg(long)]
    pub(crate) yes: bool,
    /// Name of the installation [default: capstan]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Name of this node [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// IP address at which the other nodes and the clients reach this node
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Port of the API [default: 7443]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Other node, as NAME or NAME=ADDRESS; repeat it. The command prints a join token for each
    #[arg(long = "node", value_name = "NAME[=ADDRESS]", value_parser = node)]
    pub(crate) nodes: Vec<(String, Option<IpAddr>)>,
    /// Virtual address or DNS name of all nodes [default: none]
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    /// Place of the objects [default: etcd]
    #[arg(long, value_enum)]
    pub(crate) store: Option<StoreKind>,
    /// Endpoints of the etcd of --store external-etcd, separated by commas
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
    /// CA of that etcd
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// Client certificate of Capstan for that etcd
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_key: Option<PathBuf>,
    /// Kubeconfig with Capstan's user in a host cluster, to serve that host, too [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) host_kubeconfig: Option<PathBuf>,
    /// URL of Keystone, whose users may log in [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) keystone_url: Option<String>,
    /// CA of Keystone's certificate [default: the CAs of the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) keystone_ca: Option<PathBuf>,
    /// Run the services as static Pods of this node's kubelet, with this image of Capstan [default: as services of systemd]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) static_pod: Option<String>,
    /// Image of etcd, with --static-pod [default: that of kubeadm]
    #[arg(long, value_name = "IMAGE", requires = "static_pod")]
    pub(crate) etcd_image: Option<String>,
    /// File with the recovery key of an earlier installation, whose backup is then restored [default: a new key]
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_key_file: Option<PathBuf>,
    /// The program etcd [default: that of the package capstan-etcd, else the one in PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd: Option<PathBuf>,
    /// Folder below which all files are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Print the commands that start the services, instead of starting them
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Print the configuration of this program for the nodes, and do nothing else
    #[arg(long, value_enum)]
    pub(crate) print: Option<Balancer>,
    /// Network interface of the virtual address, for --print keepalived
    #[arg(long, default_value = "eth0")]
    pub(crate) interface: String,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArguments {
    /// URL of a node of the installation
    #[arg(value_name = "URL", value_parser = super::server)]
    pub(crate) server: String,
    /// Join token of `capstan init` or `capstan join-token create`. A join that continues needs none
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// IP address at which the other nodes and the clients reach this node [default: the one that reaches URL]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Name of this node [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// Run the services as static Pods of this node's kubelet, with this image of Capstan [default: as services of systemd]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) static_pod: Option<String>,
    /// Image of etcd, with --static-pod [default: that of kubeadm]
    #[arg(long, value_name = "IMAGE", requires = "static_pod")]
    pub(crate) etcd_image: Option<String>,
    /// The program etcd [default: that of the package capstan-etcd, else the one in PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd: Option<PathBuf>,
    /// Folder below which all files are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Print the commands that start the services, instead of starting them
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JoinTokenCommand {
    /// Create a join token, and print it
    ///
    /// One node can use it, within an hour. The store keeps only its hash.
    ///
    /// Example: capstan join-token create --node c
    #[command(verbatim_doc_comment)]
    Create(TokenCreateArguments),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArguments {
    /// Name of the node that the token is for [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Folder below which the files of this node are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub(crate) root: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// The server's configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/capstan/config.yaml")]
    pub(crate) config: PathBuf,
    /// Print the results as a JSON list
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArguments {
    /// Remove another node from etcd instead, by its name or address: one whose machine is lost
    #[arg(long, value_name = "NODE")]
    pub(crate) lost: Option<String>,
    #[command(flatten)]
    pub(crate) reset: ResetArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ResetArguments {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Folder below which the files of this node are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Parses `NAME` or `NAME=ADDRESS`.
fn node(text: &str) -> Result<(String, Option<IpAddr>), String> {
    let (name, address) = match text.split_once('=') {
        Some((name, address)) => {
            let parsed = address.parse().map_err(|_| format!("{address:?} is no IP address"))?;
            (name, Some(parsed))
        }
        None => (text, None),
    };
    match crate::install::is_node_name(name) {
        true => Ok((name.to_owned(), address)),
        false => Err(format!("{name:?} is no name of a node: use lower-case letters, digits and dashes")),
    }
}
