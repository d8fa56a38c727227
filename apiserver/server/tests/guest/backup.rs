//! Backup and restore on etcd under a running server, and migrations between both stores.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde_json::Value;

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};

const NAMESPACES: &str = "/api/v1/namespaces";

/// Runs a command of the program for a data directory.
async fn capstan(data: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(arguments).arg("--data-dir").arg(data).env("NO_COLOR", "1");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

async fn succeeds(data: &Path, arguments: &[&str]) -> String {
    let output = capstan(data, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn revision(value: &Value) -> u64 {
    value.pointer("/metadata/resourceVersion").unwrap().as_str().unwrap().parse().unwrap()
}

async fn create(client: &Client, name: &str) -> u64 {
    let object = format!(r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#);
    let answer = client.with_retries("POST", NAMESPACES, &object).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.text());
    revision(&serde_json::from_slice(&answer.body).unwrap())
}

/// Returns the names of all namespaces, as soon as the server serves lists above a revision.
async fn names_after(client: &Client, least: u64) -> (u64, Vec<String>) {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(answer) = client.get(NAMESPACES).await
            && answer.code == 200
        {
            let list: Value = serde_json::from_slice(&answer.body).unwrap();
            let items = list["items"].as_array().unwrap().iter();
            let names: Vec<String> =
                items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            if revision(&list) > least {
                return (revision(&list), names);
            }
        }
        assert!(Instant::now() < end, "no revision above {least} is served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_05_a_backup_of_a_running_server_is_restored_under_it_and_watches_expire() {
    let etcd = Etcd::started();
    let data = tempfile::tempdir().unwrap();
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let server = Capstan::start(data.path(), &flags);
    server.ready().await;
    let client = server.client();
    create(&client, "kept").await;
    let path = |name: &str| data.path().join(name).display().to_string();
    let (key, file) = (path("backup.key"), path("b"));
    let key_output =
        Command::new(env!("CARGO_BIN_EXE_capstan")).args(["backup", "key", &key]).output().unwrap();
    assert!(key_output.status.success(), "{}", text(&key_output));
    let written =
        succeeds(data.path(), &["backup", "--etcd-endpoints", &url, "--to", &file, "--key-file", &key]).await;
    assert!(written.contains("wrote and verified"), "{written}");
    let mut newest = create(&client, "lost").await;

    let restore = ["restore", &file, "--to", "etcd", "--etcd-endpoints", &url, "--key-file", &key];
    let refused = capstan(data.path(), &restore).await;
    assert!(!refused.status.success() && text(&refused).contains("give --replace"), "{}", text(&refused));
    for _ in 0..2 {
        let watch = format!("{NAMESPACES}?watch=true&resourceVersion={newest}");
        let watching = client.send("GET", &watch, "").await.unwrap();
        assert_eq!(watching.status(), 200);
        let restored = succeeds(data.path(), &[&restore[..], &["--replace"]].concat()).await;
        assert!(restored.contains("the former objects are at /capstan-replaced-"), "{restored}");
        let events = tokio::time::timeout(PATIENCE, watching.into_body().collect()).await.unwrap().unwrap();
        let events = String::from_utf8(events.to_bytes().to_vec()).unwrap();
        assert!(events.contains(r#""code":410"#), "{events}");
        let (now, names) = names_after(&client, newest).await;
        assert!(
            names.iter().any(|name| name == "kept") && !names.iter().any(|name| name == "lost"),
            "{names:?}"
        );
        assert!(now > newest + 1_000_000, "{now} {newest}");
        server.ready().await;
        newest = create(&client, "lost").await;
        assert!(newest > now);
        // The name of the former objects has seconds.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_06_objects_move_to_etcd_and_back_and_the_source_is_refused() {
    let etcd = Etcd::started();
    let data = tempfile::tempdir().unwrap();
    let url = etcd.url();
    let migrate = |from: &'static str, to: &'static str| {
        ["storage", "migrate", "--from", from, "--to", to, "--etcd-endpoints"].map(str::to_owned)
    };
    let stop = async |mut server: Capstan| {
        server.signal("INT");
        assert!(server.ended().await.success());
    };
    let server = Capstan::start(data.path(), &[]);
    server.ready().await;
    let mut newest = create(&server.client(), "first").await;
    let arguments = migrate("embedded", "etcd");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain([url.as_str()]).collect();
    let in_use = capstan(data.path(), &arguments).await;
    assert!(text(&in_use).contains("stop the server"), "{}", text(&in_use));
    stop(server).await;
    let moved = succeeds(data.path(), &arguments).await;
    assert!(moved.contains("compared all of them") && moved.contains("set storage.etcd"), "{moved}");

    let refused = capstan(data.path(), &["serve", "--listen", "127.0.0.1:0"]).await;
    assert!(text(&refused).contains("were migrated to another store"), "{}", text(&refused));
    let server = Capstan::start(data.path(), &["--etcd-endpoints", &url]);
    server.ready().await;
    let (now, names) = names_after(&server.client(), newest).await;
    assert!(names.iter().any(|name| name == "first") && now > newest, "{names:?} {now}");
    newest = create(&server.client(), "second").await;
    stop(server).await;

    let arguments = migrate("etcd", "embedded");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain([url.as_str()]).collect();
    let exists = capstan(data.path(), &arguments).await;
    assert!(!exists.status.success(), "{}", text(&exists));
    succeeds(data.path(), &[&arguments[..], &["--replace"]].concat()).await;
    let server = Capstan::start(data.path(), &[]);
    server.ready().await;
    let (now, names) = names_after(&server.client(), newest).await;
    assert!(names.iter().any(|name| name == "second") && now > newest, "{names:?} {now}");
    // An etcd whose objects were moved is not served.
    stop(server).await;
    let server = Capstan::start(data.path(), &["--etcd-endpoints", &url]);
    server.listening().await;
    assert_eq!(server.client().get(NAMESPACES).await.unwrap().code, 503);
}

/// Writes backups through a running server, and refuses them to users without the permission.
async fn through_server(arguments: &[&str]) {
    let data = tempfile::tempdir().unwrap();
    let path = |name: &str| data.path().join(name).display().to_string();
    let (key, config, file) = (path("backup.key"), path("config.yaml"), path("b"));
    let made = Command::new(env!("CARGO_BIN_EXE_capstan")).args(["backup", "key", &key]).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let without = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
    std::fs::write(&config, without).unwrap();
    let flags = [&["--config", config.as_str()], arguments].concat();
    let mut server = Capstan::start(data.path(), &flags);
    server.ready().await;
    let admin = server.kubeconfig(data.path(), "capstan:admins");
    let backup = ["backup", "--kubeconfig", &admin, "--to", &file, "--key-file", &key];
    let refused = text(&capstan(data.path(), &backup).await);
    assert!(refused.contains("set backup.keyFile in its configuration"), "{refused}");
    server.signal("INT");
    assert!(server.ended().await.success());

    std::fs::write(&config, format!("{without}backup: {{keyFile: {key}}}\n")).unwrap();
    let server = Capstan::start(data.path(), &flags);
    server.ready().await;
    create(&server.client(), "kept").await;
    let admin = server.kubeconfig(data.path(), "capstan:admins");
    let other = server.kubeconfig(data.path(), "dev");
    let backup = |kubeconfig| ["backup", "--kubeconfig", kubeconfig, "--to", &file, "--key-file", &key];
    let refused = text(&capstan(data.path(), &backup(&other)).await);
    assert!(refused.contains("verb post on nonResourceURLs /capstan/v1/backup"), "{refused}");
    let get = server.client().get("/capstan/v1/backup").await.unwrap();
    assert_eq!(get.code, 405, "{}", get.text());
    assert!(!Path::new(&file).exists());
    let written = succeeds(data.path(), &backup(&admin)).await;
    assert!(written.starts_with("wrote ") && !data.path().join("b.partial").exists(), "{written}");

    let target = tempfile::tempdir().unwrap();
    std::fs::copy(data.path().join("encryption.yaml"), target.path().join("encryption.yaml")).unwrap();
    let restored = succeeds(target.path(), &["restore", &file, "--to", "embedded", "--key-file", &key]).await;
    assert!(restored.contains("wrote ") && !restored.contains("WARNING"), "{restored}");
    let copy = Command::new("cp").arg("-a").arg(data.path().join("pki")).arg(target.path()).status();
    assert!(copy.unwrap().success());
    let server = Capstan::start(target.path(), &[]);
    server.ready().await;
    let (_, names) = names_after(&server.client(), 0).await;
    assert!(names.iter().any(|name| name == "kept"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_01_a_running_server_on_the_embedded_store_sends_a_backup() {
    through_server(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_01_a_running_server_on_etcd_sends_a_backup() {
    let etcd = Etcd::started();
    through_server(&["--etcd-endpoints", &etcd.url()]).await;
}
