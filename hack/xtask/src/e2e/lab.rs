//! Lab of the end-to-end tests: etcd, kube-apiserver and Capstan on free ports of loopback, in one directory.

use std::cell::RefCell;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::certificates::Certificates;
use super::process::Process;
use crate::run;

/// Flag for a kube-apiserver whose only authorizer is RBAC.
const RBAC: &str = "--authorization-mode=RBAC";

/// Longest wait for a condition on a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(90);

/// Paths of the programs.
pub(crate) struct Tools {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) capstan: PathBuf,
}

/// Program that serves as Capstan, and the arguments that precede those of `capstan`.
pub(crate) struct Server {
    pub(crate) path: PathBuf,
    pub(crate) arguments: &'static [&'static str],
}

impl Server {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.arguments);
        command
    }
}

/// Running lab. Dropping it stops the programs in the right order.
pub(crate) struct Lab {
    capstan: RefCell<Option<Process>>,
    kube_apiserver: RefCell<Option<Process>>,
    etcd: RefCell<Option<Process>>,
    etcd_ports: [u16; 2],
    pub(super) tools: Tools,
    /// Program that serves as Capstan: the product, or the product with one additional kind.
    server: RefCell<Server>,
    pub(crate) certificates: Certificates,
    pub(crate) capstan_port: u16,
    pub(crate) host_port: u16,
    etcd_url: String,
    /// Flags of kube-apiserver that select its authorizers.
    authorization: Vec<String>,
    home: PathBuf,
    keep: RefCell<bool>,
}

impl Lab {
    /// Starts all programs and registers Capstan with the host.
    pub(crate) fn start(tools: Tools) -> anyhow::Result<Self> {
        let lab = Self::host(tools)?;
        lab.register()?;
        lab.start_capstan()?;
        Ok(lab)
    }

    /// Starts a host without Capstan.
    pub(super) fn host(tools: Tools) -> anyhow::Result<Self> {
        Self::host_with(tools, vec![RBAC.to_owned()])
    }

