//! Reference server: a kube-apiserver without Capstan that serves the conformance suite's kinds as CRDs.

use std::path::PathBuf;
use std::process::Command;

use super::certificates::Certificates;
use super::lab::{self, Tools, until};
use super::process::Process;
use crate::{conformance, run};

/// Running reference server. Stops when dropped.
pub(crate) struct Reference {
    _kube_apiserver: Process,
    _etcd: Process,
    certificates: Certificates,
    port: u16,
    home: PathBuf,
}

impl Reference {
    /// Starts the server and applies the CRDs.
    pub(crate) fn start(tools: &Tools) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("capstan-reference-{}", std::process::id()));
        std::fs::create_dir_all(home.join("log"))?;
        let certificates = Certificates::create(&home.join("pki"))?;
        let [client, peer, port, _] = lab::ports()?;
        let etcd = lab::start_etcd(&tools.etcd, &home, [client, peer], &[])?;
        let etcd_url = format!("http://127.0.0.1:{client}");
        let mut kube_apiserver = lab::start_kube_apiserver(tools, &home, &certificates, &etcd_url, port)?;
        certificates.kubeconfig("admin", &format!("https://127.0.0.1:{port}"))?;
        until("kube-apiserver is ready", || {
            kube_apiserver.check()?;
            let mut ready = Command::new(&tools.kubectl);
            ready.args(["--kubeconfig", &certificates.path("admin.kubeconfig"), "get", "--raw", "/readyz"]);
            Ok(ready.stderr(std::process::Stdio::null()).output()?.stdout == b"ok")
        })?;
        let reference = Self { _kube_apiserver: kube_apiserver, _etcd: etcd, certificates, port, home };
        run::shown(Command::new(&tools.capstan).arg("establish").args(reference.target()))?;
        Ok(reference)
    }

    /// Returns the arguments of the suite's program to reach the server.
    pub(crate) fn target(&self) -> Vec<String> {
        let file = |name: &str| self.certificates.path(name);
        let address = format!("127.0.0.1:{}", self.port);
        conformance::target(&address, &file("kube-ca.crt"), &file("admin.crt"), &file("admin.key"))
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
