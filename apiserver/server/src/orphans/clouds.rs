//! Clouds of the command: one for each project and region that the credentials lead to.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use controllers_infrastructure::{Cloud, CloudConnector, Credentials};
use controllers_runtime::{ApiSecrets, read_credentials};
use kube::Client;

use super::objects::Objects;
use crate::cli::OrphansArguments;
use crate::pki;

/// Clouds, and the credentials that lead to none.
#[derive(Debug, Default)]
pub(super) struct Clouds {
    /// Each project once.
    pub(super) clouds: Vec<Arc<dyn Cloud>>,
    /// Credentials that cannot be read or used, with the reasons.
    pub(super) gaps: Vec<String>,
}

impl Clouds {
    /// Logs in with the credentials of the arguments, or with all that the objects name.
    ///
    /// # Errors
    /// A file of the arguments that cannot be read.
    pub(super) async fn of(
        client: &Client,
        connector: &dyn CloudConnector,
        objects: &Objects,
        arguments: &OrphansArguments,
    ) -> anyhow::Result<Self> {
        let mut clouds = Self::default();
        if let Some(file) = &arguments.clouds {
            for credentials in of_file(file, arguments)? {
                clouds.connect(connector, &format!("cloud {}", credentials.cloud_name), &credentials).await;
            }
            return Ok(clouds);
        }
        let secrets = ApiSecrets(client.clone());
        for (name, (namespace, identity)) in &objects.identities {
            match read_credentials(client, &secrets, namespace, identity).await {
                Ok(credentials) => clouds.connect(connector, name, &credentials).await,
                Err(error) => clouds.gaps.push(format!("{name}: {error}")),
            }
        }
        Ok(clouds)
    }

    async fn connect(&mut self, connector: &dyn CloudConnector, name: &str, credentials: &Credentials) {
        match connector.connect(credentials).await {
            Ok(cloud) => {
                let is_same = |known: &Arc<dyn Cloud>| {
                    (known.project(), known.region()) == (cloud.project(), cloud.region())
                };
                if !self.clouds.iter().any(is_same) {
                    self.clouds.push(cloud);
                }
            }
            Err(error) => self.gaps.push(format!("{name}: {error}")),
        }
    }
}

fn of_file(file: &Path, arguments: &OrphansArguments) -> anyhow::Result<Vec<Credentials>> {
    let clouds_yaml = pki::read(file).context("--clouds")?;
    let ca_certificate = arguments.ca_file.as_deref().map(pki::read).transpose().context("--ca-file")?;
    let credentials = arguments.cloud.iter().map(|cloud_name| Credentials {
        clouds_yaml: clouds_yaml.clone(),
        cloud_name: cloud_name.clone(),
        ca_certificate: ca_certificate.clone(),
        region: None,
        identity: None,
    });
    Ok(credentials.collect())
}
