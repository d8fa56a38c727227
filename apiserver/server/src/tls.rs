//! TLS files and CAs of the server, reloaded while it runs.

mod ends;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_host::FrontProxy;
use apiserver_http::{Check, NamedCertificate, ReloadableTls, TlsMaterial};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::ends::CertificateEnds;
use crate::authorities::{Known, Purpose};
use crate::config::{ServerConfiguration, SniCertificate};
use crate::pki::{self, Authority};
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;

/// Interval at which the files are checked for changes. Certificates are renewed hours before the old one expires.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Sources of the TLS settings.
pub(crate) struct Sources {
    pub(crate) configuration: ServerConfiguration,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// Listen address, which the server's own certificate is valid for.
    pub(crate) listen: SocketAddr,
    /// The server's own CAs.
    pub(crate) authorities: watch::Receiver<Known>,
    /// Front-proxy configuration of the host cluster, if there is one.
    pub(crate) front_proxy: Option<watch::Receiver<FrontProxy>>,
}

/// Contents of the sources, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct PemTexts {
    chain: String,
    key: String,
    named: Vec<NamedPemText>,
    client_cas: String,
    request_header_cas: Option<String>,
    /// CAs of the host's users; empty if their certificates are not accepted.
    host_cas: String,
}

/// Certificate for certain names, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct NamedPemText {
    /// Server names. If empty, the names in the certificate are used.
    names: Vec<String>,
    chain: String,
    key: String,
}

/// The server's own CA of serving certificates, and the CAs of clients.
struct OwnAuthorities {
    serving: Arc<Authority>,
    client_cas: String,
    /// CAs of machines; empty while the CAs of the store are unknown.
    machine_cas: String,
}

/// TLS settings that are reloaded when their sources change.
pub(crate) struct TlsFiles {
    sources: Sources,
    /// CA until the CAs of the store are known.
    temporary: Option<Temporary>,
    tls: Arc<ReloadableTls>,
    last: PemTexts,
    health: ReloadHealth,
    /// Number of client CAs that are not used, because they are CAs of front proxies, too.
    shared_cas: Gauge,
    ends: CertificateEnds,
}

/// CA of a server that does not know the CAs of the store yet. No client has a certificate of it.
struct Temporary {
    authority: Arc<Authority>,
    /// The data directory has no CA either, so that it signs the serving certificate.
    serves: bool,
}

impl Temporary {
    fn new(data: &Path) -> anyhow::Result<Self> {
        // The file of the certificate alone is a copy of one in the store.
        let has_one = !Authority::is_missing(data) && data.join("pki/ca.key").exists();
        Ok(Self { authority: Arc::new(Authority::temporary(data)?), serves: !has_one })
    }
}

/// Outcome of a reload.
#[derive(Debug, PartialEq, Eq)]
enum Reload {
    Unchanged,
    Replaced,
    /// The sources are invalid. The last settings stay in force.
    Unusable(String),
}

impl Sources {
    /// Reads the sources for the first time.
    pub(crate) fn open(self) -> anyhow::Result<TlsFiles> {
        let is_unknown = self.authorities.borrow().authorities.is_none();
        let temporary = is_unknown.then(|| Temporary::new(&self.data)).transpose()?;
        let last = self.read(temporary.as_ref())?;
        let tls = ReloadableTls::new(last.material()?)
            .map_err(|error| anyhow::anyhow!("cannot set up TLS: {error}"))?;
        let (health, shared_cas, ends) = Default::default();
        let files = TlsFiles { sources: self, temporary, tls: Arc::new(tls), last, health, shared_cas, ends };
        files.report_shared_cas();
        files.report_ends();
        Ok(files)
    }

