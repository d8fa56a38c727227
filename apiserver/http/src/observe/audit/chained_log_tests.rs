//! Tests of a chained log: its files over restarts and rotations, and its checkpoints.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::chain::{AuditChain, ChainKey, ChainLink, ChainedLine, CheckpointSink};
use super::log::Lost;
use super::{AuditFile, AuditLog};

/// Checkpoints that were offered.
#[derive(Debug, Default)]
struct Offered(Mutex<Vec<ChainLink>>);

impl CheckpointSink for Offered {
    fn offer(&self, link: ChainLink) {
        self.0.lock().unwrap().push(link);
    }
}

/// A log in a directory, whose process can end.
struct Scene {
    _directory: tempfile::TempDir,
    path: PathBuf,
    offered: Arc<Offered>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        Self { _directory: directory, path, offered: Arc::default() }
    }

    fn key() -> ChainKey {
        ChainKey::new(&[1; 32])
    }

    fn open(&self, largest: u64) -> AuditLog {
        let (file, last) = AuditFile::open_chained(&self.path, largest, 100).unwrap();
        let sink: Arc<Offered> = Arc::clone(&self.offered);
        AuditLog::to_chained_file(file, Vec::new(), AuditChain::new(Self::key(), last, sink)).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let (file, _) = AuditFile::open_chained(&self.path, 1_000_000, 100).unwrap();
        let mut files = file.older().unwrap();
        files.push(self.path.clone());
        files
    }

    fn offered(&self) -> Vec<ChainLink> {
        self.offered.0.lock().unwrap().clone()
    }
}

/// Writes numbered lines and waits until they are in the file.
fn write(log: &AuditLog, numbers: std::ops::Range<usize>) {
    for number in numbers {
        assert_eq!(log.write(format!("{{\"number\":{number:04}}}\n")), Lost::default());
    }
    log.flush();
}

/// Returns the links of all lines of files. Each line must follow the one before it.
fn links(files: &[PathBuf]) -> Vec<ChainLink> {
    let mut links: Vec<ChainLink> = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let parsed = ChainedLine::parse(line).unwrap();
            assert!(Scene::key().follows(links.last().copied(), &parsed), "{line}");
            links.push(parsed.link());
        }
    }
    links
}

fn append(path: &Path, text: &str) {
    let before = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, before + text).unwrap();
}

#[test]
fn am_12_the_chain_goes_on_over_rotations_and_each_file_ends_with_a_checkpoint() {
    let scene = Scene::new();
    let log = scene.open(1_000);
    write(&log, 0..50);
    let files = scene.files();
    assert!(files.len() > 3, "{files:?}");
    let all = links(&files);
    assert_eq!(all.len(), 50);
    assert!(all.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    let offered = scene.offered();
    for file in &files {
        let last = std::fs::read_to_string(file).unwrap().lines().last().map(str::to_owned).unwrap();
        let last = ChainedLine::parse(&last).unwrap().link();
        assert!(offered.contains(&last), "{}", file.display());
    }
    assert_eq!(offered.len(), files.len());
}

#[test]
fn am_12_the_chain_goes_on_after_a_crash_and_an_incomplete_line_is_removed() {
    let scene = Scene::new();
    let log = scene.open(1_000_000);
    write(&log, 0..5);
    drop(log);
    append(&scene.path, "{\"annotations\":{\"capstan.dev/cha");
    let log = scene.open(1_000_000);
    write(&log, 5..8);
    drop(log);
    assert_eq!(links(std::slice::from_ref(&scene.path)).len(), 8);
    // The process ended just after a rotation: the new file is empty.
    let rotated = scene.path.with_file_name("audit-2030-01-01T00-00-00.000000.log");
    std::fs::rename(&scene.path, &rotated).unwrap();
    std::fs::write(&scene.path, "{\"annot").unwrap();
    write(&scene.open(1_000_000), 8..10);
    assert_eq!(links(&[rotated, scene.path.clone()]).len(), 10);
}

#[test]
fn am_12_a_file_without_links_is_rotated_so_that_all_lines_of_a_file_have_links() {
    let scene = Scene::new();
    std::fs::write(&scene.path, "{\"number\":1}\n").unwrap();
    write(&scene.open(1_000_000), 2..4);
    let files = scene.files();
    assert_eq!(files.len(), 2);
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "{\"number\":1}\n");
    assert_eq!(links(&files[1..]).len(), 2);
}

#[test]
fn am_12_every_thousand_lines_have_a_checkpoint() {
    let scene = Scene::new();
    let log = scene.open(10_000_000);
    write(&log, 0..2_500);
    let first = links(std::slice::from_ref(&scene.path))[0].number;
    let offered: Vec<u64> = scene.offered().iter().map(|link| link.number - first + 1).collect();
    assert_eq!(offered, [1_000, 2_000, 2_500]);
    write(&log, 0..0);
    assert_eq!(scene.offered().len(), 3, "a flush without new lines offers nothing");
}
