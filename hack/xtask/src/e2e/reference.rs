//! Reference server: a kube-apiserver without Capstan that serves the conformance suite's kinds as CRDs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::Certificates;
use super::lab::{self, Tools, until};
use super::process::Process;
use crate::{conformance, prerequisites, run};

/// File of the audit log, in the directory of the server.
const AUDIT_LOG: &str = "log/audit.log";

/// Running reference server. Stops when dropped.
pub(crate) struct Reference {
    _controllers: Process,
    _kube_apiserver: Process,
    _etcd: Process,
    certificates: Certificates,
    port: u16,
    home: PathBuf,
}

impl Reference {
    /// Starts the server with an audit policy, and applies the CRDs. Then it starts the controllers of quotas and of types in
    /// policies, which only know the kinds that they find.
    pub(crate) fn start(tools: &Tools, audit_policy: &Path) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("capstan-reference-{}", std::process::id()));
        std::fs::create_dir_all(home.join("log"))?;
        let certificates = Certificates::create(&home.join("pki"))?;
        let [client, peer, port, _] = lab::ports()?;
        let etcd = lab::start_etcd(&tools.etcd, &home, [client, peer], &[])?;
        let etcd_url = format!("http://127.0.0.1:{client}");
        let mut command = lab::kube_apiserver(&tools.kube_apiserver, &certificates, &etcd_url, port);
        command.arg(format!("--audit-policy-file={}", audit_policy.display()));
        command.arg(format!("--audit-log-path={}", home.join(AUDIT_LOG).display()));
        let mut kube_apiserver =
            Process::start("kube-apiserver", &mut command, &home.join("log/kube-apiserver.log"))?;
        certificates.kubeconfig("admin", &format!("https://127.0.0.1:{port}"))?;
        until("kube-apiserver is ready", || {
            kube_apiserver.check()?;
            let mut ready = Command::new(&tools.kubectl);
            ready.args(["--kubeconfig", &certificates.path("admin.kubeconfig"), "get", "--raw", "/readyz"]);
            Ok(ready.stderr(std::process::Stdio::null()).output()?.stdout == b"ok")
        })?;
        let target = target(&certificates, port);
        run::shown(Command::new(&tools.capstan).arg("establish").args(target))?;
        let controllers = start_controllers(&certificates, &home)?;
        Ok(Self {
            _controllers: controllers,
            _kube_apiserver: kube_apiserver,
            _etcd: etcd,
            certificates,
            port,
            home,
        })
    }

    /// Returns the path of the audit log.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.home.join(AUDIT_LOG)
    }

    /// Returns the arguments of the suite's program to reach the server.
    pub(crate) fn target(&self) -> Vec<String> {
        target(&self.certificates, self.port)
    }
}

fn target(certificates: &Certificates, port: u16) -> Vec<String> {
    let file = |name: &str| certificates.path(name);
    let address = format!("127.0.0.1:{port}");
    conformance::target(&address, &file("kube-ca.crt"), &file("admin.crt"), &file("admin.key"))
}

/// Controllers that write values which cases compare.
const CONTROLLERS: &str =
    "--controllers=resourcequota-controller,validatingadmissionpolicy-status-controller";

/// Starts a kube-controller-manager that writes the status of ResourceQuotas and of ValidatingAdmissionPolicies, and does
/// nothing else.
fn start_controllers(certificates: &Certificates, home: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(prerequisites::kubernetes("kube-controller-manager")?);
    command.args([CONTROLLERS, "--leader-elect=false", "--secure-port=0"]);
    command.arg(format!("--kubeconfig={}", certificates.path("admin.kubeconfig")));
    Process::start("kube-controller-manager", &mut command, &home.join("log/kube-controller-manager.log"))
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
