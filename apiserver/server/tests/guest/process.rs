//! Server program as a child process of the test.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Client, Identity};
use crate::etcd::free_port;

/// Longest time that any step may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command of the program until it ends.
pub(crate) async fn command(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(arguments).env("NO_COLOR", "1");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// A running server.
pub(crate) struct Capstan {
    child: Child,
    pub(crate) port: u16,
    pub(crate) identity: Identity,
}

impl Capstan {
    /// Starts a server on a free port, and does not wait until it answers.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        Self::start_on(free_port(), data, arguments)
    }

    pub(crate) fn start_on(port: u16, data: &Path, arguments: &[&str]) -> Self {
        Self::start_in(port, data, arguments, &[])
    }

    /// Starts another release of the program on a port.
    pub(crate) fn start_program(program: &Path, port: u16, data: &Path, arguments: &[&str]) -> Self {
        Self::start_command(Command::new(program), port, data, arguments, &[])
    }

    /// Starts a server on a free port, with additional variables in its environment.
    pub(crate) fn start_with(data: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_in(free_port(), data, arguments, environment)
    }

    /// Starts a server on a port, with additional variables in its environment.
    pub(crate) fn start_in(port: u16, data: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_command(Command::new(env!("CARGO_BIN_EXE_capstan")), port, data, arguments, environment)
    }

    fn start_command(
        mut command: Command,
        port: u16,
        data: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let log = File::options().create(true).append(true).open(data.join(format!("{port}.log"))).unwrap();
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(data);
        command.args(arguments).env("NO_COLOR", "1").envs(environment.iter().copied()).stdin(Stdio::null());
        let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while !data.join("pki/ca.crt").exists() {
            if Instant::now() >= end {
                // No value owns the process yet, and it would outlive the test.
                let _ = child.kill();
                let _ = child.wait();
                panic!("{}: no CA is made", data.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, identity: Identity::mint(data) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.port, self.identity.clone())
    }

    pub(crate) fn client_of(&self, identity: Identity) -> Client {
        Client::new(self.port, identity)
    }

    /// Creates a kubeconfig of the user eve with this group. Returns its path.
    pub(crate) fn kubeconfig(&self, data: &Path, group: &str) -> String {
        let path = data.join(format!("{}.kubeconfig", group.replace(':', "-"))).display().to_string();
        let url = format!("https://127.0.0.1:{}", self.port);
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(["kubeconfig", "--user", "eve", "--group", group, "--server", &url, "--output", &path]);
        let output = command.arg("--data-dir").arg(data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    /// Waits until the server listens.
    pub(crate) async fn listening(&self) {
        let end = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            assert!(Instant::now() < end, "nothing listens on {}", self.port);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the server reports that it is ready.
    pub(crate) async fn ready(&self) {
        self.listening().await;
        let (client, end) = (self.client(), Instant::now() + PATIENCE);
        while !matches!(client.get("/readyz").await, Ok(answer) if answer.code == 200) {
            assert!(Instant::now() < end, "the server on {} is not ready", self.port);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(id).status().unwrap().success());
    }

    /// Returns the exit status, once the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server on {} does not end", self.port);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Capstan {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
