//! Server of the suite, as a child process of a test.
#![allow(dead_code, reason = "each test program uses a part of this module")]

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Request;
use http::header::HOST;
use http_body_util::Full;
use tests_conformance::{Area, Client, KnownDifferences, ServerUnderTest, Transcripts};

/// Server of the suite; it is killed when dropped.
pub(crate) struct SuiteServer {
    child: Child,
    address: String,
    home: tempfile::TempDir,
}

impl SuiteServer {
    /// Starts a server with more arguments of `conformance serve`, and waits until it is ready: before, it does not know
    /// which certificates are revoked.
    pub(crate) async fn start(more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        command.args(["serve", "--with-parent", "--port", &port.to_string(), "--dir"]).arg(home.path());
        let child = command.args(more).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let server = Self { child, address: format!("127.0.0.1:{port}"), home };
        let end = Instant::now() + Duration::from_secs(60);
        while !server.is_ready().await {
            assert!(Instant::now() < end, "the server is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    async fn is_ready(&self) -> bool {
        if TcpStream::connect(&self.address).is_err() {
            return false;
        }
        let request = Request::get("/readyz").header(HOST, &self.address).body(Full::default()).unwrap();
        self.target().client.send(request, None).await.is_ok_and(|response| response.status == 200)
    }

    pub(crate) fn target(&self) -> ServerUnderTest {
        let file = |name: String| self.home.path().join(name);
        let client = |name: &str| {
            let (certificate, key) = (file(format!("{name}.crt")), file(format!("{name}.key")));
            Client::new(&self.address, &file("ca.crt".to_owned()), &certificate, &key).unwrap()
        };
        ServerUnderTest {
            client: client("client"),
            users: BTreeMap::from([("alice".to_owned(), client("alice"))]),
            prefix: String::new(),
            through_host: false,
            real: false,
        }
    }

    /// Returns the path of the audit log.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.home.path().join("data/audit/audit.log")
    }
}

impl Drop for SuiteServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a directory of this crate. The variable is read at run time: a build directory may be shared with another
/// checkout.
pub(crate) fn directory(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join(name)
}

/// Cases, recorded results and known differences of one directory.
pub(crate) struct Suite {
    pub(crate) areas: Vec<Area>,
    goldens: Transcripts,
    listed: KnownDifferences,
}

impl Suite {
    pub(crate) fn load(name: &str) -> Self {
        let suite = directory(name);
        Self {
            areas: Area::load(&suite.join("cases")).unwrap(),
            goldens: tests_conformance::load(&suite.join("goldens")).unwrap(),
            listed: KnownDifferences::load(&suite.join("differences.yaml")).unwrap(),
        }
    }

    /// Fails unless the results are those of the real server, except for the listed differences.
    pub(crate) fn check(self, found: &Transcripts) {
        let cases = |transcripts: &Transcripts| transcripts.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            cases(found),
            cases(&self.goldens),
            "cases and goldens differ: cargo xtask conformance record"
        );
        let pairs = found.iter().filter_map(|(id, response)| Some((id, self.goldens.get(id)?, response)));
        let differences =
            pairs.flat_map(|(id, golden, response)| tests_conformance::compare(id, golden, response));
        let (unlisted, stale) = self.listed.partition(differences.collect(), false);
        assert!(unlisted.is_empty(), "not as the real one:\n{}", tests_conformance::report(&unlisted));
        assert!(
            stale.is_empty(),
            "listed, but there is no difference any more; lower the ceiling: {stale:#?}"
        );
    }
}