    /// Reads the sources. Renews the server's own certificate if it expires soon. A CA that is missing is an error: a
    /// new one would end every kubeconfig.
    fn read(&self, temporary: Option<&Temporary>) -> anyhow::Result<PemTexts> {
        let own = self.own_authorities(temporary)?;
        let (chain, key) = match &self.configuration.tls {
            Some(tls) => (pki::read(&tls.cert_file)?, pki::read(&tls.key_file)?),
            None => {
                let pair = own.serving.serving(&self.names())?;
                // A node that joins finds the CA in the chain, by the hash in its token.
                (format!("{}{}", pair.certificate, own.serving.certificate()), pair.key)
            }
        };
        let named = match &self.configuration.tls {
            Some(tls) => tls.sni_certificates.iter().map(NamedPemText::read).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let client_cas = match &self.configuration.client_ca_file {
            Some(path) => pki::read(path)?,
            None => own.client_cas,
        };
        let client_cas = format!("{}\n{}", client_cas.trim_end(), own.machine_cas);
        let request_header_cas = self.front_proxy.as_ref().map(|proxy| proxy.borrow().ca.clone());
        Ok(PemTexts { chain, key, named, client_cas, request_header_cas, host_cas: self.host_cas() })
    }

    /// Returns the CAs of the host's users, if the configuration accepts their certificates. Those that cannot be read are
    /// not used, and change nothing else.
    fn host_cas(&self) -> String {
        let is_wanted = self.configuration.host.as_ref().is_some_and(|host| host.client_certificates);
        let Some(proxy) = self.front_proxy.as_ref().filter(|_| is_wanted) else { return String::new() };
        let cas = proxy.borrow().client_ca.clone();
        match pki::certificates(&cas, "the host's CA for clients") {
            Ok(_) => cas,
            Err(error) if !cas.is_empty() => {
                tracing::error!("{error:#}; client certificates of the host get 401");
                String::new()
            }
            Err(_) => String::new(),
        }
    }

    /// Returns the CAs of the store, or that of the data directory while the store has not answered.
    fn own_authorities(&self, temporary: Option<&Temporary>) -> anyhow::Result<OwnAuthorities> {
        if let Some(found) = &self.authorities.borrow().authorities {
            let serving = Arc::new(found.signer(Purpose::Serving, &self.data)?);
            let (client_cas, machine_cas) = (found.bundle(Purpose::Client), found.bundle(Purpose::Machine));
            return Ok(OwnAuthorities { serving, client_cas, machine_cas });
        }
        let serving = match temporary {
            Some(temporary) if temporary.serves => Arc::clone(&temporary.authority),
            _ => Arc::new(Authority::read(&self.data)?),
        };
        // The store may have ended the trust in the CA of the directory. If the store answers, and only its CAs cannot be
        // read, no client may use that one.
        let client_cas = match temporary {
            Some(temporary) if self.authorities.borrow().has_answered => temporary.authority.certificate(),
            _ => serving.certificate(),
        };
        let client_cas = client_cas.to_owned();
        Ok(OwnAuthorities { serving, client_cas, machine_cas: String::new() })
    }

    /// Returns the names for the server's own certificate.
    fn names(&self) -> Vec<String> {
        let mut names = vec!["127.0.0.1".to_owned(), "::1".to_owned(), "localhost".to_owned()];
        if !self.listen.ip().is_unspecified() {
            names.push(self.listen.ip().to_string());
        }
        let hosts = self.configuration.host.iter();
        names.extend(hosts.map(|host| format!("{}.{}.svc", host.service_name, host.service_namespace)));
        names.extend(self.configuration.server_names.iter().cloned());
        names.sort();
        names.dedup();
        names
    }
}

impl NamedPemText {
    fn read(configured: &SniCertificate) -> anyhow::Result<Self> {
        let SniCertificate { cert_file, key_file, names } = configured;
        Ok(Self { names: names.clone(), chain: pki::read(cert_file)?, key: pki::read(key_file)? })
    }

    fn material(&self) -> anyhow::Result<NamedCertificate> {
        let chain = pki::certificates(&self.chain, "a certificate in tls.sniCertificates")?;
        let names = if self.names.is_empty() { pki::names(&chain)? } else { self.names.clone() };
        Ok(NamedCertificate { names, chain, key: pki::key(&self.key, "a key in tls.sniCertificates")? })
    }
}

impl PemTexts {
    fn material(&self) -> anyhow::Result<TlsMaterial> {
        let request_header_cas = match self.request_header_cas.as_ref().filter(|ca| !ca.is_empty()) {
            Some(ca) => pki::certificates(ca, "the host's front-proxy CA")?,
            None => Vec::new(),
        };
        let host_cas = match self.host_cas.as_str() {
            "" => Vec::new(),
            cas => pki::certificates(cas, "the host's CA for clients")?,
        };
        Ok(TlsMaterial {
            host_cas,
            chain: pki::certificates(&self.chain, "the serving certificate")?,
            key: pki::key(&self.key, "the serving key")?,
            named: self.named.iter().map(NamedPemText::material).collect::<Result<_, _>>()?,
            client_cas: pki::certificates(&self.client_cas, "the CA of clients")?,
            request_header_cas,
        })
    }
}

impl TlsFiles {
    /// Registers the metrics of the files.
    pub(crate) fn register(&self, metrics: &mut Registry) {
        metrics.register(
            "capstan_ca_in_two_pools",
            "Client CAs that are not used, because they are CAs of front proxies, too",
            self.shared_cas.clone(),
        );
        self.ends.register(metrics);
    }

