//! Arguments of the command `orphans`.

use std::path::PathBuf;

use apiserver_cli::ViewForm;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct OrphansArguments {
    /// Kubeconfig of Capstan's direct endpoint, or of the host cluster if that has the Secrets [default: $KUBECONFIG,
    /// else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// clouds.yaml with the login to the clouds [default: the Secrets that the objects name]
    #[arg(long, value_name = "FILE", requires = "cloud")]
    pub(crate) clouds: Option<PathBuf>,
    /// Entry of --clouds; can be repeated
    #[arg(long, value_name = "NAME", requires = "clouds")]
    pub(crate) cloud: Vec<String>,
    /// CA of the clouds in --clouds [default: the CAs of the system]
    #[arg(long, value_name = "FILE", requires = "clouds")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Host to which this command may connect with the credentials of Secrets, as in cloud.allowedEndpoints of the
    /// configuration; can be repeated [default: all but loopback, link-local and multicast addresses]
    #[arg(long, value_name = "HOST", conflicts_with = "clouds")]
    pub(crate) allowed_endpoint: Vec<String>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewForm::Table)]
    pub(crate) output: ViewForm,
}
