//! Data directory with a configuration and objects, and the program on it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

/// Longest time until the first start has made the store.
const PATIENCE: Duration = Duration::from_secs(60);

/// Installation with a schedule.
pub(crate) struct Installation {
    directory: tempfile::TempDir,
}

impl Installation {
    /// Creates an installation whose server has run once. `settings`: more lines below `backup`.
    pub(crate) async fn new(destination: &str, settings: &str) -> Self {
        let it = Self { directory: tempfile::tempdir().unwrap() };
        let path = |name: &str| it.path(name).display().to_string();
        let settings =
            settings.replace("CREDENTIALS", &path("CREDENTIALS")).replace("CLOUDS", &path("CLOUDS"));
        it.write(
            "config.yaml",
            &format!(
                "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {}\nlisten: 127.0.0.1:0\n\
                 backup:\n  keyFile: {}\n{settings}  schedule:\n    every: 1m\n    to: ['{destination}']\n    \
                 keep: {{hourly: 1, daily: 0, weekly: 0}}\n",
                path("data"),
                path("backup.key")
            ),
        );
        it.write(
            "CREDENTIALS",
            "[default]\naws_access_key_id = test\naws_secret_access_key = secret-of-the-test\n",
        );
        let key =
            Command::new(env!("CARGO_BIN_EXE_capstan")).args(["backup", "key", &path("backup.key")]).output();
        assert!(key.unwrap().status.success());
        let first = Server::without_schedule(&it);
        let end = Instant::now() + PATIENCE;
        while !first.log().contains("serving; make a kubeconfig") {
            assert!(Instant::now() < end, "{}", first.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(first);
        it
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Adds objects to the store, while no server runs.
    pub(crate) async fn add_objects(&self, objects: impl Iterator<Item = String>) {
        let store = EmbeddedStore::open(&self.path("data/store.redb")).unwrap();
        for (number, object) in objects.enumerate() {
            let key = Key::new(format!("/capstan/core/configmaps/default/m{number}")).unwrap();
            store.create(&key, object.into()).await.unwrap();
        }
    }

    /// Returns the names of the files in the data directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.path("data")).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(arguments).env("NO_COLOR", "1").env_remove("AWS_ACCESS_KEY_ID");
        if !arguments.contains(&"--config") {
            command.arg("--config").arg(self.path("config.yaml"));
        }
        let output: Output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text =
            [&output.stdout[..], &output.stderr].map(|part| String::from_utf8_lossy(part).into_owned());
        (output.status.success(), text.concat())
    }

    pub(crate) async fn succeeds(&self, arguments: &[&str]) -> String {
        let (success, text) = self.run(arguments).await;
        assert!(success, "{arguments:?}: {text}");
        text
    }

    pub(crate) async fn fails(&self, arguments: &[&str]) -> String {
        let (success, text) = self.run(arguments).await;
        assert!(!success, "{arguments:?}: {text}");
        text
    }
}

/// Server of an installation. It is killed when the value is dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    pub(crate) fn start(it: &Installation) -> Self {
        Self::run(it, &["--config", it.path("config.yaml").to_str().unwrap()])
    }

    fn without_schedule(it: &Installation) -> Self {
        Self::run(it, &["--listen", "127.0.0.1:0", "--data-dir", it.path("data").to_str().unwrap()])
    }

    fn run(it: &Installation, arguments: &[&str]) -> Self {
        let log = it.path("server.log");
        let file = File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.arg("serve").args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
