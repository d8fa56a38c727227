//! Configuration file of the server, and the flags that override it.

mod addresses;
mod admission;
mod audit;
mod authentication;
mod backup;
mod backup_destination;
mod bootstrap_data;
mod clock;
mod cloud;
mod controllers;
mod host;
mod host_mirror;
mod identities;
mod keystone;
mod limits;
mod parts;
mod service_accounts;
mod shutdown;
mod system_masters;
mod tls;
mod token_webhook;
mod tracing;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_access::SystemMasters;
use serde::Deserialize;

use crate::cli::ServeArguments;

pub(crate) use addresses::{advertised_address, is_dns_name, listen_address, local_url};
pub(crate) use admission::Admission;
pub(crate) use audit::Audit;
pub(crate) use authentication::Authentication;
pub(crate) use backup::{Backup, Keep, Schedule};
pub(crate) use backup_destination::{Bucket, Container, Destination, S3, Swift};
pub(crate) use bootstrap_data::BootstrapData;
pub(crate) use clock::Clock;
pub(crate) use cloud::Cloud;
pub(crate) use controllers::Controllers;
pub(crate) use host::Host;
pub(crate) use host_mirror::MirrorSettings;
pub(crate) use identities::Identities;
pub(crate) use keystone::Keystone;
pub(crate) use limits::Limits;
pub(crate) use service_accounts::ServiceAccounts;
pub(crate) use shutdown::Shutdown;
pub(crate) use tls::{SniCertificate, Tls};
pub(crate) use tracing::Tracing;

/// Name of systemd's credential with the encryption at rest.
const ENCRYPTION: &str = "encryption.yaml";

/// Configuration of the server: `capstan.dev/v1alpha1 ServerConfiguration`. Unknown fields are errors.
///
/// ```yaml
/// apiVersion: capstan.dev/v1alpha1
/// kind: ServerConfiguration
/// dataDirectory: /var/lib/capstan
/// listen: 192.0.2.10:7443
/// storage:
///   etcd: {endpoints: [https://192.0.2.20:2379], caFile: ca.crt, certFile: client.crt, keyFile: client.key}
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ServerConfiguration {
    /// `capstan.dev/v1alpha1`.
    pub(crate) api_version: String,
    /// `ServerConfiguration`.
    pub(crate) kind: String,
    /// Directory for all state. Default: `$XDG_DATA_HOME/capstan`, else `~/.local/share/capstan`.
    pub(crate) data_directory: Option<PathBuf>,
    /// Address and port to serve on. Default: `127.0.0.1:7443`.
    pub(crate) listen: Option<String>,
    /// Store of the objects. Default: the embedded store in the data directory.
    pub(crate) storage: Storage,
    /// Your own serving certificate. Default: one signed by the server's own CA.
    pub(crate) tls: Option<Tls>,
    /// CAs whose certificates identify clients, in PEM. Default: the server's own CA.
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Certificate revocation lists of the CAs of client certificates, in PEM. Default: none.
    pub(crate) client_crl_file: Option<PathBuf>,
    /// Host cluster that serves Capstan's API groups. Default: none.
    pub(crate) host: Option<Host>,
    /// Keystone whose tokens identify users on the direct endpoint. Default: none.
    pub(crate) keystone: Option<Keystone>,
    /// File with the issuers whose tokens identify users on the direct endpoint, in the format of Kubernetes'
    /// `AuthenticationConfiguration`. Default: none.
    pub(crate) authentication_config_file: Option<PathBuf>,
    /// Settings of these issuers.
    pub(crate) authentication: Authentication,
    /// File with the authorizers of the direct endpoint and their order, in the format of Kubernetes'
    /// `AuthorizationConfiguration`. Default: none.
    pub(crate) authorization_config_file: Option<PathBuf>,
    /// Users to whom the group `system:masters` gives all permissions: `true` for all of them, `ownOnly` for those with a
    /// certificate of the server's own CAs, `false` for none. Default: `true`.
    #[serde(deserialize_with = "system_masters::read")]
    pub(crate) system_masters: SystemMasters,
    /// Tokens of Capstan's own service accounts.
    pub(crate) service_accounts: ServiceAccounts,
    /// File with the encryption at rest, in the format of Kubernetes' `EncryptionConfiguration`. Default:
    /// `encryption.yaml` among the credentials of systemd, else in the data directory. The first start creates the latter
    /// with a new key for Secrets.
    pub(crate) encryption_config_file: Option<PathBuf>,
    /// Additional names and addresses for the server's own certificate. Default: none.
    pub(crate) server_names: Vec<String>,
    /// Level and format of the logs.
    pub(crate) logging: Logging,
    /// Audit log of requests.
    pub(crate) audit: Audit,
    /// Export of traces. Default: none.
    pub(crate) tracing: Option<Tracing>,
    /// Limits on concurrent requests.
    pub(crate) limits: Limits,
    /// Permission to use OpenStackClusterIdentities.
    pub(crate) identities: Identities,
    /// Connections to clouds.
    pub(crate) cloud: Cloud,
    /// Webhook configurations and policies in files.
    pub(crate) admission: Admission,
    /// Timing of a graceful shutdown.
    pub(crate) shutdown: Shutdown,
    /// Trust in the clock of the machine.
    pub(crate) clock: Clock,
    /// Settings of the controllers.
    pub(crate) controllers: Controllers,
    /// Address from which machines fetch their bootstrap data. Default: none.
    pub(crate) bootstrap_data: Option<BootstrapData>,
    /// Key of backups, and the backups that the leader writes.
    pub(crate) backup: Backup,
    /// Flag `--force`: a store that was migrated to another one is used again.
    #[serde(skip)]
    pub(crate) force: bool,
}

