//! Tests of the suite: after requests of all kinds, no output has a marker.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::etcd::Etcd;
use crate::outputs::{self, Output};
use crate::process::PATIENCE;
use crate::scan::{Markers, Scan};
use crate::scene::Scene;
use crate::{clouds, objects, refused_starts, tokens};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Marker of a ConfigMap, which is no secret. The outputs that must have it prove that the search sees their content.
const CONTROL: &str = "data of a ConfigMap";

/// Kinds that the store seals only if the encryption configuration names them.
const PLAIN_KINDS: [&str; 2] = ["of a KubeadmConfig", "of a KubeadmConfigTemplate"];

/// Kinds of objects with secrets.
const OBJECTS: [&str; 3] = ["of a Secret", PLAIN_KINDS[0], PLAIN_KINDS[1]];

/// Returns the leaks in outputs, except those that `allowed` allows.
fn leaks(scan: &Scan<'_>, outputs: &[Output], allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let mut leaks = Vec::new();
    for (name, bytes) in outputs {
        let found = scan.found(bytes);
        let found = found.into_iter().filter(|(place, _)| !allowed(place));
        leaks.extend(found.map(|(place, text)| format!("{name} has the {place}, {text}")));
    }
    leaks
}

fn has_control(scan: &Scan<'_>, outputs: &[Output]) -> bool {
    outputs.iter().any(|(_, bytes)| scan.found(bytes).contains_key(CONTROL))
}

/// Waits until the leader has tried to write backups to all places, and returns a backup through the server.
async fn backups(scene: &Scene) -> Vec<Output> {
    let end = Instant::now() + PATIENCE;
    let log = scene.data.path().join(format!("{}.log", scene.capstan.port));
    while !std::fs::read_to_string(&log).unwrap().contains("scheduled backup failed") {
        assert!(Instant::now() < end, "no backup is tried");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut files = outputs::files(&scene.data.path().join("backups"), "");
    let (code, backup) = scene.caller.send("POST", "/capstan/v1/backup", "", "").await;
    assert!(code == 200 && backup.len() > 10_000, "{code}: {}", String::from_utf8_lossy(&backup));
    files.push(("backup through the server".to_owned(), backup));
    files
}

/// Drives a server, and searches all its outputs. Returns the data directory after the end of the server.
async fn drive(flags: &[&str], markers: &mut Markers) -> (tempfile::TempDir, Vec<String>) {
    let mut scene = Scene::start(flags, markers).await;
    let caller = scene.caller.clone();
    let map = json!({"metadata": {"name": "control"}, "data": {"key": markers.plant(CONTROL)}});
    caller.json("POST", MAPS, &map, 201).await;
    objects::exchange(&caller, markers).await;
    tokens::invented(&caller, markers).await;
    tokens::in_queries(&caller, markers).await;
    tokens::of_an_account(&caller, markers).await;
    clouds::fail_to_log_in(&caller, &scene.simulator, markers).await;
    clouds::create_worker(&caller, &scene.simulator, markers).await;
    let backups = backups(&scene).await;
    let served = outputs::served(&scene).await;
    scene.capstan.signal("TERM");
    assert_eq!(scene.capstan.ended().await.code(), Some(0));
    let audit = outputs::files(scene.data.path(), "audit/");
    let log = outputs::files(scene.data.path(), &format!("{}.log", scene.capstan.port));
    let calls = scene.audit.calls("/audit");
    let sent = calls
        .iter()
        .map(|call| ("event of the audit webhook".to_owned(), call.body.to_string().into_bytes()));
    let sent: Vec<Output> = sent.collect();
    let traces = [("traces".to_owned(), scene.collector.received().into_bytes())];

    let scan = Scan::new(markers);
    assert!(has_control(&scan, &audit) && has_control(&scan, &sent) && has_control(&scan, &served));
    assert!(log.iter().all(|(_, bytes)| bytes.len() > 10_000) && traces[0].1.len() > 10_000);
    let is_control = |place: &str| place == CONTROL;
    // The URI of a request is in the audit log as it was sent.
    let is_in_uri = |place: &str| place == CONTROL || place.ends_with("in a query");
    let mut found = leaks(&scan, &audit, is_in_uri);
    found.extend(leaks(&scan, &sent, is_in_uri));
    found.extend(leaks(&scan, &served, is_control));
    found.extend(leaks(&scan, &log, |_| false));
    found.extend(leaks(&scan, &traces, |_| false));
    found.extend(leaks(&scan, &backups, |_| false));
    for refusal in caller.errors() {
        let quoted = scan.found(&refusal.request);
        // As upstream's: the response has the object as the patch made it. A patch that succeeds returns it, too.
        let is_patch = refusal.name.contains(" 422 to PATCH ");
        let is_object = |place: &str| is_patch && OBJECTS.iter().any(|kind| place.ends_with(kind));
        let response = [(refusal.name.clone(), refusal.response)];
        found.extend(leaks(&scan, &response, |place| quoted.contains_key(place) || is_object(place)));
    }
    (scene.data, found)
}

/// Searches the bytes of a store.
fn store(markers: &Markers, files: &[Output]) -> Vec<String> {
    let scan = Scan::new(markers);
    assert!(has_control(&scan, files), "the search sees no object in the store");
    leaks(&scan, files, |place| place == CONTROL || PLAIN_KINDS.iter().any(|kind| place.ends_with(kind)))
}

fn none(leaks: &[String]) {
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_13_no_planted_secret_is_in_any_output_nor_in_the_embedded_store() {
    let mut markers = Markers::default();
    let (data, mut leaks) = drive(&[], &mut markers).await;
    leaks.extend(store(&markers, &outputs::files(data.path(), "store")));
    none(&leaks);
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_13_no_planted_secret_is_in_any_output_nor_in_etcd() {
    let mut etcd = Etcd::started();
    let mut markers = Markers::default();
    let url = etcd.url();
    let (_data, mut leaks) = drive(&["--etcd-endpoints", &url], &mut markers).await;
    leaks.extend(store(&markers, &outputs::files(etcd.copy().path(), "")));
    none(&leaks);
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_13_a_start_that_is_refused_names_the_file_and_no_secret_in_it() {
    let mut markers = Markers::default();
    let outputs = refused_starts::all(&mut markers).await;
    none(&leaks(&Scan::new(&markers), &outputs, |_| false));
}