    /// Starts a host without Capstan, with these flags that select its authorizers.
    pub(super) fn host_with(tools: Tools, authorization: Vec<String>) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("capstan-e2e-{}", std::process::id()));
        std::fs::create_dir_all(home.join("log"))?;
        let certificates = Certificates::create(&home.join("pki"))?;
        let [client, peer, host, capstan_port] = ports()?;
        let etcd_url = format!("http://127.0.0.1:{client}");
        let etcd = start_etcd(&tools.etcd, &home, [client, peer], &[])?;
        for user in ["admin", "alice", "bob", "capstan"] {
            certificates.kubeconfig(user, &format!("https://127.0.0.1:{host}"))?;
        }
        let server = Server { path: tools.capstan.clone(), arguments: &[] };
        let lab = Self {
            server: RefCell::new(server),
            capstan: RefCell::new(None),
            kube_apiserver: RefCell::new(None),
            etcd: RefCell::new(Some(etcd)),
            etcd_ports: [client, peer],
            tools,
            certificates,
            capstan_port,
            host_port: host,
            etcd_url,
            authorization,
            home,
            keep: RefCell::new(false),
        };
        lab.start_host()?;
        Ok(lab)
    }

    /// Starts the host's kube-apiserver, also after it was killed, and waits until it is ready.
    pub(super) fn start_host(&self) -> anyhow::Result<()> {
        let (program, certificates) = (&self.tools.kube_apiserver, &self.certificates);
        let mut command =
            kube_apiserver_without_authorizer(program, certificates, &self.etcd_url, self.host_port);
        command.args(&self.authorization);
        let log = self.home.join("log/kube-apiserver.log");
        let mut process = Process::start("kube-apiserver", &mut command, &log)?;
        until("kube-apiserver is ready", || {
            process.check()?;
            Ok(self.try_kubectl("admin", &["get", "--raw", "/readyz"])?.1 == "ok")
        })?;
        *self.kube_apiserver.borrow_mut() = Some(process);
        Ok(())
    }

    /// Kills the host's kube-apiserver.
    pub(super) fn kill_host(&self) -> anyhow::Result<()> {
        let process = self.kube_apiserver.borrow_mut().take();
        process.context("kube-apiserver does not run")?.kill()
    }

    /// Kills the host's etcd.
    pub(super) fn kill_etcd(&self) -> anyhow::Result<()> {
        self.etcd.borrow_mut().take().context("etcd does not run")?.kill()
    }

    /// Starts the host's etcd on its data.
    pub(super) fn restart_etcd(&self) -> anyhow::Result<()> {
        let etcd = start_etcd(&self.tools.etcd, &self.home, self.etcd_ports, &[])?;
        *self.etcd.borrow_mut() = Some(etcd);
        Ok(())
    }

    /// Applies the manifests of Capstan to the host, as the README describes.
    pub(super) fn register(&self) -> anyhow::Result<()> {
        self.register_with(&[])
    }

    /// The same, with further options of `capstan host manifests`.
    pub(super) fn register_with(&self, options: &[&str]) -> anyhow::Result<()> {
        let port = self.capstan_port.to_string();
        let mut print = self.server.borrow().command();
        print
            .args(["host", "manifests", "--external-name", "127.0.0.1", "--port", &port, "--data-dir"])
            .arg(self.data())
            .args(options);
        let manifests =
            run::output(print.args(["--kubeconfig", &self.certificates.path("admin.kubeconfig")]))?;
        let path = self.home.join("host.yaml");
        std::fs::write(&path, manifests)?;
        self.kubectl("admin", &["apply", "-f", &path.display().to_string()]).map(|_| ())
    }

    /// Lets Capstan write Secrets in a namespace of the host, as `--write-secrets` does. Two clusters may share the namespace.
    pub(super) fn let_write_secrets(&self, namespace: &str) -> anyhow::Result<()> {
        let verbs = "--verb=get,create,update,delete";
        let role = ["create", "role", "capstan:secrets", "-n", namespace, verbs, "--resource=secrets"];
        let user = ["--role=capstan:secrets", "--user=capstan"];
        let binding = ["create", "rolebinding", "capstan:secrets", "-n", namespace];
        for arguments in [role.to_vec(), [&binding[..], &user[..]].concat()] {
            let (is_created, _, error) = self.try_kubectl("admin", &arguments)?;
            let is_there = is_created || error.contains("already exists");
            ensure!(is_there, "kubectl {}: {error}", arguments.join(" "));
        }
        Ok(())
    }

    /// Starts Capstan, also after it was stopped.
    pub(super) fn start_capstan(&self) -> anyhow::Result<()> {
        // No delay, because there is no other replica to take over.
        let process = self.replica("capstan", self.capstan_port, "0s")?;
        *self.capstan.borrow_mut() = Some(process);
        Ok(())
    }

    /// Restarts Capstan with the settings of a file. A later start has none.
    pub(super) fn restart_with(&self, settings: &str) -> anyhow::Result<()> {
        self.start_with(settings)?;
        self.host_wait("admin")
    }

    /// Restarts Capstan with the settings of a file, and does not wait for the host.
    pub(super) fn start_with(&self, settings: &str) -> anyhow::Result<()> {
        let file = self.file("capstan.yaml", settings)?;
        self.stop_capstan();
        let process =
            self.start_replica("capstan", self.capstan_port, &["--shutdown-delay", "0s", "--config", &file])?;
        *self.capstan.borrow_mut() = Some(process);
        Ok(())
    }

    /// Replaces Capstan with another program, on the same store and with the same keys.
    pub(crate) fn serve_with(&self, server: Server) -> anyhow::Result<()> {
        self.stop_capstan();
        *self.server.borrow_mut() = server;
        self.register()?;
        self.start_capstan()?;
        self.host_wait("admin")
    }

    /// Starts another replica of Capstan on the same store and with the same keys.
    pub(super) fn replica(&self, name: &str, port: u16, shutdown_delay: &str) -> anyhow::Result<Process> {
        self.start_replica(name, port, &["--shutdown-delay", shutdown_delay])
    }

    /// Starts another replica of Capstan with the settings of a file.
    pub(super) fn replica_with(&self, name: &str, port: u16, settings: &str) -> anyhow::Result<Process> {
        let file = self.file(&format!("{name}.yaml"), settings)?;
        self.start_replica(name, port, &["--shutdown-delay", "0s", "--config", &file])
    }

    fn start_replica(&self, name: &str, port: u16, options: &[&str]) -> anyhow::Result<Process> {
        let mut command = self.server.borrow().command();
        let listen = format!("127.0.0.1:{port}");
        command.args(["serve", "--listen", &listen, "--etcd-endpoints", &self.etcd_url]);
        command.args(options);
        command.args(["--host-kubeconfig", &self.certificates.path("capstan.kubeconfig")]);
        command.arg("--data-dir").arg(self.data());
        let mut process = Process::start(name, &mut command, &self.home.join(format!("log/{name}.log")))?;
        until("Capstan accepts connections", || {
            process.check().with_context(|| format!("its log is in {}", self.keep_logs()))?;
            Ok(std::net::TcpStream::connect(&listen).is_ok())
        })?;
        Ok(process)
    }

    /// Waits until the host serves every API version through Capstan, as the README describes.
    pub(crate) fn host_wait(&self, user: &str) -> anyhow::Result<()> {
        let mut command = self.server.borrow().command();
        let kubeconfig = self.certificates.path(&format!("{user}.kubeconfig"));
        command.args(["host", "wait", "--kubeconfig", &kubeconfig]);
        let output = command.stdin(std::process::Stdio::null()).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "capstan host wait as {user}: {error}");
        Ok(())
    }

    /// Stops Capstan gracefully.
    pub(super) fn stop_capstan(&self) {
        self.capstan.borrow_mut().take();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Writes a file in the directory of the lab. Returns its path.
    pub(super) fn file(&self, name: &str, content: &str) -> anyhow::Result<String> {
        let path = self.home.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.home))?;
        std::fs::write(&path, content)?;
        Ok(path.display().to_string())
    }

    /// Returns a path in the directory of the lab. The caller creates the directory.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Runs kubectl as a user. Returns its output, or an error with its messages.
    pub(crate) fn kubectl(&self, user: &str, arguments: &[&str]) -> anyhow::Result<String> {
        match self.try_kubectl(user, arguments)? {
            (true, out, _) => Ok(out),
            (false, out, error) => bail!("kubectl {} as {user}: {out}{error}", arguments.join(" ")),
        }
    }

    /// Runs kubectl as a user. Returns whether it succeeded, its standard output and its standard error.
    pub(super) fn try_kubectl(
        &self,
        user: &str,
        arguments: &[&str],
    ) -> anyhow::Result<(bool, String, String)> {
        let kubeconfig = self.certificates.path(&format!("{user}.kubeconfig"));
        let mut command = Command::new(&self.tools.kubectl);
        command.args(["--kubeconfig", &kubeconfig, "--cache-dir"]).arg(self.home.join("cache").join(user));
        let output = command.args(arguments).stdin(std::process::Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
    }

    /// Keeps the logs after the end of the process, for the analysis of a failure. Returns their directory.
    pub(crate) fn keep_logs(&self) -> String {
        *self.keep.borrow_mut() = true;
        self.home.join("log").display().to_string()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop_capstan();
        if !*self.keep.borrow() {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}

/// Waits until a condition is met. Returns an error after [`TIMEOUT`].
pub(crate) fn until(condition: &str, mut is_met: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let end = Instant::now() + TIMEOUT;
    while !is_met()? {
        if Instant::now() > end {
            bail!("timed out after {} s, waiting until {condition}", TIMEOUT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Returns ports that are free now. All are open at the same time, so they differ.
pub(crate) fn ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let listeners = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)));
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}

/// Starts an etcd with its data and its log in `home`, and with these additional options.
pub(crate) fn start_etcd(
    program: &Path,
    home: &Path,
    ports: [u16; 2],
    options: &[&str],
) -> anyhow::Result<Process> {
    Process::start("etcd", etcd(program, home, ports).args(options), &home.join("log/etcd.log"))
}

/// Returns the command of an etcd with default settings.
fn etcd(program: &Path, home: &Path, [client, peer]: [u16; 2]) -> Command {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(program);
    command.args(["--name=lab", "--log-level=warn"]);
    command.arg(format!("--data-dir={}", home.join("etcd").display()));
    command.arg(format!("--listen-client-urls={client}")).arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--listen-peer-urls={peer}")).arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster=lab={peer}"));
    command
}

