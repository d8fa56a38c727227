//! Server program as a child process, and the CAs of its clients.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::caller::Caller;

/// Longest time that any step may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks at something that takes a while.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Running server. It ends when dropped.
pub(crate) struct Server {
    _process: Process,
    pub(crate) port: u16,
    roots: rustls::RootCertStore,
    clients: Issuer<'static, KeyPair>,
    strangers: CertifiedIssuer<'static, KeyPair>,
    front_proxies: CertifiedIssuer<'static, KeyPair>,
}

/// Creates a CA.
pub(crate) fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn subject(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    params
}

impl Server {
    /// Starts a server with this configuration file.
    pub(crate) fn start(
        data: &Path,
        config: &Path,
        front_proxies: CertifiedIssuer<'static, KeyPair>,
    ) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = File::create(data.join("server.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(data);
        command.arg("--config").arg(config).env("NO_COLOR", "1").stdin(Stdio::null());
        let process = Process(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        let begun = Instant::now();
        while !data.join("pki/ca.crt").exists() || !data.join("pki/ca.key").exists() {
            assert!(begun.elapsed() < PATIENCE, "{}: no CA is made", data.display());
            std::thread::sleep(PAUSE);
        }
        let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
        let key = KeyPair::from_pem(&read("ca.key")).unwrap();
        let clients = Issuer::from_ca_cert_pem(&read("ca.crt"), key).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(read("ca.crt").as_bytes()).unwrap()).unwrap();
        Self { _process: process, port, roots, clients, strangers: authority("strangers"), front_proxies }
    }

    fn caller(&self, identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> Caller {
        let config = rustls::ClientConfig::builder().with_root_certificates(self.roots.clone());
        let config = match identity {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        Caller::new(self.port, config)
    }

    fn signed(&self, params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Caller {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
        self.caller(Some((certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))))
    }

    /// Returns a caller with this certificate in PEM.
    pub(crate) fn with_certificate(&self, pem: &str, key: &KeyPair) -> Caller {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        self.caller(Some((certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))))
    }

    /// Returns a caller without a certificate.
    pub(crate) fn anonymous(&self) -> Caller {
        self.caller(None)
    }

    /// Returns a caller with a certificate of the server's client CA.
    pub(crate) fn user(&self, name: &str, groups: &[&str]) -> Caller {
        self.signed(&subject(name, groups), &self.clients)
    }

    /// Returns a caller whose certificate of the client CA has expired.
    pub(crate) fn expired(&self, name: &str, groups: &[&str]) -> Caller {
        let mut params = subject(name, groups);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.signed(&params, &self.clients)
    }

    /// Returns a caller with a certificate of another CA.
    pub(crate) fn stranger(&self, name: &str, groups: &[&str]) -> Caller {
        self.signed(&subject(name, groups), &self.strangers)
    }

    /// Returns a caller with a certificate of the front-proxy CA.
    pub(crate) fn front_proxy(&self, name: &str) -> Caller {
        self.signed(&subject(name, &[]), &self.front_proxies)
    }
}

/// Process that must not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
