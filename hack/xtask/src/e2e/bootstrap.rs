//! Boot documents that real programs accept or refuse: kubeadm of three minors, the cloud-init of Debian,
//! and Ignition.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::test::programs::{Program, run_selected};
use crate::{prerequisites, run};

/// Number of scenarios.
pub(super) const COUNT: usize = 4;

/// Crate whose documents are checked, and its test that writes them.
const CRATE: &str = "controllers-bootstrap";
const TEST: &str = "accepted";

/// Documents of each version: eight of kubeadm, and a cloud-config and an Ignition configuration for each. Fewer mean that something was not written.
const DOCUMENTS: usize = 8;

/// A kubeadm, and the version that its documents are rendered for.
struct Kubeadm {
    version: String,
    program: PathBuf,
}

/// Renders the documents, and gives each one to its program. Without the test programs, cargo builds the one that is
/// needed.
pub(super) fn run(tests: &[Program]) -> anyhow::Result<()> {
    let started = Instant::now();
    let programs = prerequisites::kubeadms()?;
    let programs: Vec<Kubeadm> =
        programs.into_iter().map(|(version, program)| Kubeadm { version, program }).collect();
    let cloud_init = prerequisites::cloud_init()?;
    let folder = run::target()?.join("documents");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    }
    let versions: Vec<&str> = programs.iter().map(|it| it.version.as_str()).collect();
    render(tests, &folder, &versions.join(","))?;
    say("the programs are built, and the documents are written", started);

    validate(&programs, &folder)?;

    let started = Instant::now();
    for kubeadm in &programs {
        for document in documents(&folder.join(&kubeadm.version), ".cloud-config.yaml")? {
            let mut command = Command::new("/usr/bin/python3");
            command.env("PYTHONPATH", &cloud_init).args(["-m", "cloudinit.cmd.main", "schema"]);
            accepts(command.arg("--config-file").arg(&document), &document)?;
        }
    }
    say("cloud-init accepts every cloud-config", started);

    let started = Instant::now();
    let ignition = prerequisites::go_program("ignition", "ignition")?;
    for kubeadm in &programs {
        for document in documents(&folder.join(&kubeadm.version), ".ignition.json")? {
            accepts(Command::new(&ignition).arg(&document), &document)?;
        }
    }
    say("Ignition accepts every configuration, without a warning", started);
    Ok(())
}

/// Gives each kubeadm its files. It must accept those that are rendered for it, and refuse those with a bad value.
fn validate(programs: &[Kubeadm], folder: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    for kubeadm in programs {
        for document in documents(&folder.join(&kubeadm.version), ".kubeadm.yaml")? {
            let mut command = Command::new(&kubeadm.program);
            accepts(command.args(["config", "validate", "--config"]).arg(&document), &document)?;
        }
    }
    say("kubeadm of three minors accepts every file that is rendered for it", started);

    let started = Instant::now();
    for kubeadm in programs {
        for document in documents(&folder.join(&kubeadm.version), ".refused.yaml")? {
            let mut command = Command::new(&kubeadm.program);
            refuses(command.args(["config", "validate", "--config"]).arg(&document), &document)?;
        }
    }
    say("kubeadm of three minors refuses every value that a KubeadmConfig is refused for", started);
    Ok(())
}

fn say(what: &str, started: Instant) {
    eprintln!("ok      {what} ({:.1} s)", started.elapsed().as_secs_f64());
}

/// Runs the test that writes the documents.
fn render(tests: &[Program], folder: &Path, versions: &str) -> anyhow::Result<()> {
    let built = tests.iter().find(|it| it.package == CRATE && it.name == TEST);
    let mut command = match built {
        Some(program) => program.command(),
        None => run::cargo(&["test", "--locked", "--quiet", "--package", CRATE, "--test", TEST])?,
    };
    command.env("CAPSTAN_DOCUMENTS", folder).env("CAPSTAN_DOCUMENT_VERSIONS", versions);
    run_selected(&mut command).context("the documents cannot be rendered")
}

/// Returns the documents of a kind in a folder.
fn documents(folder: &Path, suffix: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    ensure!(found.len() >= DOCUMENTS, "{}: {} documents, not {DOCUMENTS}", folder.display(), found.len());
    found.sort();
    Ok(found)
}

/// Runs a program on a document, which it must refuse.
fn refuses(command: &mut Command, document: &Path) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let text = std::fs::read_to_string(document).unwrap_or_default();
    ensure!(!output.status.success(), "FAILED: {} is accepted\n{text}", document.display());
    Ok(())
}

/// Runs a program on a document. Its failure and its warnings about unknown or deprecated parts count as a refusal.
fn accepts(command: &mut Command, document: &Path) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() || said.contains("unknown field") {
        let text = std::fs::read_to_string(document).unwrap_or_default();
        bail!("FAILED: {}: {said}\n{text}", document.display());
    }
    Ok(())
}
