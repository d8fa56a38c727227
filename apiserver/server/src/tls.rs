//! What TLS is served with, read anew while it is served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_host::FrontProxy;
use apiserver_http::{NamedCertificate, ReloadableTls, TlsMaterial};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{ServerConfiguration, SniCertificate};
use crate::pki::{self, Authority};

/// How often the files are looked at. Renewals come hours before the old certificate ends.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Where everything comes from.
pub(crate) struct Sources {
    pub(crate) configuration: ServerConfiguration,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// Where it is served: an address the server's own certificate is good for.
    pub(crate) listen: SocketAddr,
    /// What the host says of its front proxy, when there is a host.
    pub(crate) front_proxy: Option<watch::Receiver<FrontProxy>>,
}

/// What was read, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    chain: String,
    key: String,
    named: Vec<NamedTexts>,
    client_cas: String,
    request_header_cas: Option<String>,
}

/// A certificate for certain names, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct NamedTexts {
    /// Empty for those in the certificate.
    names: Vec<String>,
    chain: String,
    key: String,
}

/// TLS settings that follow their sources.
pub(crate) struct Followed {
    sources: Sources,
    tls: Arc<ReloadableTls>,
    last: Texts,
    last_error: String,
}

/// What a look at the sources has led to.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Unchanged,
    Replaced,
    /// They cannot be used; what was there stays.
    Unusable(String),
}

impl Sources {
    /// Reads everything for the first time.
    pub(crate) fn open(self) -> anyhow::Result<Followed> {
        let last = self.read()?;
        let tls = ReloadableTls::new(last.material()?)
            .map_err(|error| anyhow::anyhow!("TLS cannot be set up: {error}"))?;
        Ok(Followed { sources: self, tls: Arc::new(tls), last, last_error: String::new() })
    }

