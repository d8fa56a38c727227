//! etcd server for a test: it starts on free ports and ends with the test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Release of etcd, and the path of its binary.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Release {
    /// The distribution's package.
    Distribution,
    /// A current one, built from the module pinned in `hack/tools/etcd`.
    Current,
}

impl Release {
    fn binary(self) -> PathBuf {
        match self {
            Self::Distribution => program("CAPSTAN_ETCD_DISTRIBUTION", "/usr/bin/etcd"),
            Self::Current => program("CAPSTAN_ETCD_CURRENT", "etcd-current"),
        }
    }
}

/// Returns the path of a program: that of an environment variable, or the default.
fn program(variable: &str, default: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from);
    assert!(
        path.exists(),
        "{} is missing: `cargo xtask test` installs or builds it and sets {variable}",
        path.display()
    );
    path
}

/// TLS files for a server.
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
}

/// Function that creates the command of a server with more flags.
type CommandWith = Box<dyn Fn(&[&str]) -> Command + Send + Sync>;

/// A running etcd.
pub(crate) struct Server {
    child: Mutex<Child>,
    command: CommandWith,
    /// Flags that name it and its cluster.
    membership: Vec<String>,
    client_port: u16,
    scheme: &'static str,
    data: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(release: Release) -> Self {
        Self::start_with(release, &[])
    }

    pub(crate) fn start_with(release: Release, flags: &[&str]) -> Self {
        let flags = flags.iter().map(ToString::to_string).collect();
        let (peer, scheme) = (free_port(), "http");
        let server = Self::spawn(release, scheme, "m0", peer, &cluster_flag(&[peer]), flags);
        server.wait();
        server
    }

    pub(crate) fn start_tls(release: Release, tls: &Tls) -> Self {
        let file = |path: &Path| path.display().to_string();
        let flags = vec![
            format!("--cert-file={}", file(&tls.certificate)),
            format!("--key-file={}", file(&tls.key)),
            format!("--trusted-ca-file={}", file(&tls.ca)),
            "--client-cert-auth".to_owned(),
        ];
        let peer = free_port();
        let server = Self::spawn(release, "https", "m0", peer, &cluster_flag(&[peer]), flags);
        server.wait();
        server
    }

    /// Three members of one cluster.
    pub(crate) fn cluster(release: Release) -> Vec<Self> {
        let peers = [free_port(), free_port(), free_port()];
        let all = cluster_flag(&peers);
        let members: Vec<_> = peers
            .iter()
            .enumerate()
            .map(|(index, peer)| Self::spawn(release, "http", &format!("m{index}"), *peer, &all, Vec::new()))
            .collect();
        members.iter().for_each(Self::wait);
        members
    }

    fn spawn(
        release: Release,
        scheme: &'static str,
        name: &str,
        peer_port: u16,
        cluster: &str,
        flags: Vec<String>,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let client_port = free_port();
        let client = format!("{scheme}://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let membership = vec![
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={peer}"),
            cluster.to_owned(),
        ];
        let mut arguments = vec![
            "--log-level=error".to_owned(),
            format!("--data-dir={}", data.path().join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
        ];
        arguments.extend(membership.iter().cloned().chain(flags));
        let binary = release.binary();
        let command = move |more: &[&str]| {
            let mut command = Command::new(&binary);
            command.args(&arguments).args(more).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let child = Mutex::new(command(&[]).spawn().unwrap());
        Self { child, command: Box::new(command), membership, client_port, scheme, data }
    }

    pub(crate) fn client_port(&self) -> u16 {
        self.client_port
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.client_port)
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again with the data it had.
    pub(crate) fn restart(&self) {
        self.restart_with(&[]);
    }

    fn restart_with(&self, flags: &[&str]) {
        *self.child.lock().unwrap() = (self.command)(flags).spawn().unwrap();
        self.wait();
    }

    fn directory(&self) -> PathBuf {
        self.data.path().join("etcd")
    }

    /// Stops it for a copy of its data directory, as a backup.
    pub(crate) fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        self.kill();
        copy_directory(&self.directory(), &copy.path().join("etcd"));
        self.restart();
        copy
    }

    /// Starts it again with a copy of its data directory.
    pub(crate) fn restore(&self, copy: &tempfile::TempDir) {
        self.kill();
        std::fs::remove_dir_all(self.directory()).unwrap();
        copy_directory(&copy.path().join("etcd"), &self.directory());
        self.restart();
    }

    /// Returns a snapshot, as `etcdctl snapshot save` writes it.
    pub(crate) async fn snapshot(&self) -> tempfile::NamedTempFile {
        let mut client = etcd_client::Client::connect([self.endpoint()], None).await.unwrap();
        let (mut stream, mut bytes) = (client.snapshot().await.unwrap(), Vec::new());
        while let Some(part) = stream.message().await.unwrap() {
            bytes.extend_from_slice(part.blob());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    /// Starts it again with the data that `etcdutl snapshot restore` makes of a snapshot.
    pub(crate) fn restore_snapshot(&self, snapshot: &Path, flags: &[&str]) {
        self.kill();
        std::fs::remove_dir_all(self.directory()).unwrap();
        let mut command = Command::new(program("CAPSTAN_ETCDUTL", "etcdutl"));
        command.args(["snapshot", "restore"]).arg(snapshot).arg("--data-dir").arg(self.directory());
        let output = command.args(&self.membership).args(flags).output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        self.restart();
    }

    /// Starts it again without data, as another cluster.
    pub(crate) fn start_anew(&self) {
        self.kill();
        std::fs::remove_dir_all(self.directory()).unwrap();
        self.restart_with(&["--initial-cluster-token=another"]);
    }

    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", self.client_port)).is_err() {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "etcd has ended: {ended:?}");
            assert!(Instant::now() < end, "etcd did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn cluster_flag(peers: &[u16]) -> String {
    let members = peers.iter().enumerate().map(|(index, port)| format!("m{index}=http://127.0.0.1:{port}"));
    format!("--initial-cluster={}", members.collect::<Vec<_>>().join(","))
}

/// Returns a port that no process listens on, and that no other test of this process gets. The system gives out a
/// port that was free a moment ago again, and an etcd that finds it taken ends.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports of outgoing connections. Two processes seldom begin at the same number.
    let first = 20_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000);
    ports.take(2_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}