    /// Reports the ends of the certificates that are in force.
    fn report_ends(&self) {
        let named: String = self.last.named.iter().map(|named| named.chain.as_str()).collect();
        self.ends.set("serving", Some(&self.last.chain));
        self.ends.set("serving-sni", Some(&named));
        let etcd = self.sources.configuration.storage.etcd.as_ref();
        let etcd = etcd.and_then(|etcd| pki::read(etcd.cert_file.as_ref()?).ok());
        self.ends.set("etcd-client", etcd.as_deref());
        let known = self.sources.authorities.borrow().authorities.clone();
        for (name, purpose) in [
            ("serving-ca", Purpose::Serving),
            ("client-ca", Purpose::Client),
            ("machine-ca", Purpose::Machine),
        ] {
            let signing = known.as_ref().and_then(|known| known.signing_certificate(purpose));
            self.ends.set(name, signing);
        }
    }

    /// Reports the CAs that are in both pools. A certificate of such a CA could pose as the front proxy.
    fn report_shared_cas(&self) {
        let shared = self.tls.shared_cas();
        self.shared_cas.set(i64::try_from(shared.len()).unwrap_or(i64::MAX));
        if !shared.is_empty() {
            tracing::error!(
                cas = shared.join("; "),
                "a client CA has the key of a front-proxy CA of the host cluster; its client certificates get 401. Use \
                 another CA in clientCaFile, or set host.clientCertificates: false if it is the host's CA for clients"
            );
        }
    }

    /// Returns the settings to serve with.
    pub(crate) fn tls(&self) -> Arc<ReloadableTls> {
        Arc::clone(&self.tls)
    }

    /// Returns the readiness check `pki`. It fails when the sources have been unusable for five minutes.
    pub(crate) fn check(&self) -> Check {
        self.health.check("pki")
    }

    /// Reloads the sources after each change, until `shutdown`. New connections use the new serving certificates. New CAs
    /// apply to open connections, too.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        let mut front_proxy = self.sources.front_proxy.clone();
        let mut authorities = self.sources.authorities.clone();
        authorities.mark_changed();
        let mut rereads = Rereads::every(POLL_INTERVAL);
        loop {
            let proxy_changed = async {
                match &mut front_proxy {
                    Some(front_proxy) if front_proxy.has_changed().is_ok() => {
                        let _ = front_proxy.changed().await;
                    }
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = proxy_changed => {}
                Ok(()) = authorities.changed() => {}
                () = rereads.next() => {}
            }
            match self.reload() {
                Reload::Unchanged => {}
                Reload::Replaced => tracing::info!(
                    "TLS files or CAs reloaded; new connections use the certificates, and all requests the CAs"
                ),
                Reload::Unusable(error) => {
                    tracing::error!(error, "TLS files or CAs are invalid; the last ones stay in force");
                }
            }
        }
    }

    /// Applies the sources if they changed and are valid. A certificate and its key are two files. After only one of
    /// them was written, they do not match, and a later reload succeeds. The same error is returned once per minute.
    fn reload(&mut self) -> Reload {
        let read = self.sources.read(self.temporary.as_ref());
        let replaced = read.and_then(|texts| {
            if texts == self.last {
                return Ok(false);
            }
            self.tls
                .replace(texts.material()?)
                .map_err(anyhow::Error::msg)
                .context("certificate, key and CAs do not match")?;
            self.last = texts;
            self.report_shared_cas();
            Ok(true)
        });
        let error = self.sources.authorities.borrow().error.clone();
        let replaced = match (replaced, error) {
            (Ok(false), Some(error)) => Err(anyhow::Error::msg(error).context("the server's own CAs")),
            (replaced, _) => replaced,
        };
        self.report_ends();
        match replaced {
            Ok(is_new) => {
                self.health.succeed();
                if is_new { Reload::Replaced } else { Reload::Unchanged }
            }
            Err(error) => {
                let error = format!("{error:#}");
                if self.health.fail(&error, Instant::now()) {
                    Reload::Unusable(error)
                } else {
                    Reload::Unchanged
                }
            }
        }
    }
}