/// Settings of the store.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Storage {
    /// Connection to an etcd. Default: the embedded store.
    pub(crate) etcd: Option<Etcd>,
    /// Time for which all replicas must run a release before its newest stored form is committed, e.g. `24h`. Default: 24h.
    pub(crate) form_delay: Option<String>,
    /// Time with a stored form that this release cannot read after which the server exits with code 78, e.g. `5m`.
    /// Default: 5m.
    pub(crate) form_timeout: Option<String>,
}

/// Time in which a server whose release cannot read the store reports that, before it exits. An operator sees it in the
/// readiness, and a service manager does not restart the server in a loop.
const FORM_TIMEOUT: Duration = Duration::from_mins(5);

/// Time in which an operator can go back to the last release without a downgrade of the values.
const FORM_DELAY: Duration = Duration::from_hours(24);

/// Connection to an etcd.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Etcd {
    /// Client URLs of its members. At least one.
    pub(crate) endpoints: Vec<String>,
    /// The CA of its serving certificates, in PEM. Default: none, for plain http.
    pub(crate) ca_file: Option<PathBuf>,
    /// Client certificate of Capstan, in PEM. Default: none.
    pub(crate) cert_file: Option<PathBuf>,
    /// Key of the client certificate, in PEM. Default: none.
    pub(crate) key_file: Option<PathBuf>,
    /// User of Capstan in etcd, if etcd authenticates by passwords. Default: none, or the name in the certificate.
    pub(crate) user: Option<String>,
    /// File with the password of that user. Default: none.
    pub(crate) password_file: Option<PathBuf>,
}

/// Level and format of the logs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Logging {
    /// `text` or `json`. Default: `text`.
    pub(crate) format: Option<String>,
    /// `error`, `warn`, `info`, `debug` or `trace`, or a filter such as `info,apiserver_http=debug`. Default: `info`.
    pub(crate) level: Option<String>,
}

impl ServerConfiguration {
    /// Reads the file, if there is one, and applies the flags to it.
    pub(crate) fn load(arguments: &ServeArguments) -> anyhow::Result<Self> {
        let mut configuration = match (&arguments.config, &arguments.config_dir) {
            (Some(path), Some(directory)) => parts::read(path, directory)?,
            (Some(path), None) => Self::read(path)?,
            (None, _) => Self::default(),
        };
        if let Some(directory) = &arguments.data_dir {
            configuration.data_directory = Some(directory.clone());
        }
        if let Some(listen) = &arguments.listen {
            configuration.listen = Some(listen.clone());
        }
        if !arguments.etcd_endpoints.is_empty() {
            let etcd = configuration.storage.etcd.get_or_insert_default();
            etcd.endpoints.clone_from(&arguments.etcd_endpoints);
        }
        if let Some(kubeconfig) = &arguments.host_kubeconfig {
            let host = configuration.host.get_or_insert_with(|| Host::new(kubeconfig));
            host.kubeconfig.clone_from(kubeconfig);
        }
        if let Some(format) = &arguments.log_format {
            configuration.logging.format = Some(format.clone());
        }
        configuration.use_credential();
        configuration.force = arguments.force;
        if let Some(delay) = &arguments.shutdown_delay {
            configuration.shutdown.delay = Some(delay.clone());
        }
        configuration.check()?;
        Ok(configuration)
    }

