//! Arguments of `capstan kubeconfig`.

use std::path::PathBuf;
use std::time::Duration;

use apiserver_cli::ConnectionArguments;
use clap::{ArgGroup, Args};

use super::{duration, server};

/// Arguments of Capstan's own kubeconfig, which do not apply to that of a workload cluster.
const OWN_KUBECONFIG: [&str; 9] = [
    "config",
    "data_dir",
    "user",
    "group",
    "expires",
    "server",
    "certificate_authority",
    "break_glass",
    "reason",
];

/// Arguments that select the API server with the Cluster.
const CONNECTION: [&str; 3] = ["namespace", "kubeconfig", "context"];

#[derive(Debug, Args)]
pub(crate) struct KubeconfigArguments {
    /// File to write to instead of standard output; only its owner can read it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Kubeconfig of Capstan")]
    pub(crate) own: OwnKubeconfigArguments,
    #[command(flatten, next_help_heading = "Kubeconfig of a workload cluster")]
    pub(crate) workload: WorkloadKubeconfigArguments,
}

#[derive(Debug, Args)]
pub(crate) struct OwnKubeconfigArguments {
    /// The server's configuration file, with its data directory and its listen address
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// User name: the certificate's CN
    #[arg(long, default_value = "capstan-admin")]
    pub(crate) user: String,
    /// Group: an O of the certificate; repeat it for several groups, or leave it empty for none
    /// [default: capstan:admins]
    #[arg(long)]
    pub(crate) group: Vec<String>,
    /// Lifetime of the certificate, e.g. 30m, 8h, 30d; at most 365d
    #[arg(long, default_value = "12h", value_parser = duration)]
    pub(crate) expires: Duration,
    /// Put the user into system:masters, who may do everything whatever the roles say; for 24h at most
    #[arg(long, requires = "reason", conflicts_with = "group")]
    pub(crate) break_glass: bool,
    /// Reason of --break-glass, for the audit log and the Event of the first use
    #[arg(long, value_name = "TEXT", requires = "break_glass")]
    pub(crate) reason: Option<String>,
    /// URL of the server [default: from `listen` in --config, else https://127.0.0.1:7443]
    #[arg(long, value_name = "URL", value_parser = server)]
    pub(crate) server: Option<String>,
    /// File with the CA of the server's certificate, in PEM [default: the server's own CA, or that of the client's system if
    /// --config has tls.certFile]
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("connection").args(CONNECTION).multiple(true).requires("cluster")))]
pub(crate) struct WorkloadKubeconfigArguments {
    /// Name of the Cluster whose kubeconfig to print
    #[arg(long, value_name = "NAME", conflicts_with_all = OWN_KUBECONFIG)]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn flags_of_the_two_kubeconfigs_cannot_be_mixed() {
        let parse = |flags: &[&str]| Cli::try_parse_from([&["capstan", "kubeconfig"], flags].concat());
        for good in [&[][..], &["--user", "alice"], &["--cluster", "prod", "-n", "team", "--context", "c"]] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            &["--cluster", "prod", "--user", "alice"][..],
            &["--cluster", "prod", "--data-dir", "d"],
            &["--cluster", "prod", "--certificate-authority", "f"],
            &["-n", "team"],
            &["--kubeconfig", "f"],
            &["--cluster", "prod", "--break-glass", "--reason", "r"],
            &["--break-glass"],
            &["--reason", "r"],
            &["--break-glass", "--reason", "r", "--group", "dev"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
