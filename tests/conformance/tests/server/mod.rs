//! Server of the suite, as a child process of a test.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests_conformance::{Client, ServerUnderTest};

/// Server of the suite; it is killed when dropped.
pub(crate) struct SuiteServer {
    child: Child,
    address: String,
    home: tempfile::TempDir,
}

impl SuiteServer {
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        command.args(["serve", "--with-parent", "--port", &port.to_string(), "--dir"]).arg(home.path());
        let child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let server = Self { child, address: format!("127.0.0.1:{port}"), home };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&server.address).is_err() {
            assert!(Instant::now() < end, "the server does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub(crate) fn target(&self) -> ServerUnderTest {
        let file = |name: &str| self.home.path().join(name);
        let client = Client::new(&self.address, &file("ca.crt"), &file("client.crt"), &file("client.key"));
        ServerUnderTest { client: client.unwrap(), prefix: String::new(), through_host: false, real: false }
    }
}

impl Drop for SuiteServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
