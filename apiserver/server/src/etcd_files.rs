//! Files with the credentials for etcd: certificates, and the password. They may change while the server runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use storage_etcd::{EtcdConfiguration, EtcdStore};
use tokio_util::sync::CancellationToken;

use crate::config::Etcd;
use crate::pki;
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;

/// Interval at which the files are read again.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Files of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct EtcdFiles {
    etcd: Etcd,
    /// True if data that were migrated to another store are served.
    accept_migrated: bool,
}

impl EtcdFiles {
    pub(crate) fn new(etcd: Etcd, accept_migrated: bool) -> Self {
        Self { etcd, accept_migrated }
    }

    /// Returns the client URLs of the members, for people.
    pub(crate) fn endpoints(&self) -> String {
        self.etcd.endpoints.join(", ")
    }

    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read, or that needs another one.
    pub(crate) fn read(&self) -> anyhow::Result<EtcdConfiguration> {
        let etcd = &self.etcd;
        let text = |field: &str, path: &Option<PathBuf>| {
            let named = || format!("storage.etcd.{field}");
            path.as_deref().map(|path| pki::read(path).with_context(named)).transpose()
        };
        let (certificate, key) = (text("certFile", &etcd.cert_file)?, text("keyFile", &etcd.key_file)?);
        if certificate.is_some() != key.is_some() {
            bail!("storage.etcd: certFile and keyFile must be set together");
        }
        let password = text("passwordFile", &etcd.password_file)?;
        let password = password.map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        if etcd.user.is_some() != password.is_some() {
            bail!("storage.etcd: user and passwordFile must be set together");
        }
        let ca = text("caFile", &etcd.ca_file)?;
        // Without a CA in it, each connection would fail, as if the certificate of etcd were wrong.
        let check = |field: &str, path: &Option<PathBuf>, pem: &Option<String>| match (path, pem) {
            (Some(path), Some(pem)) => {
                pki::certificates(pem, &format!("storage.etcd.{field}: {}", path.display())).map(drop)
            }
            _ => Ok(()),
        };
        check("caFile", &etcd.ca_file, &ca)?;
        check("certFile", &etcd.cert_file, &certificate)?;
        Ok(EtcdConfiguration {
            endpoints: etcd.endpoints.clone(),
            ca,
            identity: certificate.zip(key),
            user: etcd.user.clone().zip(password),
            accept_migrated: self.accept_migrated,
            ..EtcdConfiguration::default()
        })
    }

    /// Reads the files again and again until `shutdown`, and connects with the new credentials after each change. `used`
    /// are those of the present connections. While the files or the credentials are invalid, the last ones stay in force.
    pub(crate) async fn follow(
        self,
        store: EtcdStore,
        mut used: EtcdConfiguration,
        shutdown: CancellationToken,
    ) {
        let health = ReloadHealth::default();
        let mut rereads = Rereads::every(POLL_INTERVAL);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = rereads.next() => {}
            }
            match self.renew(&store, &used).await {
                Ok(renewed) => {
                    health.succeed();
                    if let Some(renewed) = renewed {
                        tracing::info!("credentials for etcd reloaded; new connections use them");
                        used = renewed;
                    }
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if health.fail(&error, Instant::now()) {
                        tracing::error!(
                            error,
                            "the credentials for etcd cannot be renewed; the last ones stay in force"
                        );
                    }
                }
            }
        }
    }

    /// Uses changed files. Returns the new configuration, or `None` if nothing changed.
    async fn renew(
        &self,
        store: &EtcdStore,
        used: &EtcdConfiguration,
    ) -> anyhow::Result<Option<EtcdConfiguration>> {
        let found = self.read()?;
        if !found.has_other_credentials(used) {
            return Ok(None);
        }
        store.renew(&found).await?;
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_text_of_its_file_without_the_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a secret \r\n").unwrap();
        let (user, password_file) = (Some("capstan".to_owned()), Some(file.path().to_owned()));
        let etcd = Etcd { user, password_file, ..Etcd::default() };
        let read = EtcdFiles::new(etcd.clone(), false).read().unwrap();
        assert_eq!(read.user, Some(("capstan".to_owned(), "a secret ".to_owned())));
        let error =
            EtcdFiles::new(Etcd { user: None, ..etcd.clone() }, false).read().unwrap_err().to_string();
        assert_eq!(error, "storage.etcd: user and passwordFile must be set together");
        EtcdFiles::new(Etcd { password_file: None, ..etcd }, false).read().unwrap_err();
    }

    #[test]
    fn an_error_of_a_file_names_its_field() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let error = |etcd: Etcd| format!("{:#}", EtcdFiles::new(etcd, false).read().unwrap_err());
        let found = error(Etcd { ca_file: Some(path.clone()), ..Etcd::default() });
        assert_eq!(found, format!("storage.etcd.caFile: {}: holds no certificate", path.display()));
        let found = error(Etcd { key_file: Some("/missing".into()), ..Etcd::default() });
        assert!(found.starts_with("storage.etcd.keyFile: /missing: cannot be read"), "{found}");
    }
}
