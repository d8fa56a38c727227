//! Comparison of Capstan on the embedded store with the recorded responses of a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests_conformance::{Area, Client, KnownDifferences, ServerUnderTest};

/// Server of the suite; it is killed when dropped.
struct SuiteServer {
    child: Child,
    address: String,
    home: tempfile::TempDir,
}

impl SuiteServer {
    fn start() -> Self {
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

    fn target(&self) -> ServerUnderTest {
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

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_kube_apiserver_except_for_known_differences() {
    // The variable is read at run time: a build directory may be shared with another checkout.
    let suite = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let areas = Area::load(&suite.join("cases")).unwrap();
    let goldens = tests_conformance::load(&suite.join("goldens")).unwrap();
    let listed = KnownDifferences::load(&suite.join("differences.yaml")).unwrap();
    let server = SuiteServer::start();
    let responses = server.target().run(&areas, "").await.unwrap();
    let cases =
        |transcripts: &tests_conformance::Transcripts| transcripts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        cases(&responses),
        cases(&goldens),
        "cases and goldens differ: cargo xtask conformance record"
    );
    let found = responses.iter().filter_map(|(id, response)| Some((id, goldens.get(id)?, response)));
    let found =
        found.flat_map(|(id, golden, response)| tests_conformance::compare(id, golden, response)).collect();
    let (unlisted, stale) = listed.partition(found, false);
    assert!(unlisted.is_empty(), "not as the real one:\n{}", tests_conformance::report(&unlisted));
    assert!(stale.is_empty(), "listed, but there is no difference any more; lower the ceiling: {stale:#?}");
}
