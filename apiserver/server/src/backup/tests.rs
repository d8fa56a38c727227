//! Tests of the commands on the embedded store, and of scheduled backups.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use apiserver_cli::ConnectionArguments;
use bytes::Bytes;
use prometheus_client::registry::Registry;
use storage_backup::{BackupKey, RESTORED, ROOT};
use storage_contract::{Entry, Key, KeyRange, ListOptions, Revision, Store};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

use super::location::Location;
use super::values::Values;
use super::{BackupMetrics, Backups, check_key_file, key_file, restore, run, trial};
use crate::cli::backup::BackupKeyArguments;
use crate::cli::{BackupArguments, BackupCommand, RestoreArguments, StoreArguments, StoreKind};
use crate::config::{Backup, ServerConfiguration};
use crate::encryption;
use crate::encryption_keys::EncryptionKeys;

const SECRET: &str = "/capstan/core/secrets/team/s";
const POD: &str = "/capstan/core/pods/team/p";

/// Server that has run, and its backup key.
struct Installation {
    directory: tempfile::TempDir,
}

impl Installation {
    fn new() -> Self {
        let installation = Self { directory: tempfile::tempdir().unwrap() };
        key_file::create(&installation.path("backup.key")).unwrap();
        installation.filled("data");
        installation
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Creates a data directory with an object and a sealed one.
    fn filled(&self, data: &str) {
        super::block_on(async {
            let data = self.path(data);
            let store = EmbeddedStore::open(&data.join("store.redb"))?;
            let keys = EncryptionKeys::new(encryption::load(None, &data)?);
            keys.agree(&store).await?;
            let sealed = keys.encryption().seal("secrets", SECRET, Bytes::from(r#"{"data":{}}"#))?;
            for (key, value) in [(SECRET, sealed), (POD, Bytes::from(r#"{"kind":"Pod"}"#))] {
                store.create(&Key::new(key)?, value).await?;
            }
            Ok(())
        })
        .unwrap();
    }

    fn store(&self, data: &str) -> StoreArguments {
        StoreArguments { config: None, data_dir: Some(self.path(data)), etcd_endpoints: Vec::new() }
    }

    fn backup(&self, data: &str, file: &str) -> anyhow::Result<()> {
        self.backup_with(data, file, None)
    }

    fn backup_with(&self, data: &str, file: &str, recovery: Option<&str>) -> anyhow::Result<()> {
        run(&BackupArguments {
            command: None,
            store: self.store(data),
            to: Some(self.path(file).display().to_string()),
            key_file: Some(self.path("backup.key")),
            cluster: None,
            include_keys: recovery.is_some(),
            recovery_key_file: recovery.map(|name| self.path(name)),
            connection: ConnectionArguments::default(),
        })
    }

    fn restore(&self, file: &str, data: &str, replace: bool) -> anyhow::Result<()> {
        self.restore_with(file, data, Some(StoreKind::Embedded), replace)
    }

    fn restore_with(
        &self,
        file: &str,
        data: &str,
        to: Option<StoreKind>,
        replace: bool,
    ) -> anyhow::Result<()> {
        restore(&RestoreArguments { replace, ..self.arguments(file, data, to) })
    }

    fn arguments(&self, file: &str, data: &str, to: Option<StoreKind>) -> RestoreArguments {
        RestoreArguments {
            file: Some(self.path(file).display().to_string()),
            store: self.store(data),
            done: false,
            to,
            key_file: Some(self.path("backup.key")),
            verify_only: to.is_none(),
            replace: false,
            force: false,
            recovery_key_file: None,
        }
    }

    /// Returns the entries and the revision of a store.
    fn content(&self, data: &str) -> (Vec<Entry>, Revision) {
        super::block_on(async {
            let store = EmbeddedStore::open(&self.path(data).join("store.redb"))?;
            let page = store.list(&KeyRange::prefix(ROOT), &ListOptions::default()).await?;
            Ok((page.entries, store.current_revision().await?))
        })
        .unwrap()
    }

    fn update(&self, data: &str) -> Revision {
        super::block_on(async {
            let store = EmbeddedStore::open(&self.path(data).join("store.redb"))?;
            let key = Key::new(POD)?;
            let entry = store.get(&key).await?.unwrap();
            Ok(store.update(&key, entry.modified, Bytes::from(r#"{"kind":"Pod","new":true}"#)).await?)
        })
        .unwrap()
    }
}

/// Returns the values without the record of a restore, which has its time.
fn values(entries: &[Entry]) -> Vec<(String, Bytes)> {
    let entries = entries.iter().filter(|entry| entry.key.as_str() != RESTORED);
    entries.map(|entry| (entry.key.to_string(), entry.value.clone())).collect()
}

fn files(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn bk_05_a_backup_is_restored_to_an_empty_directory_with_sealed_values_as_they_were() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    it.restore_with("b", "data", None, false).unwrap();
    it.restore("b", "other", false).unwrap();
    let (before, revision) = it.content("data");
    let (after, restored) = it.content("other");
    assert_eq!(values(&after), values(&before));
    assert!(restored > revision && after.iter().all(|entry| entry.created > revision), "{restored}");
    assert_eq!(files(&it.path("other")), ["store.redb", "store.redb-journal-0", "store.redb-journal-1"]);
    // The same restore again finds that nothing is to do.
    it.restore("b", "other", false).unwrap();
    assert_eq!(it.content("other").1, restored);
}

#[test]
fn bk_08_revisions_grow_over_twenty_restores_and_former_objects_are_kept() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    let original = values(&it.content("data").0);
    let mut newest = it.update("data");
    let refused = it.restore("b", "data", false).unwrap_err().to_string();
    assert!(refused.contains("exists already; give --replace"), "{refused}");
    for round in 0..20 {
        // Names of former stores have seconds.
        for file in files(&it.path("data")).iter().filter(|name| name.contains("replaced")) {
            std::fs::rename(it.path("data").join(file), it.path(&format!("old-{round}"))).unwrap();
        }
        it.restore("b", "data", true).unwrap();
        let (entries, revision) = it.content("data");
        assert_eq!(values(&entries), original);
        assert!(revision > newest, "{round}: {revision} {newest}");
        newest = it.update("data");
    }
    assert!(files(&it.path("data")).iter().any(|name| name.starts_with("store.redb-replaced-2")));
    std::fs::create_dir(it.path("former")).unwrap();
    std::fs::rename(it.path("old-1"), it.path("former/store.redb")).unwrap();
    assert_ne!(values(&it.content("former").0), original, "the update is in the former store");
}

#[test]
fn bk_08_the_rest_of_an_interrupted_restore_changes_nothing() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    std::fs::create_dir(it.path("other")).unwrap();
    // Interrupted while the new store was written, and while its file was created.
    drop(EmbeddedStore::open(&it.path("other/store.redb.restoring")).unwrap());
    it.restore("b", "other", false).unwrap();
    std::fs::write(it.path("other/store.redb.restoring"), "half a file").unwrap();
    std::fs::copy(it.path("data/encryption.yaml"), it.path("other/encryption.yaml")).unwrap();
    it.restore("b", "other", true).unwrap();
    assert_eq!(values(&it.content("other").0), values(&it.content("data").0));
    assert!(!files(&it.path("other")).iter().any(|name| name.contains("restoring")));
}

#[test]
fn bk_03_objects_are_replaced_by_a_backup_without_readable_secrets_only_by_force() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    it.filled("other");
    let before = it.content("other").0;
    let refused = it.restore("b", "other", true).unwrap_err().to_string();
    assert!(refused.contains("other/encryption.yaml: none of the "), "{refused}");
    assert!(refused.contains("--recovery-key-file") && refused.contains("--force"), "{refused}");
    assert_eq!(it.content("other").0, before, "nothing was replaced");
    let arguments = it.arguments("b", "other", Some(StoreKind::Embedded));
    restore(&RestoreArguments { replace: true, force: true, ..arguments }).unwrap();
    assert_eq!(values(&it.content("other").0), values(&it.content("data").0));
}

#[test]
fn bk_02_a_server_with_an_unusable_backup_key_is_refused_with_the_field_and_the_remedy() {
    let it = Installation::new();
    std::fs::write(it.path("malformed"), "hunter2\n").unwrap();
    let check = |name: Option<&str>| {
        let key_file = name.map(|name| it.path(name));
        check_key_file(&Backup { key_file, ..Backup::default() }).map_err(|error| format!("{error:#}"))
    };
    assert_eq!((check(None), check(Some("backup.key"))), (Ok(()), Ok(())));
    for (name, remedy) in [("missing", "create one with `capstan backup key"), ("malformed", "has no line")] {
        let error = check(Some(name)).unwrap_err();
        assert!(error.starts_with("backup.keyFile: ") && error.contains(remedy), "{error}");
        assert!(
            error.contains(&it.path(name).display().to_string()) && !error.contains("hunter2"),
            "{error}"
        );
    }
}

#[test]
fn bk_03_a_damaged_backup_writes_nothing() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    let good = std::fs::read(it.path("b")).unwrap();
    let begin = good.windows(2).position(|two| two == b"\n\n").unwrap() + 2;
    for cut in [begin, begin + 3, good.len() - 1] {
        std::fs::write(it.path("cut"), &good[..cut]).unwrap();
        let error = format!("{:#}", it.restore("cut", "other", true).unwrap_err());
        assert!(error.contains("cut off, or never completed"), "{error}");
    }
    let mut flipped = good.clone();
    flipped[begin + 20] ^= 1;
    std::fs::write(it.path("flipped"), &flipped).unwrap();
    let error = format!("{:#}", it.restore("flipped", "data", true).unwrap_err());
    assert!(error.contains("frame 0 of the backup is damaged"), "{error}");
    assert!(!it.path("other").exists() && it.content("data").0.len() == 3);
}

#[test]
fn a_backup_replaces_no_file_and_leaves_no_part_of_one() {
    let it = Installation::new();
    it.backup("data", "b").unwrap();
    let error = it.backup("data", "b").unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
    std::fs::create_dir(it.path("directory")).unwrap();
    it.backup("data", "directory").unwrap();
    let names = files(&it.path("directory"));
    assert!(names.len() == 1 && names[0].starts_with("capstan-2"), "{names:?}");
    // A slash at the end names a directory, also one that does not exist yet.
    it.backup("data", "new/").unwrap();
    let names = files(&it.path("new"));
    assert!(names.len() == 1 && names[0].starts_with("capstan-2"), "{names:?}");
    let open = EmbeddedStore::open(&it.path("data/store.redb")).unwrap();
    let error = format!("{:#}", it.backup("data", "c").unwrap_err());
    assert!(error.contains("stop the server") && error.contains("backup.schedule"), "{error}");
    drop(open);
    let error = it.backup("none", "c").unwrap_err().to_string();
    assert!(error.contains("there is no store"), "{error}");
    assert!(!files(it.directory.path()).iter().any(|name| name.starts_with('c') || name.contains("partial")));
}

#[test]
fn bk_07_a_namespace_without_objects_is_refused_and_makes_no_directory() {
    let it = Installation::new();
    let namespace = Some("mistyped".to_owned());
    let arguments = BackupArguments {
        command: None,
        store: it.store("data"),
        to: Some(it.path("objects").display().to_string()),
        key_file: None,
        cluster: None,
        include_keys: false,
        recovery_key_file: None,
        connection: ConnectionArguments { namespace, ..ConnectionArguments::default() },
    };
    let error = run(&arguments).unwrap_err().to_string();
    assert!(error.contains("the namespace mistyped has no objects"), "{error}");
    assert!(!it.path("objects").exists());
}

#[test]
fn a_backup_key_is_created_once_and_private_and_is_no_encryption_key() {
    let it = Installation::new();
    let file = it.path("k");
    let create = BackupKeyArguments { file: file.clone() };
    let create = BackupArguments {
        command: Some(BackupCommand::Key(create)),
        store: it.store("data"),
        to: None,
        key_file: None,
        cluster: None,
        include_keys: false,
        recovery_key_file: None,
        connection: ConnectionArguments::default(),
    };
    run(&create).unwrap();
    assert!(run(&create).unwrap_err().to_string().contains("exists already"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let key = key_file::read(&file).unwrap();
    assert!(!format!("{key:?}").contains(text.rsplit(' ').next().unwrap().trim()));
    it.backup("data", "b").unwrap();
    std::fs::rename(&file, it.path("backup.key")).unwrap();
    let error = format!("{:#}", it.restore("b", "other", false).unwrap_err());
    assert!(error.contains(&format!("and the given key is {}", key.fingerprint())), "{error}");

    let configuration = std::fs::read_to_string(it.path("data/encryption.yaml")).unwrap();
    let secret = configuration.split("secret: ").nth(1).unwrap().lines().next().unwrap();
    std::fs::write(it.path("backup.key"), format!("capstan-backup-key: {secret}\n")).unwrap();
    let error = it.backup("data", "c").unwrap_err().to_string();
    assert!(error.contains("is also in the encryption configuration"), "{error}");
    std::fs::write(it.path("backup.key"), "capstan-backup-key: short\n").unwrap();
    let error = it.backup("data", "c").unwrap_err().to_string();
    assert!(error.contains("has no line") && !error.contains("short"), "{error}");
}

#[test]
fn bk_03_values_without_a_key_and_damaged_ones_are_named() {
    let it = Installation::new();
    let (entries, _) = it.content("data");
    let own = encryption::load(None, &it.path("data")).unwrap().encryption;
    let file = it.path("data/encryption.yaml");
    let check = |entries: &[Entry], keys| {
        let mut values = Values::default();
        entries.iter().for_each(|entry| values.check(entry, keys));
        (values.describe(&file), values.result().is_ok())
    };
    let (text, is_good) = check(&entries, Some(&own));
    assert!(
        text.contains("1 values are encrypted; the keys in ") && text.contains("open 1 of them") && is_good,
        "{text}"
    );
    assert!(!text.contains("WARNING"), "{text}");
    it.filled("another");
    let other = encryption::load(None, &it.path("another")).unwrap().encryption;
    for keys in [Some(other.as_ref()), None] {
        let (text, is_good) = check(&entries, keys);
        assert!(text.contains("open 0 of them") && text.contains(SECRET) && is_good, "{text}");
    }
    let missing = Values::default().describe(&it.path("none"));
    assert!(missing.contains("none does not exist"), "{missing}");
    let mut broken = entries;
    broken[0].value = Bytes::from("{");
    let (text, is_good) = check(&broken, Some(&own));
    assert!(text.contains("p is damaged in the store") && !is_good, "{text}");
}

fn scheduled(it: &Installation, every: &str, to: &[&str]) -> ServerConfiguration {
    let to: Vec<String> = to.iter().map(|name| format!("'file:{}'", it.path(name).display())).collect();
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nbackup:\n  keyFile: {}\n  schedule:\n    \
         every: {every}\n    to: [{}]\n    keep: {{hourly: 1, daily: 0, weekly: 0}}\n",
        it.path("backup.key").display(),
        to.join(", ")
    );
    std::fs::write(it.path("config.yaml"), text).unwrap();
    ServerConfiguration::read(&it.path("config.yaml")).unwrap()
}

fn metric(registry: &Registry, name: &str) -> f64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_a_destination_that_fails_causes_no_backup_in_another_and_no_success() {
    let it = tokio::task::spawn_blocking(Installation::new).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&it.path("data/store.redb")).unwrap());
    let keys = EncryptionKeys::new(encryption::load(None, &it.path("data")).unwrap());
    let (newest, mut registry) =
        (jiff::Timestamp::now() - jiff::SignedDuration::from_mins(2), Registry::default());
    std::fs::create_dir(it.path("healthy")).unwrap();
    std::fs::write(it.path("healthy").join(super::retention::file_name("capstan", newest)), "").unwrap();
    // A file is no directory.
    std::fs::write(it.path("dead"), "").unwrap();
    let metrics = BackupMetrics::registered(&mut registry);
    let configuration = scheduled(&it, "1h", &["healthy", "dead"]);
    let backups = Backups::new(&configuration, it.directory.path(), &store, &keys, metrics).unwrap();
    let end = CancellationToken::new();
    let last = || metric(&registry, "capstan_backup_last_success_timestamp_seconds");
    let interval = metric(&registry, "capstan_backup_interval_seconds");
    assert!((interval - 3600.0).abs() < 0.5, "alerts compare ages with it: {interval}");
    for _ in 0..2 {
        Box::pin(backups.write_all(&end)).await.unwrap_err();
        assert_eq!(files(&it.path("healthy")).len(), 1, "its newest backup is two minutes old");
        assert!(last() == 0.0, "a destination has no backup");
    }
    std::fs::remove_file(it.path("dead")).unwrap();
    Box::pin(backups.write_all(&end)).await.unwrap();
    assert_eq!((files(&it.path("healthy")).len(), files(&it.path("dead")).len()), (1, 1));
    let expected = i32::try_from(newest.as_second()).unwrap();
    assert!((last() - f64::from(expected)).abs() < 0.5, "the oldest of the newest backups counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_the_leader_writes_a_missed_backup_once_and_removes_expired_ones() {
    let it = tokio::task::spawn_blocking(Installation::new).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&it.path("data/store.redb")).unwrap());
    let keys = EncryptionKeys::new(encryption::load(None, &it.path("data")).unwrap());
    std::fs::create_dir(it.path("backups")).unwrap();
    let killed = "capstan-20200101T000001Z.capstan-backup.partial";
    for name in
        ["capstan-20200101T000000Z.capstan-backup", killed, "capstan-before.capstan-backup", "other-x"]
    {
        std::fs::write(it.path("backups").join(name), "").unwrap();
    }
    let mut registry = Registry::default();
    let metrics = BackupMetrics::registered(&mut registry);
    let configuration = scheduled(&it, "1m", &["backups"]);
    let backups = Backups::new(&configuration, it.directory.path(), &store, &keys, metrics).unwrap();
    let end = CancellationToken::new();
    let running = apiserver_executor::spawn_joined(Arc::clone(&backups).run(end.clone()));
    let names = async {
        loop {
            let names = files(&it.path("backups"));
            if names.iter().any(|name| name.starts_with("capstan-202") && !name.contains("20200101")) {
                return names;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), names).await.unwrap();
    let value = |name: &str| metric(&registry, name);
    let trial = "capstan_backup_trial_restore_last_success_timestamp_seconds";
    let tried = async {
        while value(trial) == 0.0 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), tried).await.unwrap();
    assert_eq!(value("capstan_backup_trial_restore_failures_total"), 0.0);
    end.cancel();
    running.await.unwrap();
    assert!(!files(it.directory.path()).iter().any(|name| name.contains("upload")));
    let names = files(&it.path("backups"));
    assert!(names.len() == 3 && !names.iter().any(|name| name.contains("20200101")), "{names:?}");
    let written = names.iter().find(|name| name.starts_with("capstan-2")).unwrap();
    let key: BackupKey = key_file::read(&it.path("backup.key")).unwrap();
    super::file::verify(&it.path("backups").join(written), &key, None).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_03_a_trial_restore_fails_for_a_damaged_backup_and_for_values_that_no_key_opens() {
    let it = tokio::task::spawn_blocking(|| {
        let it = Installation::new();
        std::fs::create_dir(it.path("backups")).unwrap();
        it.backup("data", "backups/capstan-20260101T000000Z.capstan-backup").unwrap();
        it.filled("another");
        it
    });
    let it = it.await.unwrap();
    let configuration = scheduled(&it, "1m", &["backups"]);
    let key = key_file::read(&it.path("backup.key")).unwrap();
    let keys = |data: &str| encryption::load(None, &it.path(data)).unwrap().encryption;
    let place = Location::Directory(it.path("backups"));
    let (own, other) = (keys("data"), keys("another"));
    let directory = it.directory.path();
    let tried = trial::run(&place, &configuration, &key, &own, directory).await.unwrap();
    assert!(
        tried.values == 3 && tried.file.ends_with("capstan-20260101T000000Z.capstan-backup"),
        "{tried:?}"
    );
    let error = trial::run(&place, &configuration, &key, &other, directory).await.unwrap_err();
    assert!(format!("{error:#}").contains("that this server lacks"), "{error:#}");
    // The newest one counts.
    let good = std::fs::read(it.path("backups/capstan-20260101T000000Z.capstan-backup")).unwrap();
    let newer = it.path("backups/capstan-20260102T000000Z.capstan-backup");
    std::fs::write(newer, &good[..good.len() - 1]).unwrap();
    let error = trial::run(&place, &configuration, &key, &own, directory).await.unwrap_err();
    assert!(format!("{error:#}").contains("the trial restore failed"), "{error:#}");
    let error =
        trial::run(&Location::Directory(it.path("data")), &configuration, &key, &own, directory).await;
    assert!(error.unwrap_err().to_string().contains("no backup to try"));
    assert!(!files(directory).iter().any(|name| name.contains("upload")), "{:?}", files(directory));
}

#[test]
fn bk_04_keys_in_a_backup_are_written_by_the_recovery_key_alone_and_replace_none() {
    let it = Installation::new();
    crate::pki::Authority::open(&it.path("data")).unwrap();
    std::fs::write(it.path("recovery"), format!("capr1.{}\n", "A".repeat(43))).unwrap();
    std::fs::write(it.path("wrong"), format!("capr1.B{}\n", "A".repeat(42))).unwrap();
    it.backup_with("data", "b", Some("recovery")).unwrap();
    let read = |path: &str| std::fs::read_to_string(it.path(path)).unwrap();
    let secret =
        read("data/encryption.yaml").split("secret: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(!String::from_utf8_lossy(&std::fs::read(it.path("b")).unwrap()).contains(&secret));
    let restore_to = |file: &str, data: &str, recovery: &str| {
        restore(&RestoreArguments {
            file: Some(it.path(file).display().to_string()),
            store: it.store(data),
            done: false,
            to: Some(StoreKind::Embedded),
            key_file: Some(it.path("backup.key")),
            verify_only: false,
            replace: false,
            force: false,
            recovery_key_file: Some(it.path(recovery)),
        })
    };
    let error = restore_to("b", "other", "wrong").unwrap_err().to_string();
    assert!(error.contains("this recovery key does not open") && !it.path("other").exists(), "{error}");
    restore_to("b", "other", "recovery").unwrap();
    for file in ["encryption.yaml", "pki/ca.crt", "pki/ca.key"] {
        assert_eq!(read(&format!("other/{file}")), read(&format!("data/{file}")), "{file}");
    }
    assert_eq!(values(&it.content("other").0), values(&it.content("data").0));
    it.filled("third");
    let error = restore_to("b", "third", "recovery").unwrap_err().to_string();
    assert!(error.contains("encryption.yaml: exists already with other content"), "{error}");
    it.backup("data", "without").unwrap();
    let error = restore_to("without", "fourth", "recovery").unwrap_err().to_string();
    assert!(error.contains("was written without --include-keys"), "{error}");
}
