//! Authentication file: issuers whose JWTs identify users, reloaded while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_access::Authenticator;
use apiserver_http::Check;
use apiserver_oidc::{Configuration, Issuers};
use tokio_util::sync::CancellationToken;

use crate::config::{Authentication, ServerConfiguration};
use crate::pki;
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;

/// Interval at which the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The authentication file, and the authenticator that it configures.
#[derive(Debug)]
pub(crate) struct AuthenticationFile {
    path: PathBuf,
    last: String,
    settings: Authentication,
    authenticator: Arc<Authenticator>,
    issuers: Arc<Issuers>,
    /// Issuer of the server's own tokens, which the file may not name.
    own: String,
    health: ReloadHealth,
}

impl AuthenticationFile {
    /// Reads the file, if the configuration names one, and applies it.
    ///
    /// # Errors
    /// The file cannot be read or is not valid. The server then does not start.
    pub(crate) fn open(
        configuration: &ServerConfiguration,
        authenticator: &Arc<Authenticator>,
        issuers: Issuers,
        own: &str,
    ) -> anyhow::Result<Option<Self>> {
        let Some(path) = &configuration.authentication_config_file else { return Ok(None) };
        let mut file = Self {
            path: path.clone(),
            last: String::new(),
            settings: configuration.authentication.clone(),
            authenticator: Arc::clone(authenticator),
            issuers: Arc::new(issuers),
            own: own.to_owned(),
            health: ReloadHealth::default(),
        };
        let text = pki::read(path).context("authenticationConfigFile")?;
        file.apply(text)?;
        Ok(Some(file))
    }

    /// Returns the issuers, whose keys are fetched in the background.
    pub(crate) fn issuers(&self) -> Arc<Issuers> {
        Arc::clone(&self.issuers)
    }

    /// Returns the readiness check `authentication`. It fails when the file has been unusable for five minutes.
    pub(crate) fn check(&self) -> Check {
        self.health.check("authentication")
    }

    /// Applies the file after each change, until `shutdown`.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        let mut rereads = Rereads::every(POLL_INTERVAL);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = rereads.next() => {}
            }
            match self.reload() {
                Ok(false) => self.health.succeed(),
                Ok(true) => {
                    self.health.succeed();
                    tracing::info!(file = %self.path.display(), "the authentication file is reloaded");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if self.health.fail(&error, Instant::now()) {
                        tracing::error!(
                            error,
                            "the authentication file is invalid; the last one stays in force"
                        );
                    }
                }
            }
        }
    }

    /// Applies the file if it changed. Returns true if it did.
    fn reload(&mut self) -> anyhow::Result<bool> {
        let text = pki::read(&self.path)?;
        if text == self.last {
            return Ok(false);
        }
        self.apply(text).map(|()| true)
    }

    fn apply(&mut self, text: String) -> anyhow::Result<()> {
        let at = || self.path.display().to_string();
        let configuration = Configuration::parse(&text, &[self.own.as_str()]).with_context(at)?;
        if let Some(warning) = &configuration.warning {
            tracing::warn!(file = at(), "{warning}");
        }
        let anonymous = configuration.anonymous.clone();
        let issuers = self.issuers.apply(configuration, |url| self.settings.of(url)).with_context(at)?;
        self.authenticator.set_issuers(issuers);
        match anonymous {
            Some(anonymous) => self.authenticator.set_anonymous_paths(anonymous.paths()),
            None => self.authenticator.set_default_anonymous_paths(),
        }
        self.last = text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    fn open(text: &str) -> anyhow::Result<(tempfile::NamedTempFile, AuthenticationFile)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let configuration = ServerConfiguration {
            authentication_config_file: Some(file.path().to_owned()),
            ..ServerConfiguration::default()
        };
        let opened =
            AuthenticationFile::open(&configuration, &Arc::default(), Issuers::default(), "https://own")?;
        Ok((file, opened.unwrap()))
    }

    #[test]
    fn an_invalid_file_is_refused_at_the_start_and_changes_nothing_later() {
        let error = format!("{:#}", open("kind: Other").map(|_| ()).unwrap_err());
        assert!(error.contains("apiVersion"), "{error}");
        let error = format!("{:#}", open(&format!("{HEAD}jwt: [{{}}]")).map(|_| ()).unwrap_err());
        assert!(error.contains("jwt[0].issuer.url: Required value"), "{error}");
        let (file, mut opened) = open(&format!("{HEAD}anonymous: {{enabled: false}}\n")).unwrap();
        let admits = |opened: &AuthenticationFile| opened.authenticator.admits_anonymous("/version");
        assert!(!admits(&opened) && !opened.reload().unwrap());
        std::fs::write(file.path(), format!("{HEAD}anonymous: {{enabled: maybe}}\n")).unwrap();
        assert!(opened.reload().is_err() && opened.reload().is_err() && !admits(&opened));
        let paths = "anonymous: {enabled: true, conditions: [{path: /version}]}";
        std::fs::write(file.path(), format!("{HEAD}{paths}\n")).unwrap();
        assert!(opened.reload().unwrap() && admits(&opened));
        assert!(!opened.authenticator.admits_anonymous("/healthz"));
        std::fs::write(file.path(), HEAD).unwrap();
        assert!(opened.reload().unwrap() && opened.authenticator.admits_anonymous("/healthz"));
        assert!(admits(&opened) && !opened.authenticator.admits_anonymous("/apis"), "the default");
        std::fs::write(file.path(), format!("{HEAD}anonymous: {{enabled: true}}\n")).unwrap();
        assert!(opened.reload().unwrap() && opened.authenticator.admits_anonymous("/apis"));
    }
}
