//! Recorder of the verdicts of a real kube-apiserver about authentication files.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::e2e::{Certificates, Process, Tools, kube_apiserver, ports, start_etcd, until};
use crate::run;

/// First authentication file of the server. No file of the suite has its `anonymous`, which must not change while the
/// server runs. So the server validates each file at once, and applies none.
const FIRST: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /first-file-of-the-recorder}]}
";

/// Starts a kube-apiserver, and lets the suite's program give it each file of the directory `suite`.
pub(super) fn record(tools: &Tools, program: &Path, suite: &Path) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("capstan-authentication-{}", std::process::id()));
    std::fs::create_dir_all(home.join("log"))?;
    let result = in_home(&home, tools, program, suite);
    match &result {
        Ok(()) => std::fs::remove_dir_all(&home)?,
        Err(_) => eprintln!("the logs are in {}", home.join("log").display()),
    }
    result
}

fn in_home(home: &Path, tools: &Tools, program: &Path, suite: &Path) -> anyhow::Result<()> {
    let certificates = Certificates::create(&home.join("pki"))?;
    let [client, peer, port] = ports()?;
    let _etcd = start_etcd(&tools.etcd, home, [client, peer], &[])?;
    let live = home.join("authentication.yaml");
    std::fs::write(&live, FIRST)?;
    let etcd = format!("http://127.0.0.1:{client}");
    let mut command = kube_apiserver(&tools.kube_apiserver, &certificates, &etcd, port);
    command.arg(format!("--authentication-config={}", live.display())).arg("--logging-format=json");
    let log = home.join("log/kube-apiserver.log");
    let mut server = Process::start("kube-apiserver", &mut command, &log)?;
    let kubeconfig = certificates.kubeconfig("admin", &format!("https://127.0.0.1:{port}"))?;
    until("kube-apiserver is ready", || {
        server.check()?;
        let mut ready = Command::new(&tools.kubectl);
        ready.args(["--kubeconfig", &kubeconfig, "get", "--raw", "/readyz"]);
        Ok(ready.stderr(Stdio::null()).output()?.stdout == b"ok")
    })?;
    let mut command = Command::new(program);
    command.arg("record-authentication").arg("--live").arg(&live).arg("--log").arg(&log);
    run::shown(command.arg("--suite").arg(suite))
}
