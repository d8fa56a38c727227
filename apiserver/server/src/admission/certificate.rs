//! Client certificate for webhooks, reloaded while the server runs.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use apiserver_admission::Clients;
use apiserver_http::Check;

use crate::config::Admission;
use crate::pki;
use crate::reload_health::ReloadHealth;

/// Files of the client certificate.
#[derive(Debug)]
pub(super) struct ClientCertificate {
    certificate: PathBuf,
    key: PathBuf,
    /// Both files, as they are in force.
    last: String,
    health: ReloadHealth,
}

impl ClientCertificate {
    /// Reads the files and gives them to the clients; `None` if the configuration names none.
    ///
    /// # Errors
    /// A file is missing or not valid.
    pub(super) fn open(configuration: &Admission, clients: &Clients) -> anyhow::Result<Option<Self>> {
        let (certificate, key) = match (&configuration.client_cert_file, &configuration.client_key_file) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            _ => bail!("admission.clientCertFile and admission.clientKeyFile: set both or none"),
        };
        let mut files = Self { certificate, key, last: String::new(), health: ReloadHealth::default() };
        files.apply(clients).context("admission.clientCertFile")?;
        Ok(Some(files))
    }

    /// Returns the readiness check. It fails when the files have been unusable for five minutes.
    pub(super) fn check(&self) -> Check {
        self.health.check("admission-client-certificate")
    }

    /// Reads the files again. Bad ones change nothing. Returns true if the certificate changed.
    pub(super) fn reload(&mut self, clients: &Clients) -> bool {
        match self.apply(clients) {
            Ok(is_changed) => {
                self.health.succeed();
                is_changed
            }
            Err(error) => {
                let error = format!("{error:#}");
                if self.health.fail(&error, Instant::now()) {
                    tracing::error!(
                        error,
                        "the client certificate for webhooks is invalid; the last one stays in force"
                    );
                }
                false
            }
        }
    }

    fn apply(&mut self, clients: &Clients) -> anyhow::Result<bool> {
        let pem = format!("{}\n{}", pki::read(&self.certificate)?, pki::read(&self.key)?);
        if pem == self.last {
            return Ok(false);
        }
        let at = self.certificate.display();
        clients.set_certificate(&pem).map_err(|why| anyhow!("{at}: {why}"))?;
        self.last = pem;
        Ok(true)
    }
}
