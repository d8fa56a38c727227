//! Real etcd process, which tests can stop and start again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Member of an etcd cluster; mostly the only one.
pub(crate) struct Etcd {
    child: Option<Child>,
    name: String,
    ports: [u16; 2],
    /// Names and peer addresses of all members.
    cluster: String,
    flags: Vec<String>,
    data: tempfile::TempDir,
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the path of a program: that of an environment variable, or the default.
fn program(variable: &str, default: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(|| default.into(), PathBuf::from);
    assert!(path.exists(), "{}: `cargo xtask test` builds it and sets {variable}", path.display());
    path
}

impl Etcd {
    /// Creates an etcd that does not run yet, and whose address is known.
    pub(crate) fn prepared() -> Self {
        Self::named("m0", [free_port(), free_port()], String::new())
    }

    fn named(name: &str, ports: [u16; 2], cluster: String) -> Self {
        let alone = format!("{name}=http://127.0.0.1:{}", ports[1]);
        let cluster = if cluster.is_empty() { alone } else { cluster };
        let (name, data) = (name.to_owned(), tempfile::tempdir().unwrap());
        Self { child: None, name, ports, cluster, flags: Vec::new(), data }
    }

    /// Starts a cluster of this many members.
    pub(crate) fn members(count: usize) -> Vec<Self> {
        let ports: Vec<[u16; 2]> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let peer = |(number, ports): (usize, &[u16; 2])| format!("m{number}=http://127.0.0.1:{}", ports[1]);
        let cluster = ports.iter().enumerate().map(peer).collect::<Vec<_>>().join(",");
        let named = |(number, ports)| Self::named(&format!("m{number}"), ports, cluster.clone());
        let mut members: Vec<Self> = ports.into_iter().enumerate().map(named).collect();
        // A member serves its clients once it has found the others.
        members.iter_mut().for_each(Self::spawn);
        members.iter().for_each(Self::listening);
        members
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Starts it with more flags.
    pub(crate) fn started_with(flags: &[&str]) -> Self {
        let mut etcd = Self::prepared();
        etcd.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        etcd.start();
        etcd
    }

    pub(crate) fn started() -> Self {
        let mut etcd = Self::prepared();
        etcd.start();
        etcd
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn start(&mut self) {
        self.spawn();
        self.listening();
    }

    fn spawn(&mut self) {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(program("CAPSTAN_ETCD_CURRENT", "etcd-current"));
        command.arg("--log-level=error").args(&self.flags).args(self.membership());
        command.arg(format!("--data-dir={}", self.data.path().display()));
        command
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"));
        command.arg(format!("--listen-peer-urls={peer}"));
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// Returns the flags that name it and its cluster.
    fn membership(&self) -> [String; 3] {
        [
            format!("--name={}", self.name),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{}", self.ports[1]),
            format!("--initial-cluster={}", self.cluster),
        ]
    }

    fn listening(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(("127.0.0.1", self.ports[0])).is_err() {
            assert!(Instant::now() < end, "etcd does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it for a copy of its data directory, as a backup.
    pub(crate) fn copy(&mut self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        self.stop();
        copy_directory(self.data.path(), copy.path());
        self.start();
        copy
    }

    /// Starts it again with a copy of its data directory.
    pub(crate) fn restore(&mut self, copy: &tempfile::TempDir) {
        self.stop();
        std::fs::remove_dir_all(self.data.path().join("member")).unwrap();
        copy_directory(copy.path(), self.data.path());
        self.start();
    }

    /// Starts it again with the data that `etcdutl snapshot restore` makes of the database in a copy. The database lacks
    /// the writes of the last tenth of a second before the copy.
    pub(crate) fn restore_snapshot(&mut self, copy: &tempfile::TempDir, flags: &[&str]) {
        self.stop();
        std::fs::remove_dir_all(self.data.path().join("member")).unwrap();
        let mut command = Command::new(program("CAPSTAN_ETCDUTL", "etcdutl"));
        command.args(["snapshot", "restore", "--skip-hash-check"]).arg(copy.path().join("member/snap/db"));
        command.arg("--data-dir").arg(self.data.path()).args(self.membership()).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.start();
    }

    /// Sends the process a signal: `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(id).status().unwrap().success());
    }
}

fn copy_directory(from: &Path, to: &Path) {
    let member = from.join("member");
    assert!(Command::new("cp").arg("-a").arg(member).arg(to).status().unwrap().success());
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
