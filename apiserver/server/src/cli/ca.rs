//! Arguments of the commands for certificates: `ca` and `certificates`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StoreArguments;
use crate::authorities::Purpose;

#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Create a CA in a data directory that has none
    ///
    /// The first start of `capstan serve` does this by itself. The command is for a store that has no
    /// CA, and a data directory whose CA is lost. It signs the serving certificate and all kubeconfigs
    /// from then on; those of the lost CA stop working. It replaces no CA.
    ///
    /// Example: capstan ca create --data-dir /var/lib/capstan
    #[command(verbatim_doc_comment)]
    Create(CaCreateArguments),
    /// Print the CAs, the phases of their rotations, and the users of their certificates
    ///
    /// With the embedded store, the running server answers this command. Its address is `listen` in --config.
    /// The next commands work while servers run only with etcd. The embedded store can be open only once:
    /// stop the server.
    ///
    /// Example: capstan ca status --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Status(StoreArguments),
    /// Begin a rotation: create a new CA that is trusted and signs nothing yet
    ///
    /// Example: capstan ca start --ca client --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Start(CaRotationArguments),
    /// Let the new CA sign. The old one is trusted still
    ///
    /// Clients that trust only the old CA of serving certificates lose their connection: give them the
    /// certificates of ConfigMap capstan-system/capstan-ca before.
    ///
    /// Example: capstan ca promote --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Promote(CaRotationArguments),
    /// End a rotation: the old CA is not trusted any more
    ///
    /// The command refuses this while certificates of the old CA are in use, and prints their users.
    ///
    /// Example: capstan ca finish --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Finish(CaFinishArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertificatesCommand {
    /// Print the client certificates that were issued or used, and have not ended
    ///
    /// With the embedded store, the running server answers the command. Its address is `listen` in --config.
    ///
    /// Example: capstan certificates list --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    List(StoreArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CaRotationArguments {
    /// CA to rotate; repeat it for several [default: all]
    #[arg(long, value_name = "CA")]
    pub(crate) ca: Vec<Purpose>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CaFinishArguments {
    #[command(flatten)]
    pub(crate) rotation: CaRotationArguments,
    /// End the access of users whose certificates of the old CA are in use
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CaCreateArguments {
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
}
