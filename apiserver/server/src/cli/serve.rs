//! Arguments of `capstan serve`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (kind ServerConfiguration); flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory with files *.conf, which are merged over --config in the order of their names
    ///
    /// Fields are merged one by one. Lists replace each other.
    #[arg(long, value_name = "DIRECTORY", requires = "config")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Directory for all state [default: $XDG_DATA_HOME/capstan or ~/.local/share/capstan]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address and port to serve on [default: 127.0.0.1:7443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Endpoints of an etcd to use instead of the embedded store, separated by commas
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
    /// Kubeconfig with Capstan's user in a host cluster, to serve that host, too (see `capstan host manifests`)
    #[arg(long, value_name = "FILE")]
    pub(crate) host_kubeconfig: Option<PathBuf>,
    /// Time to keep serving after SIGTERM while not ready, e.g. 0s [default: 30s with etcd, else 0s]
    ///
    /// A load balancer needs this time to notice that the replica is shutting down.
    /// SIGINT or a second signal ends it early.
    #[arg(long, value_name = "DURATION")]
    pub(crate) shutdown_delay: Option<String>,
    /// Format of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Use a store again whose objects were migrated to another one. All changes since then are missing
    #[arg(long)]
    pub(crate) force: bool,
}
