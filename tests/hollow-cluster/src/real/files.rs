//! Files of the programs of one cluster.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::lock;
use crate::pki::{self, Serving};

/// Bytes of the end of a log that an error quotes.
const QUOTED: usize = 2000;

/// Directory that is removed with this value.
#[derive(Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    /// Writes the certificates: those of the user data, and those that they sign.
    pub(crate) fn write(cluster: &Cluster, service_account_key: &str) -> Result<Self, String> {
        let directory =
            std::env::temp_dir().join(format!("capstan-hollow-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let files = Self(directory);
        let pki = &cluster.pki;
        let etcd = pki.etcd.as_ref().ok_or("the heavy form has no external etcd")?;
        let local = || vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut names = local();
        names.extend(["kubernetes", "kubernetes.default.svc"].map(str::to_owned));
        names.push(cluster.host.clone());
        names.extend(lock(&cluster.nodes).values().map(|node| node.name.clone()));
        files.file("ca.crt", &pki.ca.pem)?;
        files.file("etcd-ca.crt", &etcd.pem)?;
        files.file("front-proxy-ca.crt", &pki.front_proxy.pem)?;
        files.file("sa.key", service_account_key)?;
        files.pair("apiserver", &pki.ca.serving("kube-apiserver", names)?)?;
        files.pair("etcd", &etcd.serving("etcd", local())?)?;
        files.pair("etcd-client", &etcd.serving("kube-apiserver-etcd-client", Vec::new())?)?;
        Ok(files)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, content: &str) -> Result<(), String> {
        fs::write(self.0.join(name), content).map_err(|error| format!("{}: {error}", self.path(name)))
    }

    fn pair(&self, name: &str, (certificate, key): &Serving) -> Result<(), String> {
        self.file(&format!("{name}.crt"), &pki::pem("CERTIFICATE", certificate))?;
        self.file(&format!("{name}.key"), &pki::pem("PRIVATE KEY", key.secret_der()))
    }

    /// Opens the log of a program.
    pub(crate) fn append_log(&self, program: &str) -> Option<File> {
        File::options().create(true).append(true).open(self.0.join(format!("{program}.log"))).ok()
    }

    /// Returns the end of the log of a program.
    pub(crate) fn log(&self, program: &str) -> String {
        let bytes = fs::read(self.0.join(format!("{program}.log"))).unwrap_or_default();
        let end = bytes.get(bytes.len().saturating_sub(QUOTED)..).unwrap_or_default();
        String::from_utf8_lossy(end).into_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