    /// Reads the file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = crate::pki::read(path)?;
        let mut configuration: Self =
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        configuration.check_head(path)?;
        configuration.use_credential();
        Ok(configuration)
    }

    /// Uses the credential of systemd, unless a file is configured. A command beside the service gets it by the variable.
    fn use_credential(&mut self) {
        if self.encryption_config_file.is_none() {
            self.encryption_config_file = credential(ENCRYPTION);
        }
    }

    /// Checks the version and the kind of a configuration that was read from this file.
    fn check_head(&self, path: &Path) -> anyhow::Result<()> {
        let (version, kind) = (&self.api_version, &self.kind);
        if version != "capstan.dev/v1alpha1" || kind != "ServerConfiguration" {
            bail!(
                "{}: expected apiVersion capstan.dev/v1alpha1 and kind ServerConfiguration, found {version:?} and {kind:?}",
                path.display()
            );
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        self.listen.as_deref().map_or(Ok(()), |listen| listen_address(listen).map(drop))?;
        self.storage.etcd.as_ref().map_or(Ok(()), |etcd| addresses::check_endpoints(&etcd.endpoints))?;
        self.host.as_ref().map_or(Ok(()), Host::check)?;
        self.keystone.as_ref().map_or(Ok(()), Keystone::check)?;
        self.authentication.check()?;
        self.audit.check()?;
        self.tracing.as_ref().map_or(Ok(()), Tracing::check)?;
        self.cloud.check()?;
        self.controllers.check()?;
        self.limits.check()?;
        self.service_accounts.check()?;
        self.shutdown.check()?;
        self.clock.check()?;
        self.tls.as_ref().map_or(Ok(()), Tls::check)?;
        addresses::check_server_names(&self.server_names)?;
        self.bootstrap_data.as_ref().map_or(Ok(()), BootstrapData::check)?;
        self.backup.check()?;
        match self.logging.format.as_deref() {
            None | Some("text" | "json") => Ok(()),
            Some(other) => bail!("logging.format: must be text or json, not {other:?}"),
        }
    }

    /// Returns the time for which the server keeps serving after a shutdown signal.
    pub(crate) fn shutdown_delay(&self) -> anyhow::Result<Duration> {
        self.shutdown.delay(self.storage.etcd.is_some())
    }

    /// Returns the time for which all replicas must run a release before its stored form is committed.
    ///
    /// # Errors
    /// A text that is no duration.
    pub(crate) fn form_delay(&self) -> anyhow::Result<Duration> {
        let given = parsed(self.storage.form_delay.as_deref()).context("storage.formDelay")?;
        Ok(given.unwrap_or(FORM_DELAY))
    }

    /// Returns the time with a stored form that this release cannot read after which the server exits.
    ///
    /// # Errors
    /// A text that is no duration.
    pub(crate) fn form_timeout(&self) -> anyhow::Result<Duration> {
        let given = parsed(self.storage.form_timeout.as_deref()).context("storage.formTimeout")?;
        Ok(given.unwrap_or(FORM_TIMEOUT))
    }

    /// Returns the time over which watches end after that.
    pub(crate) fn watch_grace(&self) -> anyhow::Result<Duration> {
        self.shutdown.watch_grace(self.storage.etcd.is_some())
    }

    /// Returns the directory for all state.
    pub(crate) fn data_directory(&self) -> anyhow::Result<PathBuf> {
        data_directory(self.data_directory.as_deref())
    }
}

fn parsed(duration: Option<&str>) -> anyhow::Result<Option<Duration>> {
    duration.map(|text| crate::cli::duration_or_none(text).map_err(anyhow::Error::msg)).transpose()
}

/// Returns the file of a credential that systemd passes to the service, if it does.
fn credential(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(directory).join(name)).filter(|path| path.exists())
}