/// Returns the command of a kube-apiserver that needs only an etcd.
pub(crate) fn kube_apiserver(program: &Path, certificates: &Certificates, etcd: &str, port: u16) -> Command {
    let mut command = kube_apiserver_without_authorizer(program, certificates, etcd, port);
    command.arg(RBAC);
    command
}

fn kube_apiserver_without_authorizer(
    program: &Path,
    certificates: &Certificates,
    etcd: &str,
    port: u16,
) -> Command {
    let file = |name: &str| certificates.path(name);
    let mut command = Command::new(program);
    command.arg(format!("--etcd-servers={etcd}")).arg(format!("--secure-port={port}"));
    command.args([
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        // kubeadm sets it, too: networks and drivers of volumes need privileged Pods.
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        // No controller creates service accounts here.
        "--disable-admission-plugins=ServiceAccount",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
    for (flag, name) in [
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("client-ca-file", "kube-ca.crt"),
        ("service-account-key-file", "sa.pub"),
        ("service-account-signing-key-file", "sa.key"),
        ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ("proxy-client-cert-file", "front-proxy-client.crt"),
        ("proxy-client-key-file", "front-proxy-client.key"),
    ] {
        command.arg(format!("--{flag}={}", file(name)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etcd_of_a_lab_has_the_default_quota() {
        let command = etcd(Path::new("etcd"), Path::new("/home"), [2379, 2380]);
        let has_quota = command.get_args().any(|arg| arg.to_string_lossy().starts_with("--quota"));
        assert!(!has_quota, "{command:?}");
    }
}
