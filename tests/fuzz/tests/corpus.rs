//! Test of the corpus: each input runs once, so that fixed errors stay fixed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Largest file, in bytes: people read the corpus.
const LARGEST: u64 = 2048;

/// Returns the corpus directory. The variable is read at run time: a build directory may be shared with
/// another checkout.
fn root() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("corpus")
}

fn corpus(target: &str) -> Vec<PathBuf> {
    let directory = root().join(target);
    let entries =
        std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_corpus_has_no_findings() {
    let mut found = Vec::new();
    for target in tests_fuzz::targets() {
        for file in corpus(target.name) {
            if let Err(finding) = target.run(&std::fs::read(&file).unwrap()) {
                found.push(format!("{}: {finding}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn seeds_of_planted_errors_do_not_trigger_them() {
    for target in tests_fuzz::planted() {
        for file in corpus("planted") {
            assert_eq!(target.run(&std::fs::read(&file).unwrap()), Ok(()), "{}", file.display());
        }
    }
}

#[test]
fn each_target_has_seeds_and_each_seed_is_small() {
    let names: Vec<&str> = tests_fuzz::targets().iter().map(|target| target.name).collect();
    for name in &names {
        let files = corpus(name);
        assert!(files.len() >= 5, "{name}: {}", files.len());
        for file in files {
            let size = file.metadata().unwrap().len();
            assert!(
                size <= LARGEST,
                "{}: {size} bytes; write `<<1000*text>>` for what repeats",
                file.display()
            );
        }
    }
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "planted" || names.contains(&name.as_str()), "corpus/{name} belongs to no target");
    }
}
