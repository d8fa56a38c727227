//! Parts that need no lab, or that have one of their own.

use std::time::Instant;

use anyhow::Context;

use super::lab::Lab;
use super::outcome::Outcome;
use super::{Part, bootstrap, clusterctl, hollow, install, mirror, one, outage, package, tools, versions};
use crate::test::programs;

/// Gives the boot documents to the programs that read them. Needs no lab.
pub(super) fn documents(programs: &[programs::Program], outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    bootstrap::run(programs)?;
    outcome.passed += bootstrap::COUNT;
    outcome.add(Part::Bootstrap.name(), started.elapsed());
    Ok(())
}

/// Runs the suite of hollow clusters in both forms. Needs no lab.
pub(super) fn hollow_clusters(programs: &[programs::Program], outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    hollow::run(programs)?;
    outcome.passed += hollow::COUNT;
    outcome.add(Part::Hollow.name(), started.elapsed());
    Ok(())
}

/// Replaces three replicas by another release and back. Runs only by its name: the program of the other release takes ten
/// minutes to build, and needs the history of this repository, which a clone of CI may not have.
pub(super) fn two_releases(outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    let previous = versions::previous()?;
    outcome.add("versions, build", started.elapsed());
    let started = Instant::now();
    versions::run(&previous)?;
    outcome.passed += versions::COUNT;
    outcome.add(Part::Versions.name(), started.elapsed());
    Ok(())
}

/// Installs Capstan from the manifests and the chart, and by clusterctl, each in a host of its own.
pub(super) fn packaged(outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    let lab = Lab::host(tools()?).context("cannot start a host for the manifests")?;
    package::run(&lab)?;
    drop(lab);
    let lab = Lab::host(tools()?).context("cannot start a host for clusterctl")?;
    one(&lab, clusterctl::SENTENCE, || clusterctl::installs(&lab))?;
    outcome.passed += package::COUNT + 1;
    outcome.add(Part::Package.name(), started.elapsed());
    Ok(())
}

/// Lets the host of three replicas die and return, in a lab of its own.
pub(super) fn outage(outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    outage::run(tools()?)?;
    outcome.passed += outage::COUNT;
    outcome.add(Part::Outage.name(), started.elapsed());
    Ok(())
}

/// Lets the host die, and compares the rights of its users with those before, in a lab of its own.
pub(super) fn mirror(outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    mirror::run(tools()?)?;
    outcome.passed += mirror::COUNT;
    outcome.add(Part::Mirror.name(), started.elapsed());
    Ok(())
}

/// Installs Capstan on three machines without a host. The machines are network namespaces, which need root.
pub(super) fn installed(outcome: &mut Outcome) -> anyhow::Result<()> {
    if !install::is_possible() {
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        anyhow::ensure!(
            !in_ci,
            "the part install needs network namespaces: run it as root, with the program ip"
        );
        eprintln!("skipped {} checks of the part install: they need root and the program ip", install::COUNT);
        outcome.skipped += install::COUNT;
        return Ok(());
    }
    let started = Instant::now();
    let skipped = install::run(&tools()?)?;
    outcome.passed += install::COUNT - skipped;
    outcome.skipped += skipped;
    outcome.add(Part::Install.name(), started.elapsed());
    Ok(())
}
