//! Starts with damaged files of secrets, and the output of the program. The configuration itself has no secrets: it names
//! their files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::outputs::Output;
use crate::scan::Markers;

/// Time after which a server that has started is stopped. A damaged file of some parts is reported later, and not fatal.
const RUN: Duration = Duration::from_secs(4);

/// Damaged forms of a file with a secret.
fn damaged(secret: &str) -> [String; 5] {
    [
        secret.to_owned(),
        format!("{secret}: 1"),
        format!("[\"{secret}\"]"),
        format!("\"{secret}"),
        format!("kind: Config\nusers: \"{secret}\"\nresources: \"{secret}\"\nclouds: \"{secret}\""),
    ]
}

/// Files with secrets, each with the configuration that names it.
fn settings(file: &str) -> Vec<(&'static str, Value)> {
    let backup = |field: &str| {
        let destination =
            if field == "swift" { "swift://c/p" } else { "s3://b/p?endpoint=https://127.0.0.1:1" };
        let name = if field == "swift" { "cloudsFile" } else { "credentialsFile" };
        let key = Path::new(file).with_file_name("backup.key");
        json!({"backup": {"keyFile": key, field: {name: file}, "schedule": {"every": "1m", "to": [destination]}}})
    };
    vec![
        ("encryption configuration", json!({"encryptionConfigFile": file})),
        ("kubeconfig of the host", json!({"host": {"kubeconfig": file}})),
        ("kubeconfig of the token webhook", json!({"authentication": {"webhook": {"kubeConfigFile": file}}})),
        ("backup key", json!({"backup": {"keyFile": file}})),
        ("credentials for S3", backup("s3")),
        ("credentials for Swift", backup("swift")),
        ("serving key", json!({"tls": {"certFile": file, "keyFile": file}})),
        (
            "token of the audit webhook",
            json!({"audit": {"webhook": {"url": "https://127.0.0.1:1", "tokenFile": file}}}),
        ),
    ]
}

/// Starts a server with each damaged file. Returns all outputs.
pub(crate) async fn all(markers: &mut Markers) -> Vec<Output> {
    let mut starts = Vec::new();
    for (name, _) in settings("") {
        for (number, text) in damaged(&markers.plant(&format!("damaged {name}"))).into_iter().enumerate() {
            let data = tempfile::tempdir().unwrap();
            let file = data.path().join("secrets").display().to_string();
            std::fs::write(&file, text).unwrap();
            // The server refuses a damaged one before it reads the credentials for a destination.
            let key = format!("capstan-backup-key: {}=\n", "A".repeat(43));
            std::fs::write(data.path().join("backup.key"), key).unwrap();
            let (_, mut config) = settings(&file).into_iter().find(|(it, _)| *it == name).unwrap();
            config["apiVersion"] = json!("capstan.dev/v1alpha1");
            config["kind"] = json!("ServerConfiguration");
            std::fs::write(data.path().join("config.yaml"), config.to_string()).unwrap();
            starts.push((format!("start with a damaged {name} ({number})"), data));
        }
    }
    let mut outputs = Vec::new();
    for some in starts.chunks(8) {
        let some = some.iter().map(|(name, data)| {
            let (name, data) = (name.clone(), data.path().to_owned());
            tokio::task::spawn_blocking(move || (name, run(&data)))
        });
        for start in some.collect::<Vec<_>>() {
            outputs.push(start.await.unwrap());
        }
    }
    outputs
}

/// Runs a server until it ends, or for a time. Returns its output.
fn run(data: &Path) -> Vec<u8> {
    let path = data.join("output");
    let file = std::fs::File::create(&path).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).arg("--config");
    command.arg(data.join("config.yaml")).env("NO_COLOR", "1").stdin(Stdio::null());
    let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
    let end = Instant::now() + RUN;
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    let output = std::fs::read(path).unwrap();
    assert!(!output.is_empty(), "the program prints nothing");
    output
}
