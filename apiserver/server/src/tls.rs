//! TLS files and CAs of the server, reloaded while it runs.

mod ends;
#[cfg(test)]
mod tests;
mod texts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_host::FrontProxy;
use apiserver_http::{Check, ReloadableTls};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::ends::CertificateEnds;
use self::texts::{
    FrontProxyTexts, NamedPemText, PemTexts, ServingTexts, check_client_cas, check_client_crls, or_last,
};
use crate::authorities::{Known, Purpose};
use crate::config::ServerConfiguration;
use crate::pki::{self, Authority};
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;
use crate::revocations::RevocationMetrics;

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
    revocations: RevocationMetrics,
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
    /// Some sources are invalid. Their last settings stay in force.
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
        let (tls, health, shared_cas) = (Arc::new(tls), ReloadHealth::default(), Gauge::default());
        let (ends, revocations) = Default::default();
        let files = TlsFiles { sources: self, temporary, tls, last, health, shared_cas, ends, revocations };
        files.report_shared_cas();
        files.report_ends();
        Ok(files)
    }

    /// Reads the sources. Renews the server's own certificate if it expires soon. A CA that is missing is an error: a
    /// new one would end every kubeconfig.
    fn read(&self, temporary: Option<&Temporary>) -> anyhow::Result<PemTexts> {
        let serving = self.serving(temporary)?;
        self.check_serving(&serving)?;
        let (client_cas, client_crls) = (self.client_cas(temporary)?, self.client_crls()?);
        check_client_cas(&client_cas)?;
        check_client_crls(&client_crls, &client_cas)?;
        Ok(PemTexts { serving, client_cas, client_crls, front_proxy: self.front_proxy() })
    }

    /// Reads the sources again. Those that cannot be used are as they were last, and the errors say why.
    fn read_usable(&self, temporary: Option<&Temporary>, last: &PemTexts) -> (PemTexts, Vec<anyhow::Error>) {
        let mut errors = Vec::new();
        let check = |serving: &ServingTexts| self.check_serving(serving);
        let serving = or_last(self.serving(temporary), &last.serving, check, &mut errors);
        let client_cas = self.client_cas(temporary);
        let client_cas = or_last(client_cas, &last.client_cas, |cas| check_client_cas(cas), &mut errors);
        let check = |crls: &String| check_client_crls(crls, &client_cas);
        let client_crls = or_last(self.client_crls(), &last.client_crls, check, &mut errors);
        let front_proxy = Ok(self.front_proxy());
        let front_proxy = or_last(front_proxy, &last.front_proxy, FrontProxyTexts::check, &mut errors);
        (PemTexts { serving, client_cas, client_crls, front_proxy }, errors)
    }

    /// Reads the serving certificates.
    fn serving(&self, temporary: Option<&Temporary>) -> anyhow::Result<ServingTexts> {
        let Some(tls) = &self.configuration.tls else {
            let authority = self.serving_authority(temporary)?;
            let pair = authority.serving(&self.names())?;
            // A node that joins finds the CA in the chain, by the hash in its token.
            let chain = format!("{}{}", pair.certificate, authority.certificate());
            return Ok(ServingTexts { chain, key: pair.key, named: Vec::new() });
        };
        let named = tls.sni_certificates.iter().map(NamedPemText::read).collect::<anyhow::Result<Vec<_>>>();
        Ok(ServingTexts {
            chain: pki::read(&tls.cert_file).context("tls.certFile")?,
            key: pki::read(&tls.key_file).context("tls.keyFile")?,
            named: named.context("tls.sniCertificates")?,
        })
    }

    /// Checks that the serving certificates can be used. The error names the files.
    fn check_serving(&self, serving: &ServingTexts) -> anyhow::Result<()> {
        serving.check().with_context(|| match &self.configuration.tls {
            Some(tls) => format!("tls: {} with {}", tls.cert_file.display(), tls.key_file.display()),
            None => "the server's own certificate".to_owned(),
        })
    }

    /// Returns the server's own CA of serving certificates: that of the store, or that of the data directory while the store
    /// has not answered.
    fn serving_authority(&self, temporary: Option<&Temporary>) -> anyhow::Result<Arc<Authority>> {
        if let Some(found) = &self.authorities.borrow().authorities {
            return Ok(Arc::new(found.signer(Purpose::Serving, &self.data)?));
        }
        match temporary {
            Some(temporary) if temporary.serves => Ok(Arc::clone(&temporary.authority)),
            _ => Ok(Arc::new(Authority::read(&self.data)?)),
        }
    }

    /// Reads the CAs of clients and of machines. Those of machines are unknown while the store has not answered.
    fn client_cas(&self, temporary: Option<&Temporary>) -> anyhow::Result<String> {
        let (of_store, has_answered) = {
            let known = self.authorities.borrow();
            (known.authorities.clone(), known.has_answered)
        };
        let client_cas = match (&self.configuration.client_ca_file, &of_store, temporary) {
            // Beside the CAs of machines, a file without a CA would not be noticed.
            (Some(path), _, _) => {
                let text = pki::read(path).context("clientCaFile")?;
                pki::certificates(&text, &format!("clientCaFile: {}", path.display()))?;
                text
            }
            (None, Some(found), _) => found.bundle(Purpose::Client),
            // The store may have ended the trust in the CA of the directory. If the store answers, and only its CAs cannot
            // be read, no client may use that one.
            (None, None, Some(temporary)) if has_answered => temporary.authority.certificate().to_owned(),
            (None, None, _) => self.serving_authority(temporary)?.certificate().to_owned(),
        };
        let machine_cas = of_store.map(|found| found.bundle(Purpose::Machine)).unwrap_or_default();
        Ok(format!("{}\n{machine_cas}", client_cas.trim_end()))
    }

    /// Reads the certificate revocation lists; empty without a file. A file without a list is an error: it would revoke
    /// nothing.
    fn client_crls(&self) -> anyhow::Result<String> {
        let Some(path) = &self.configuration.client_crl_file else { return Ok(String::new()) };
        let text = pki::read(path).context("clientCrlFile")?;
        pki::revocation_lists(&text, "clientCrlFile").map(|_| text)
    }

    /// Returns the front proxy of the host cluster: its CAs and headers are those of one state.
    fn front_proxy(&self) -> FrontProxyTexts {
        let Some(proxy) = &self.front_proxy else { return FrontProxyTexts::default() };
        let found = proxy.borrow().clone();
        let host_cas = self.host_cas(&found.client_ca);
        FrontProxyTexts { cas: found.ca, headers: found.headers, host_cas }
    }

    /// Returns the CAs of the host's users, if the configuration accepts their certificates. Those that cannot be read are
    /// not used, and change nothing else.
    fn host_cas(&self, cas: &str) -> String {
        let is_wanted = self.configuration.host.as_ref().is_some_and(|host| host.client_certificates);
        if !is_wanted || cas.is_empty() {
            return String::new();
        }
        match pki::certificates(cas, "the host's CA for clients") {
            Ok(_) => cas.to_owned(),
            Err(error) => {
                tracing::error!("{error:#}; client certificates of the host get 401");
                String::new()
            }
        }
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

impl TlsFiles {
    /// Registers the metrics of the files.
    pub(crate) fn register(&self, metrics: &mut Registry) {
        metrics.register(
            "capstan_ca_in_two_pools",
            "Client CAs that are not used, because they are CAs of front proxies, too",
            self.shared_cas.clone(),
        );
        self.ends.register(metrics);
        self.revocations.register(metrics);
    }

    /// Returns the metrics of the revocations of client certificates.
    pub(crate) fn revocation_metrics(&self) -> RevocationMetrics {
        self.revocations.clone()
    }

    /// Reports the ends of the certificates that are in force.
    fn report_ends(&self) {
        let named: String = self.last.serving.named.iter().map(|named| named.chain.as_str()).collect();
        self.ends.set("serving", Some(&self.last.serving.chain));
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
                    tracing::error!(
                        error,
                        "TLS files or CAs are invalid; the last ones of these stay in force"
                    );
                }
            }
        }
    }

    /// Applies the sources that changed and are valid. A certificate and its key are two files. After only one of them was
    /// written, they do not match, and a later reload succeeds. New CAs of clients and front proxies do not wait for that.
    /// The same error is returned once per minute.
    fn reload(&mut self) -> Reload {
        let (texts, mut errors) = self.sources.read_usable(self.temporary.as_ref(), &self.last);
        let is_new = texts != self.last
            && match self.apply(texts) {
                Ok(()) => true,
                Err(error) => {
                    errors.push(error);
                    false
                }
            };
        let of_store = self.sources.authorities.borrow().error.clone().filter(|_| !is_new);
        errors.extend(of_store.map(|error| anyhow::Error::msg(error).context("the server's own CAs")));
        self.report_ends();
        let mut errors: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
        errors.dedup();
        let error = errors.join("; ");
        if error.is_empty() {
            self.health.succeed();
        } else if self.health.fail(&error, Instant::now()) {
            return Reload::Unusable(error);
        }
        if is_new { Reload::Replaced } else { Reload::Unchanged }
    }

    /// Puts settings into force.
    fn apply(&mut self, texts: PemTexts) -> anyhow::Result<()> {
        let replaced = self.tls.replace(texts.material()?).map_err(anyhow::Error::msg);
        replaced.context("certificates, keys and CAs do not match")?;
        self.last = texts;
        self.report_shared_cas();
        Ok(())
    }
}
