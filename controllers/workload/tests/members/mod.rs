//! etcd members with TLS, which end with the test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use controllers_workload::etcd::EtcdCredentials;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Authority that signs for members and clients.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "etcd-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a name that is not the one that is dialled.
    fn signed(&self) -> (String, String) {
        let params = CertificateParams::new(vec!["some-node".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn client_credentials(&self) -> EtcdCredentials {
        let (certificate, key) = self.signed();
        EtcdCredentials {
            ca: self.0.pem().into_bytes(),
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
        }
    }
}

/// Running members.
pub(crate) struct Members {
    processes: Vec<(String, u16, Child)>,
    _directory: tempfile::TempDir,
}

impl Members {
    pub(crate) fn start(authority: &Authority, names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = authority.signed();
        let files = [
            ("cert-file", write(directory.path(), "server.crt", &certificate)),
            ("key-file", write(directory.path(), "server.key", &key)),
            ("trusted-ca-file", write(directory.path(), "ca.crt", &authority.0.pem())),
        ];
        let peers: Vec<(&str, u16)> = names.iter().map(|name| (*name, free_port())).collect();
        let all: Vec<String> =
            peers.iter().map(|(name, port)| format!("{name}=http://127.0.0.1:{port}")).collect();
        let processes = peers.iter().map(|(name, peer)| {
            let port = free_port();
            let mut command = Command::new(binary());
            command
                .args(["--log-level=error", "--client-cert-auth"])
                .arg(format!("--name={name}"))
                .arg(format!("--data-dir={}", directory.path().join(name).display()))
                .arg(format!("--listen-client-urls=https://127.0.0.1:{port}"))
                .arg(format!("--advertise-client-urls=https://127.0.0.1:{port}"))
                .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-cluster={}", all.join(",")))
                .args(files.iter().map(|(flag, path)| format!("--{flag}={}", path.display())));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            ((*name).to_owned(), port, child)
        });
        Self { processes: processes.collect(), _directory: directory }
    }

    /// Names of the members with their client ports.
    pub(crate) fn ports(&self) -> Vec<(String, u16)> {
        self.processes.iter().map(|(name, port, _)| (name.clone(), *port)).collect()
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn binary() -> PathBuf {
    let path = std::env::var_os("CAPSTAN_ETCD_DISTRIBUTION")
        .map_or_else(|| PathBuf::from("/usr/bin/etcd"), PathBuf::from);
    assert!(path.exists(), "{} is missing: `cargo xtask test` installs it", path.display());
    path
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