    /// Reads everything; the server's own certificate is made anew here when it is old.
    fn read(&self) -> anyhow::Result<Texts> {
        let authority = Authority::open(&self.data)?;
        let (chain, key) = match &self.configuration.tls {
            Some(tls) => (pki::read(&tls.cert_file)?, pki::read(&tls.key_file)?),
            None => {
                let pair = authority.serving(&self.names())?;
                (pair.certificate, pair.key)
            }
        };
        let named = match &self.configuration.tls {
            Some(tls) => tls.sni_certificates.iter().map(NamedTexts::read).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let client_cas = match &self.configuration.client_ca_file {
            Some(path) => pki::read(path)?,
            None => authority.certificate().to_owned(),
        };
        let request_header_cas = self.front_proxy.as_ref().map(|proxy| proxy.borrow().ca.clone());
        Ok(Texts { chain, key, named, client_cas, request_header_cas })
    }

    /// Names the server's own certificate is good for.
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

impl NamedTexts {
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

impl Texts {
    fn material(&self) -> anyhow::Result<TlsMaterial> {
        let request_header_cas = match &self.request_header_cas {
            Some(ca) => pki::certificates(ca, "the host's front-proxy CA")?,
            None => Vec::new(),
        };
        Ok(TlsMaterial {
            chain: pki::certificates(&self.chain, "the serving certificate")?,
            key: pki::key(&self.key, "the serving key")?,
            named: self.named.iter().map(NamedTexts::material).collect::<Result<_, _>>()?,
            client_cas: pki::certificates(&self.client_cas, "the CA of clients")?,
            request_header_cas,
        })
    }
}

impl Followed {
    /// The settings to serve with.
    pub(crate) fn tls(&self) -> Arc<ReloadableTls> {
        Arc::clone(&self.tls)
    }

    /// Keeps up with the sources until `shutdown`: new connections see what is new, old ones go on.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        let mut front_proxy = self.sources.front_proxy.clone();
        loop {
            let told = async {
                match &mut front_proxy {
                    Some(front_proxy) if front_proxy.has_changed().is_ok() => {
                        let _ = front_proxy.changed().await;
                    }
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = told => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            match self.look() {
                Look::Unchanged => {}
                Look::Replaced => tracing::info!("TLS files or CAs have changed; new connections use them"),
                Look::Unusable(error) => {
                    tracing::error!(
                        error,
                        "TLS files or CAs have changed and cannot be used; the last ones stay"
                    );
                }
            }
        }
    }

    /// Takes what is new, if it can be used. A certificate and its key are two files: between the
    /// writing of one and of the other they do not fit, and the next look finds that they do. The
    /// same error is told once.
    fn look(&mut self) -> Look {
        let replaced = self.sources.read().and_then(|texts| {
            if texts == self.last {
                return Ok(false);
            }
            self.tls.replace(texts.material()?).map_err(anyhow::Error::msg).context("they do not fit")?;
            self.last = texts;
            Ok(true)
        });
        let error = replaced.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        let is_told = error == self.last_error;
        self.last_error.clone_from(&error);
        match replaced {
            Ok(true) => Look::Replaced,
            Ok(false) => Look::Unchanged,
            Err(_) if is_told => Look::Unchanged,
            Err(_) => Look::Unusable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Tls;

    #[test]
    fn a_new_certificate_is_taken_once_its_key_is_there() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let (cert_file, key_file) = (data.path().join("tls.crt"), data.path().join("tls.key"));
        let mut pairs = ["a.example", "b.example"].map(|name| authority.serving(&[name.to_owned()]).unwrap());
        let [old, new] = &mut pairs;
        std::fs::write(&cert_file, &old.certificate).unwrap();
        std::fs::write(&key_file, &old.key).unwrap();
        let tls = Some(Tls {
            cert_file: cert_file.clone(),
            key_file: key_file.clone(),
            sni_certificates: Vec::new(),
        });
        let sources = Sources {
            configuration: ServerConfiguration { tls, ..ServerConfiguration::default() },
            data: data.path().to_owned(),
            listen: "127.0.0.1:7443".parse().unwrap(),
            front_proxy: None,
        };
        let mut followed = sources.open().unwrap();
        assert_eq!(followed.look(), Look::Unchanged);
        std::fs::write(&cert_file, &new.certificate).unwrap();
        assert!(matches!(followed.look(), Look::Unusable(_)), "the key is still the old one");
        assert_eq!(followed.look(), Look::Unchanged, "told once");
        std::fs::write(&key_file, &new.key).unwrap();
        assert_eq!(followed.look(), Look::Replaced);
        assert_eq!(followed.look(), Look::Unchanged);
        std::fs::remove_file(&key_file).unwrap();
        let Look::Unusable(error) = followed.look() else { panic!("there is no key") };
        assert!(error.contains("tls.key"), "{error}");
    }

    #[test]
    fn a_certificate_for_a_name_is_followed_as_well() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let (cert_file, key_file) = (data.path().join("tls.crt"), data.path().join("tls.key"));
        let write = |name: &str| {
            let pair = authority.serving(&[name.to_owned()]).unwrap();
            std::fs::write(&cert_file, pair.certificate).unwrap();
            std::fs::write(&key_file, pair.key).unwrap();
        };
        write("one.example");
        let one = |names: Vec<String>| SniCertificate {
            cert_file: cert_file.clone(),
            key_file: key_file.clone(),
            names,
        };
        let sni_certificates = vec![one(Vec::new()), one(vec!["*.two.example".to_owned()])];
        let tls = Some(Tls { cert_file: cert_file.clone(), key_file: key_file.clone(), sni_certificates });
        let sources = Sources {
            configuration: ServerConfiguration { tls, ..ServerConfiguration::default() },
            data: data.path().to_owned(),
            listen: "127.0.0.1:7443".parse().unwrap(),
            front_proxy: None,
        };
        let mut followed = sources.open().unwrap();
        let names = |followed: &Followed| -> Vec<Vec<String>> {
            let named = followed.last.material().unwrap().named;
            named.into_iter().map(|certificate| certificate.names).collect()
        };
        assert_eq!(names(&followed), [["one.example"], ["*.two.example"]]);
        write("three.example");
        assert_eq!(followed.look(), Look::Replaced);
        assert_eq!(names(&followed), [["three.example"], ["*.two.example"]]);
    }

    #[test]
    fn a_new_front_proxy_is_followed() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let proxy = |ca: &str| FrontProxy { ca: ca.to_owned(), headers: Default::default() };
        let first = Authority::open(data.path()).unwrap().certificate().to_owned();
        let (sender, receiver) = watch::channel(proxy(&first));
        let sources = Sources {
            configuration: ServerConfiguration::default(),
            data: data.path().to_owned(),
            listen: "127.0.0.1:7443".parse().unwrap(),
            front_proxy: Some(receiver),
        };
        let mut followed = sources.open().unwrap();
        sender.send_replace(proxy("no PEM"));
        assert!(matches!(followed.look(), Look::Unusable(error) if error.contains("front-proxy CA")));
        sender.send_replace(proxy(Authority::open(other.path()).unwrap().certificate()));
        assert_eq!(followed.look(), Look::Replaced);
    }
}
