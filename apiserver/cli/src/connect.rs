//! Connection to an API server, chosen as kubectl chooses it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::{ExitCode, Failure, chain};

/// Longest wait for a connection. kubectl waits longer, but a server that is up accepts within milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for an answer. A list of thousands of objects needs seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Flags that select the server, the user and the namespace. They have the names and meanings of kubectl's.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectionArguments {
    /// Namespace of the Cluster [default: that of the context, else default]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Kubeconfig of Capstan or of the host cluster [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Client, and the namespace that it uses.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl ConnectionArguments {
    /// Creates a client. No request is sent yet.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let config = self.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Connection { client: client_of(config)?, namespace })
    }

    /// Reads the configuration of a client, with its limits of time.
    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        let mut config = match (&self.kubeconfig, &self.context) {
            (None, None) => Config::infer().await.map_err(|error| {
                let failure = Failure::new(ExitCode::Unreachable, "no kubeconfig was found");
                failure.detail("file", chain(&error)).next("set KUBECONFIG, or pass --kubeconfig FILE")
            })?,
            (Some(path), _) => self.configuration(Kubeconfig::read_from(path), Some(path)).await?,
            (None, Some(_)) => self.configuration(Kubeconfig::read(), None).await?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        Ok(config)
    }

    /// Creates a client for a command of another crate. No request is sent yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be read or used.
    pub async fn client(&self) -> Result<Client, Failure> {
        Ok(self.connect().await?.client)
    }

    async fn configuration(
        &self,
        read: Result<Kubeconfig, kube::config::KubeconfigError>,
        path: Option<&Path>,
    ) -> Result<Config, Failure> {
        let shown = path.map_or_else(|| "the kubeconfig".to_owned(), |path| path.display().to_string());
        let failure = |error: kube::config::KubeconfigError| {
            let failure = Failure::new(ExitCode::Unreachable, format!("cannot use {shown}"));
            let next = match self.context {
                Some(_) => "kubectl config get-contexts",
                None => "pass --kubeconfig with a file that kubectl can use",
            };
            failure.detail("file", chain(&error)).next(next)
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(read.map_err(&failure)?, &options).await.map_err(&failure)
    }
}

/// Creates a client. A plug-in for credentials in the kubeconfig runs now; no request is sent yet.
pub(crate) fn client_of(config: Config) -> Result<Client, Failure> {
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| {
        let failure = Failure::new(ExitCode::Unreachable, format!("cannot connect to {server}"));
        failure.detail("file", chain(&error))
    })
}
