//! Stored form of an etcd: commit, downgrade, a form that the release cannot read, and two releases side by side.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use storage_contract::{Form, Store};
use storage_embedded::EmbeddedStore;

use crate::client::Client;
use crate::etcd::{Etcd, free_port};
use crate::key_rotation::{run, sealed_by, secret, store, until_done};
use crate::process::{Capstan, PATIENCE, command};
use crate::rolling_restart::share_secrets;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const OLD: &str = "k8s:enc:aesgcm:v1:";
const NEW: &str = "k8s:enc:aesgcm:v2:";

async fn create(client: &Client, name: &str) {
    let answer = client.with_retries("POST", SECRETS, &secret(name)).await.unwrap();
    assert_eq!(answer.code, 201, "{name}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_22_a_downgrade_rewrites_all_values_and_a_commit_allows_the_newer_form_again() {
    let (etcd, directory) = (Etcd::started(), tempfile::tempdir().unwrap());
    let (data, url) = (directory.path(), etcd.url());
    let server = Capstan::start(data, &["--etcd-endpoints", url.as_str()]);
    server.ready().await;
    let (client, store) = (server.client(), store(&url).await);
    assert_eq!(store.form(), Form::of(4), "an empty store gets the newest form");
    for number in 0..30 {
        create(&client, &format!("s{number}")).await;
    }
    assert!(sealed_by(&store, "s0").await.starts_with(NEW));

    let refused = run(data, &url, &["storage", "downgrade", "--to", "2"]);
    assert!(!refused.status.success());
    until_done(data, &url, &["storage", "downgrade", "--to", "3"]);
    assert!(store.get(&storage_contract::Key::new("/capstan/x").unwrap()).await.unwrap().is_none());
    assert_eq!(store.form(), Form::of(3));
    create(&client, "later").await;
    for name in ["s0", "s29", "later"] {
        assert!(sealed_by(&store, name).await.starts_with(OLD), "{name}");
    }
    // No watch ended and nothing was read again: the form is no new history.
    assert_eq!(store.history(), 0);
    assert_eq!(client.get(&format!("{SECRETS}/s7")).await.unwrap().code, 200);

    until_done(data, &url, &["storage", "commit"]);
    let end = Instant::now() + PATIENCE;
    for number in 0.. {
        let name = format!("newest{number}");
        create(&client, &name).await;
        if sealed_by(&store, &name).await.starts_with(NEW) {
            break;
        }
        assert!(Instant::now() < end, "the committed form is not written");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(store.form(), Form { committed: 4, least: 3, to: None });
    until_done(data, &url, &["storage", "migrate"]);
    let _ = store.current_revision().await.unwrap();
    assert_eq!(store.form(), Form::of(4));
    assert!(sealed_by(&store, "s0").await.starts_with(NEW));
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_22_a_server_does_not_serve_a_form_that_it_cannot_read() {
    let (etcd, directory) = (Etcd::started(), tempfile::tempdir().unwrap());
    let (data, url) = (directory.path(), etcd.url());
    let server = Capstan::start(data, &["--etcd-endpoints", url.as_str()]);
    server.ready().await;
    let (client, store) = (server.client(), store(&url).await);
    store.change_form(store.form(), Form::of(9)).await.unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let code = client.once("POST", SECRETS, &secret("s")).await.map_or(0, |answer| answer.code);
        assert_ne!(code, 201, "it writes");
        let ready = client.get("/readyz").await.unwrap().text();
        if ready.contains("[-]storage-form failed") {
            break;
        }
        assert!(Instant::now() < end, "{ready}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // A second one does not begin to serve, either.
    let other = tempfile::tempdir().unwrap();
    share_secrets(data, other.path());
    let second = Capstan::start(other.path(), &["--etcd-endpoints", url.as_str()]);
    second.listening().await;
    let end = Instant::now() + PATIENCE;
    while !second.client().get("/readyz").await.unwrap().text().contains("[-]storage-form failed") {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let log = std::fs::read_to_string(other.path().join(format!("{}.log", second.port))).unwrap();
    assert!(log.contains("the store has form 9, and this release reads forms 3 to 4"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_22_a_server_that_cannot_read_the_form_ends_with_code_78_whether_it_served_before_or_not() {
    let (etcd, directory) = (Etcd::started(), tempfile::tempdir().unwrap());
    let (data, url) = (directory.path(), etcd.url());
    let file = data.join("capstan.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nstorage:\n  formTimeout: 2s\n  \
         etcd: {{endpoints: ['{url}']}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--shutdown-delay", "0s"];
    let mut server = Capstan::start(data, &flags);
    server.ready().await;
    let store = store(&url).await;
    store.change_form(store.form(), Form::of(9)).await.unwrap();
    assert_eq!(server.ended().await.code(), Some(78));
    let log = std::fs::read_to_string(data.join(format!("{}.log", server.port))).unwrap();
    assert!(log.contains("start the release that committed it, or a newer one"), "{log}");
    let mut again = Capstan::start(data, &flags);
    assert_eq!(again.ended().await.code(), Some(78));
}

/// Program of the last release with form 3. `cargo xtask e2e --only versions` builds it once.
fn previous() -> PathBuf {
    let path = std::env::var_os("CAPSTAN_PREVIOUS").map(PathBuf::from);
    path.expect("set CAPSTAN_PREVIOUS to the program of the last release with form 3")
}

fn current() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_capstan"))
}

/// Three replicas, which are replaced one after the other while Secrets are written.
struct Replicas {
    url: String,
    directories: [tempfile::TempDir; 3],
    ports: [u16; 3],
    running: Vec<Option<Capstan>>,
    written: Vec<String>,
}

impl Replicas {
    async fn start(etcd: &Etcd, program: &Path) -> Self {
        let mut it = Self {
            url: etcd.url(),
            directories: std::array::from_fn(|_| tempfile::tempdir().unwrap()),
            ports: std::array::from_fn(|_| free_port()),
            running: vec![None, None, None],
            written: Vec::new(),
        };
        for index in 0..3 {
            it.run(index, program).await;
            if index == 0 {
                for other in [1, 2] {
                    share_secrets(it.directories[0].path(), it.directories[other].path());
                }
            }
        }
        it
    }

    async fn run(&mut self, index: usize, program: &Path) {
        let flags = ["--etcd-endpoints", self.url.as_str(), "--shutdown-delay", "0s"];
        let server =
            Capstan::start_program(program, self.ports[index], self.directories[index].path(), &flags);
        server.ready().await;
        self.running[index] = Some(server);
    }

    fn data(&self) -> &Path {
        self.directories[0].path()
    }

    /// Writes through each replica, and reads all Secrets through each replica.
    async fn check(&mut self, step: &str) {
        for (index, server) in self.running.iter().enumerate() {
            let name = format!("{step}-{index}");
            create(&server.as_ref().unwrap().client(), &name).await;
            self.written.push(name);
        }
        for (index, server) in self.running.iter().enumerate() {
            let client = server.as_ref().unwrap().client();
            for name in &self.written {
                let answer = client.with_retries("GET", &format!("{SECRETS}/{name}"), "").await.unwrap();
                assert_eq!(answer.code, 200, "{step}: {name} through {index}: {}", answer.text());
            }
        }
    }

    /// Replaces all replicas by another release, one after the other.
    async fn roll(&mut self, program: &Path, step: &str) {
        for index in 0..3 {
            let mut old = self.running[index].take().unwrap();
            old.signal("TERM");
            let status = old.ended().await;
            assert_eq!(status.code(), Some(0), "{step}: {status}");
            drop(old);
            self.run(index, program).await;
            self.check(&format!("{step}{index}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs CAPSTAN_PREVIOUS, the program of the last release with form 3: cargo xtask e2e --only versions"]
async fn hv_25_three_replicas_go_up_down_and_up_again_between_two_releases() {
    let etcd = Etcd::started();
    let mut replicas = Replicas::start(&etcd, &previous()).await;
    replicas.check("first").await;
    let store = store(&etcd.url()).await;
    assert_eq!(store.form(), Form::of(3));
    for round in ["up", "again"] {
        replicas.roll(&current(), round).await;
        assert!(
            sealed_by(&store, &format!("{round}2-2")).await.starts_with(OLD),
            "the form is not committed"
        );
        until_done(replicas.data(), &etcd.url(), &["storage", "commit"]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        replicas.check(&format!("{round}-committed")).await;
        assert!(sealed_by(&store, &format!("{round}-committed-0")).await.starts_with(NEW));
        if round == "up" {
            until_done(replicas.data(), &etcd.url(), &["storage", "downgrade", "--to", "3"]);
            replicas.check("downgraded").await;
            replicas.roll(&previous(), "down").await;
        }
    }
}

/// Returns true if the value of a Secret in a closed embedded store begins so.
async fn begins(data: &Path, name: &str, start: &str) -> bool {
    let store = EmbeddedStore::open(&data.join("store.redb")).unwrap();
    sealed_by(&store, name).await.starts_with(start)
}

/// Runs a program on an embedded store: it creates a Secret and reads all that were created.
async fn lives(program: &Path, data: &Path, written: &mut Vec<String>) {
    let mut server = Capstan::start_program(program, free_port(), data, &["--shutdown-delay", "0s"]);
    server.ready().await;
    let (client, new) = (server.client(), format!("s{}", written.len()));
    create(&client, &new).await;
    written.push(new);
    for name in written.iter() {
        let answer = client.with_retries("GET", &format!("{SECRETS}/{name}"), "").await.unwrap();
        assert_eq!(answer.code, 200, "{}: {name}: {}", program.display(), answer.text());
    }
    server.signal("TERM");
    let status = server.ended().await;
    assert_eq!(status.code(), Some(0), "{}: {status}", program.display());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs CAPSTAN_PREVIOUS, the program of the last release with form 3: cargo xtask e2e --only versions"]
async fn hv_25_an_embedded_store_goes_up_down_and_up_again_between_two_releases() {
    let (directory, mut written) = (tempfile::tempdir().unwrap(), Vec::new());
    let data = directory.path();
    for program in [previous(), current(), previous(), current()] {
        lives(&program, data, &mut written).await;
        assert!(begins(data, written.last().unwrap(), OLD).await, "{}", program.display());
    }
}

/// A migration copies values as they are in etcd, also those that the last release cannot read.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs CAPSTAN_PREVIOUS, the program of the last release with form 3: cargo xtask e2e --only versions"]
async fn hv_25_a_store_that_moved_from_etcd_to_a_file_goes_back_to_the_last_release() {
    let (etcd, directory) = (Etcd::started(), tempfile::tempdir().unwrap());
    let (data, url) = (directory.path(), etcd.url());
    let mut server = Capstan::start(data, &["--etcd-endpoints", url.as_str(), "--shutdown-delay", "0s"]);
    server.ready().await;
    create(&server.client(), "s0").await;
    server.signal("TERM");
    server.ended().await;
    let moved = run(data, &url, &["storage", "migrate", "--from", "etcd", "--to", "embedded"]);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    assert!(begins(data, "s0", NEW).await);
    let text = data.to_str().unwrap();
    let written = command(&["storage", "downgrade", "--to", "3", "--data-dir", text]).await;
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert!(begins(data, "s0", OLD).await);
    lives(&previous(), data, &mut vec!["s0".to_owned()]).await;
}
