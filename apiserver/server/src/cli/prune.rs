//! Arguments of the command `host prune-namespaces`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Default, Args)]
pub(crate) struct PruneNamespacesArguments {
    /// Namespaces whose objects to delete [default: all that the host cluster does not have]
    #[arg(value_name = "NAMESPACE")]
    pub(crate) namespaces: Vec<String>,
    /// Kubeconfig of Capstan's direct endpoint or of the host cluster [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Delete the objects. Without this, the command only prints them
    #[arg(long)]
    pub(crate) yes: bool,
}
