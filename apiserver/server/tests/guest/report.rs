//! Commands about an installation whose server runs: with the embedded store, the server answers them.

use std::path::Path;
use std::process::Output;

use crate::etcd::{Etcd, free_port};
use crate::process::{Capstan, command as capstan};

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

/// Writes a configuration of a server on this port, with these lines.
fn configuration(data: &Path, port: u16, more: &str) -> String {
    let path = data.join("config.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {}\nlisten: 127.0.0.1:{port}\n{more}",
        data.display()
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs each command while the server runs, and checks its output.
async fn answers(config: &str, port: u16) {
    let address = format!("127.0.0.1:{port}");
    for (arguments, expected) in [
        (&["replicas"][..], vec!["live", &address, "3,4"]),
        (&["ca", "status"], vec!["serving", "client", "machine", "signs", "stable"]),
        (&["certificates", "list"], vec!["USER", "SERIAL"]),
        (&["upgrade", "plan"], vec!["this program: version", "replicas:", &address, "take a backup"]),
    ] {
        let output = capstan(&[arguments, &["--config", config]].concat()).await;
        let printed = text(&output);
        assert!(output.status.success(), "{arguments:?}: {printed}");
        for word in expected {
            assert!(printed.contains(word), "{arguments:?}, {word}: {printed}");
        }
    }
    let output = capstan(&["upgrade", "plan", "--json", "--config", config]).await;
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["blocked"], serde_json::json!([]), "{plan}");
    assert_eq!(plan["replicas"].as_array().unwrap().len(), 1, "{plan}");
}

/// Runs the doctor while the server runs. No check finds an error.
async fn is_well(config: &str) {
    let output = capstan(&["doctor", "--json", "--config", config]).await;
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |level: &str| findings.iter().filter(|it| it["level"] == level).collect::<Vec<_>>();
    assert!(of("error").is_empty() && output.status.success(), "{findings:?}");
    for subject in ["replicas", "stored form"] {
        assert!(of("ok").iter().any(|it| it["subject"] == subject), "{subject}: {findings:?}");
    }
}

/// Waits until the replica has a record: the server writes it after it is ready.
async fn recorded(config: &str) {
    let end = std::time::Instant::now() + crate::process::PATIENCE;
    loop {
        let printed = text(&capstan(&["replicas", "--config", config]).await);
        if printed.contains("live") {
            return;
        }
        assert!(std::time::Instant::now() < end, "{printed}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_with_the_embedded_store_answers_commands_about_it() {
    let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
    let config = configuration(directory.path(), port, "");
    let mut server = Capstan::start_on(port, directory.path(), &["--config", &config]);
    server.ready().await;
    recorded(&config).await;
    answers(&config, port).await;
    is_well(&config).await;

    // Another address: the error names the setting. A user without rights gets nothing.
    let wrong = configuration(directory.path(), free_port(), "");
    let refused = text(&capstan(&["replicas", "--config", &wrong]).await);
    assert!(refused.contains("does not answer") && refused.contains("`listen`"), "{refused}");
    let other = server.client_of(crate::client::Identity::of_member(directory.path(), "eve", &["dev"]));
    let answer = other.send("POST", "/capstan/v1/report", "").await.unwrap();
    assert_eq!(answer.status(), 403);
    let in_use = text(&capstan(&["ca", "start", "--config", &wrong]).await);
    assert!(in_use.contains("stop the server") && !in_use.contains("backup"), "{in_use}");

    server.signal("INT");
    assert!(server.ended().await.success());
    let stopped = text(&capstan(&["replicas", "--config", &wrong]).await);
    assert!(stopped.contains("no replica uses this store"), "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_about_an_installation_on_etcd_read_the_store() {
    let (etcd, directory, port) = (Etcd::started(), tempfile::tempdir().unwrap(), free_port());
    let config = configuration(
        directory.path(),
        port,
        &format!("storage: {{etcd: {{endpoints: ['{}']}}}}\n", etcd.url()),
    );
    let server = Capstan::start_on(port, directory.path(), &["--config", &config]);
    server.ready().await;
    recorded(&config).await;
    answers(&config, port).await;
    is_well(&config).await;
}
