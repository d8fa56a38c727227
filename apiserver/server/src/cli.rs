//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// The management plane for Kubernetes clusters on OpenStack: the Cluster API, served from one
/// binary with its own storage, endpoint and identity.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the API
    ///
    /// With nothing given, serves on loopback from an embedded store, with certificates of its own
    /// making, and prints where everything lies:
    ///
    ///   DATA/store.redb*       the objects, and the journal of the newest writes
    ///   DATA/pki/              the CA, the serving certificate, their keys
    ///   DATA/encryption.yaml   the key that Secrets are encrypted with: back it up
    ///
    /// Example: capstan serve --data-dir /var/lib/capstan --listen 192.0.2.10:7443
    #[command(verbatim_doc_comment)]
    Serve(ServeArguments),
    /// Mint a client certificate and print a kubeconfig with it
    ///
    /// The certificate is signed by the server's own CA, so this runs where the data directory is.
    /// Group system:masters may do everything; anybody else may read discovery and health.
    ///
    /// Example: capstan kubeconfig --user alice --expires 8h --output alice.kubeconfig
    #[command(verbatim_doc_comment)]
    Kubeconfig(KubeconfigArguments),
    /// Connect a host cluster: manifests to apply there, and a wait until they work
    #[command(subcommand)]
    Host(HostCommand),
    /// Print the version
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Print everything a host applies to serve our groups through us
    ///
    /// Namespace, Service, permissions, CRD objects as metadata, and one APIService for each group
    /// and version, with the CA of our serving certificate.
    ///
    /// With --kubeconfig the host is looked at first: where it already serves one of the groups
    /// from CRDs of its own, those CRDs are left alone, and the patch that takes the group over
    /// and the command that gives it back are printed to standard error.
    ///
    /// Example: capstan host manifests --external-name 192.0.2.10 | kubectl apply -f -
    #[command(verbatim_doc_comment)]
    Manifests(ManifestsArguments),
    /// Wait until the host serves every API version through Capstan
    ///
    /// Run it after `capstan serve`, before the first kubectl apply: when an APIService says Available,
    /// the host's own proxy may still answer 503 for up to a second.
    ///
    /// Example: capstan host wait --kubeconfig admin.kubeconfig
    #[command(verbatim_doc_comment)]
    Wait(WaitArguments),
}

#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// A kubeconfig of the host
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Longest wait, e.g. 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ManifestsArguments {
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Host name or address where the host reaches us; without it, pods labelled app=capstan are selected
    #[arg(long, value_name = "NAME")]
    pub(crate) external_name: Option<String>,
    /// Port we serve on
    #[arg(long, default_value_t = 7443)]
    pub(crate) port: u16,
    /// Namespace of the Service
    #[arg(long, default_value = "capstan-system")]
    pub(crate) namespace: String,
    /// Name of the Service
    #[arg(long, default_value = "capstan")]
    pub(crate) service: String,
    /// The user that we are in the host: the one of --host-kubeconfig
    #[arg(long, default_value = "capstan")]
    pub(crate) user: String,
    /// A kubeconfig of the host, to look at what it has
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (kind ServerConfiguration); flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where everything lies [default: $XDG_DATA_HOME/capstan or ~/.local/share/capstan]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address and port to serve on [default: 127.0.0.1:7443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Store in this etcd instead of the embedded store; several endpoints with commas
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
    /// Serve a host cluster, too: a kubeconfig with our user in it (see `capstan host manifests`)
    #[arg(long, value_name = "FILE")]
    pub(crate) host_kubeconfig: Option<PathBuf>,
    /// How long to serve on after SIGTERM, not ready any more, e.g. 0s [default: 30s with etcd, else 0s]
    ///
    /// Whoever spreads requests over several servers needs that long to see that this one ends.
    /// SIGINT, and any second signal, cut it short.
    #[arg(long, value_name = "DURATION")]
    pub(crate) shutdown_delay: Option<String>,
    /// Form of log lines: text or json [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KubeconfigArguments {
    /// The server's configuration file, which says where its data directory is and where it listens
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// User name: the certificate's CN
    #[arg(long, default_value = "capstan-admin")]
    pub(crate) user: String,
    /// Group: the certificate's O
    #[arg(long, default_value = "system:masters")]
    pub(crate) group: String,
    /// How long the certificate is good, e.g. 30m, 8h, 365d
    #[arg(long, default_value = "365d", value_parser = duration)]
    pub(crate) expires: Duration,
    /// URL of the server [default: where it listens, else https://127.0.0.1:7443]
    #[arg(long, value_name = "URL", value_parser = server)]
    pub(crate) server: Option<String>,
    /// Write it to this file, which nobody else can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `https://host:port`: nothing else is served.
fn server(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let is_good = url.is_some_and(|url| {
        url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
    });
    if is_good {
        Ok(text.to_owned())
    } else {
        Err("must be a URL such as https://192.0.2.10:7443".to_owned())
    }
}

/// `30s`, or `0s` for none.
pub(crate) fn duration_or_none(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { duration(text) }
}

/// `30m`, `8h`, `365d`.
fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration such as 30m, 8h or 365d");
    let unit = text.chars().last().ok_or_else(error)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(error()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| error())?;
    let total = number.checked_mul(seconds).filter(|total| *total > 0);
    total.map(Duration::from_secs).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        for bad in ["", "8", "h", "-1h", "0s", "1w", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for good in ["https://192.0.2.10:7443", "https://[::1]:7443", "https://capstan.example"] {
            assert_eq!(server(good).as_deref(), Ok(good));
        }
        for bad in ["http://x", "127.0.0.1:1", "capstan.example", "https://", "https:///x", ""] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }
}
