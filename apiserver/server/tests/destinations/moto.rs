//! Server of moto, which plays S3.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time until it listens. Python reads many modules first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running server.
pub(crate) struct Moto {
    child: Child,
    port: u16,
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until something listens on a port.
pub(crate) async fn listens(port: u16, name: &str) {
    let end = Instant::now() + PATIENCE;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(Instant::now() < end, "{name} does not listen on {port}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Moto {
    pub(crate) async fn start() -> Self {
        let path = std::env::var_os("CAPSTAN_MOTO").map_or_else(|| "moto_server".into(), PathBuf::from);
        assert!(path.exists(), "{}: `cargo xtask test` installs it and sets CAPSTAN_MOTO", path.display());
        let port = free_port();
        let mut command = Command::new(path);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let it = Self { child, port };
        listens(port, "moto").await;
        it
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