/// Returns the given directory, or the default one of this user.
pub(crate) fn data_directory(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    if let Some(data) = std::env::var_os("XDG_DATA_HOME").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(data).join("capstan"));
    }
    match std::env::var_os("HOME").filter(|value| !value.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(".local/share/capstan")),
        None => bail!("cannot choose a data directory: HOME is not set; give --data-dir"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<ServerConfiguration> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ServerConfiguration::read(file.path())
    }

    /// Settings that are refused, with the begin of the error.
    const REFUSED: &[(&str, &str)] = &[
        ("audit: {omitStages: [Begun]}", "audit.omitStages: "),
        ("audit: {maxSizeMegabytes: 0}", "audit.maxSizeMegabytes: "),
        ("tracing: {samplingRatePerMillion: 1000001}", "tracing.samplingRatePerMillion: "),
        ("tracing: {endpoint: 'ftp://a'}", "tracing.endpoint: "),
        ("tracing: {endpoint: collector}", "tracing.endpoint: must be HOST:PORT"),
        ("tracing: {endpoint: 'a b:4317'}", "tracing.endpoint: must be HOST:PORT"),
        ("tracing: {endpoint: 'https://a:4317'}", "tracing.caFile: is required"),
        ("tracing: {caFile: a}", "tracing.caFile: "),
        ("audit: {enabled: false, policyFile: a}", "audit.enabled: "),
        ("audit: {enabled: false, chain: {enabled: true}}", "audit.enabled: "),
        ("audit: {webhook: {url: 'http://a'}}", "audit.webhook.url: "),
        ("audit: {webhook: {url: 'https://a', clientKeyFile: k}}", "audit.webhook.clientCertFile "),
        ("audit: {webhook: {url: 'https://a', batchMaxSize: 0}}", "audit.webhook.batchMaxSize: "),
        ("audit: {webhook: {url: 'https://a', batchMaxWait: soon}}", "audit.webhook.batchMaxWait: "),
        ("listen: localhost:7443", "listen: \"localhost:7443\" is not an IP address with a port"),
        ("listen: '7443'", "listen: "),
        ("storage: {etcd: {endpoints: []}}", "storage.etcd.endpoints: must name"),
        ("storage: {etcd: {endpoints: ['https://a', 'a b']}}", "storage.etcd.endpoints: \"a b\" is not"),
        ("serverNames: [a.example, 'a.example:7443']", "serverNames: \"a.example:7443\" is neither"),
        ("cloud: {allowedEndpoints: ['http://k']}", "cloud.allowedEndpoints: \"http://k\" is not"),
        ("limits: {readsAtOnce: 0}", "limits.readsAtOnce: "),
        ("limits: {goawayChance: 0.5}", "limits.goawayChance: "),
        (
            "tls: {certFile: a, keyFile: b, sniCertificates: [{certFile: c, keyFile: d, names: [a.*.b]}]}",
            "tls.sniCertificates[0].names: ",
        ),
        ("keystone: {authURL: 'http://k'}", "keystone.authURL: must begin with https://"),
        ("keystone: {authURL: k}", "keystone.authURL: "),
        (
            "keystone: {authURL: 'https://k', projectRoles: {member: ''}}",
            "keystone.projectRoles: role \"member\"",
        ),
        ("serviceAccounts: {maxTokenLifetime: 1m}", "serviceAccounts.maxTokenLifetime: must be at least"),
        ("serviceAccounts: {maxTokenLifetime: soon}", "serviceAccounts.maxTokenLifetime: "),
        ("serviceAccounts: {issuer: 'http://a'}", "serviceAccounts.issuer: "),
        ("backup: {name: 'a/b'}", "backup.name: "),
        ("backup: {keyFile: k, schedule: {every: soon, to: ['file:/a']}}", "backup.schedule.every: "),
        ("backup: {keyFile: k, schedule: {every: 59s, to: ['file:/a']}}", "backup.schedule.every: "),
        ("backup: {keyFile: k, schedule: {every: 1h}}", "backup.schedule.to: "),
        ("backup: {keyFile: k, schedule: {every: 1h, to: ['file:a']}}", "backup.schedule.to[0]: "),
        ("backup: {keyFile: k, schedule: {every: 1h, to: ['ftp://a']}}", "backup.schedule.to[0]: "),
        ("backup: {keyFile: k, schedule: {every: 1h, to: ['s3://a?key=b']}}", "backup.schedule.to[0]: "),
        ("backup: {keyFile: k, schedule: {every: 1h, to: ['swift://a']}}", "backup.swift.cloudsFile: "),
        ("backup: {schedule: {every: 1h, to: ['file:/a']}}", "backup.keyFile: "),
        ("shutdown: {delay: soon}", "shutdown.delay: "),
        ("clock: {acceptedAt: soon}", "clock.acceptedAt: "),
        ("bootstrapData: {listen: here, url: 'https://a'}", "bootstrapData.listen: "),
        ("bootstrapData: {listen: '0.0.0.0:7444', url: 'http://a'}", "bootstrapData.url: "),
        (
            "bootstrapData: {listen: '0.0.0.0:7444', url: 'https://a', certFile: a}",
            "bootstrapData.certFile: ",
        ),
        ("shutdown: {watchGrace: -1s}", "shutdown.watchGrace: "),
        ("controllers: {bootstrapTokenTTL: soon}", "controllers.bootstrapTokenTTL: "),
        ("controllers: {bootstrapTokenTTL: 59s}", "controllers.bootstrapTokenTTL: must be at least 60s"),
        ("controllers: {nodeLabels: ['(']}", "controllers.nodeLabels: "),
        ("controllers: {nodeAnnotations: ['']}", "controllers.nodeAnnotations: "),
        ("controllers: {interruptibleFlavors: ['[']}", "controllers.interruptibleFlavors: "),
        (
            "controllers: {namespaceWeights: {team-a: 0}}",
            "controllers.namespaceWeights: the weight of team-a must be from 1 to 100",
        ),
        ("controllers: {namespaceWeights: {A: 2}}", "controllers.namespaceWeights: no namespace can"),
        ("controllers: {workloadClient: {qps: 0}}", "controllers.workloadClient.qps: "),
        ("controllers: {workloadClient: {burst: 0}}", "controllers.workloadClient.burst: "),
        (
            "controllers: {workloadClient: {connectionGrace: soon}}",
            "controllers.workloadClient.connectionGrace: ",
        ),
        (
            "controllers: {workloadClient: {conditionsGrace: 1m}}",
            "controllers.workloadClient.conditionsGrace: ",
        ),
        (
            "controllers: {workloadClient: {connectionGrace: 6m}}",
            "controllers.workloadClient.conditionsGrace: must be at least 2m and longer",
        ),
    ];

    #[test]
    fn an_invalid_value_is_refused_with_the_name_of_its_field() {
        for (text, expected) in REFUSED {
            let text = format!("apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n{text}\n");
            let error = read(&text).unwrap().check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_default_delay_is_30_s_on_etcd_and_0_s_on_the_embedded_store() {
        let mut configuration = ServerConfiguration::default();
        assert_eq!(configuration.shutdown_delay().unwrap().as_secs(), 0);
        configuration.storage.etcd = Some(Etcd::default());
        assert_eq!(configuration.shutdown_delay().unwrap().as_secs(), 30);
        configuration.shutdown.delay = Some("0s".to_owned());
        assert_eq!(configuration.shutdown_delay().unwrap().as_secs(), 0);
    }

    #[test]
    fn r4_4_the_permission_to_use_identities_is_not_required_by_default() {
        let head = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
        assert!(!read(head).unwrap().identities.require_use);
        assert!(read(&format!("{head}identities: {{requireUse: true}}\n")).unwrap().identities.require_use);
    }

    #[test]
    fn tm_05_an_unset_permission_to_read_secrets_differs_from_one_that_is_switched_off() {
        let head = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
        let found = |text: &str| read(&format!("{head}{text}")).unwrap().identities.require_secret_read;
        assert_eq!(found(""), None);
        assert_eq!(found("identities: {requireUse: true}\n"), None);
        assert_eq!(found("identities: {requireSecretRead: false}\n"), Some(false));
        assert_eq!(found("identities: {requireSecretRead: true}\n"), Some(true));
    }

    #[test]
    fn an_error_names_the_misspelt_field() {
        let head = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
        assert!(read(head).is_ok());
        let error = read(&format!("{head}dataDirectry: /x\n")).unwrap_err().to_string();
        assert!(error.contains("dataDirectry"), "{error}");
        let error = read(&format!("{head}storage: {{etcd: {{endpoints: 7}}}}\n")).unwrap_err().to_string();
        assert!(error.contains("endpoints"), "{error}");
        let error = read("kind: Other\napiVersion: v1\n").unwrap_err().to_string();
        assert!(error.contains("ServerConfiguration"), "{error}");
    }
}
