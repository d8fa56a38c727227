//! Rotation of all CAs over two servers on one etcd, under the load of clients that follow the documented steps.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Identity};
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// Pause of a client between two requests, so that four of them leave the machine to the servers.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients with one identity: for each server one that writes over one connection, and one that connects anew each time.
struct Load {
    over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
    answered: Arc<AtomicU64>,
}

impl Load {
    fn start(name: &'static str, servers: &[Capstan; 2], identity: &Identity) -> Self {
        let (over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for server in servers {
            for reconnects in [false, true] {
                let (over, answered, port) = (Arc::clone(&over), Arc::clone(&answered), server.port);
                let name = format!("{name}-{port}-{reconnects}");
                let client = Client::new(port, identity.clone());
                tasks.push(tokio::spawn(requests(name, client, reconnects, over, answered)));
            }
        }
        Self { over, tasks, answered }
    }

    /// Ends the load. All requests must have succeeded.
    async fn check(self, name: &str) {
        self.over.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        for task in self.tasks {
            failed.extend(task.await.unwrap());
        }
        let answered = self.answered.load(Ordering::Relaxed);
        assert!(failed.is_empty(), "{name}: {} of {answered} failed: {:?}", failed.len(), failed.first());
        assert!(answered > 20, "{name}: only {answered} requests");
    }
}

async fn requests(
    name: String,
    client: Client,
    reconnects: bool,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) -> Vec<String> {
    let mut failed = Vec::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let answer = if reconnects {
            client.reconnected().get(LEASES).await
        } else {
            let lease = format!(
                r#"{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {{"name": "{name}-{number}"}}}}"#
            );
            client.with_retries("POST", LEASES, &lease).await
        };
        match answer {
            Ok(answer) if matches!(answer.code, 200 | 201) => drop(answered.fetch_add(1, Ordering::Relaxed)),
            Ok(answer) => failed.push(format!("{name}-{number}: {} {}", answer.code, answer.text())),
            Err(lost) => failed.push(format!("{name}-{number}: {lost:?}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
    failed
}

/// Writes a configuration with the etcd, for commands.
fn configuration(data: &Path, url: &str) -> PathBuf {
    let path = data.join("config.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {}\nstorage:\n  etcd:\n    endpoints: [{url}]\n",
        data.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs a command. Returns what it printed, and whether it succeeded.
async fn capstan(config: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(words).arg("--config").arg(config).env("NO_COLOR", "1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (output.status.success(), text)
}

/// Waits until each server writes this number of certificates of CAs for its clients.
async fn trusted(directories: [&Path; 2], expected: usize) {
    let end = Instant::now() + 2 * PATIENCE;
    let count =
        |data: &Path| std::fs::read_to_string(data.join("pki/ca.crt")).unwrap().matches("BEGIN CERT").count();
    while directories.map(count) != [expected; 2] {
        assert!(Instant::now() < end, "{:?} certificates of CAs", directories.map(count));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until both servers accept a client, or until both reject it.
async fn until_both(servers: &[Capstan; 2], identity: &Identity, code: u16) {
    let end = Instant::now() + 2 * PATIENCE;
    for server in servers {
        let client = Client::new(server.port, identity.clone());
        loop {
            let answer = client.reconnected().get(LEASES).await;
            if matches!(&answer, Ok(answer) if answer.code == code) {
                break;
            }
            assert!(Instant::now() < end, "no {code}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ia_12_no_request_fails_while_all_cas_are_rotated() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let one = Capstan::start(first, &flags);
    one.ready().await;
    share_secrets(first, second);
    let servers = [one, Capstan::start(second, &flags)];
    servers[1].ready().await;
    let config = configuration(first, &url);
    let user = ["--user", "before", "--break-glass", "--reason", "rotation"];
    let old = Identity::with_configuration(&config, &user);
    until_both(&servers, &old, 200).await;

    let load = Load::start("old", &servers, &old);
    let (done, text) = capstan(&config, &["ca", "start"]).await;
    assert!(done, "{text}");
    trusted([first, second], 2).await;
    load.check("the first step").await;

    // The same certificate, beside the new CA of servers: the user has fetched the published certificates.
    let both = old.clone().with_roots(&std::fs::read(first.join("pki/ca.crt")).unwrap());
    let load = Load::start("both", &servers, &both);
    let (done, text) = capstan(&config, &["ca", "promote"]).await;
    assert!(done, "{text}");
    let user = ["--user", "after", "--break-glass", "--reason", "rotation"];
    let new = Identity::with_configuration(&config, &user);
    let only_new = new.clone().with_last_root(&std::fs::read(first.join("pki/ca.crt")).unwrap());
    until_both(&servers, &only_new, 200).await;
    load.check("the second step").await;

    let load = Load::start("new", &servers, &only_new);
    let (done, text) = capstan(&config, &["ca", "finish"]).await;
    assert!(!done && text.contains("before"), "a certificate of the old CA was used: {text}");
    let (done, text) = capstan(&config, &["ca", "finish", "--force"]).await;
    assert!(done, "{text}");
    trusted([first, second], 1).await;
    until_both(&servers, &both, 401).await;
    load.check("the third step").await;
}
