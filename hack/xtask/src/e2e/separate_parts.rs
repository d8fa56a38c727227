//! Parts that need no lab, or that have one of their own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};

use super::lab::Lab;
use super::outcome::Outcome;
use super::{Part, bootstrap, clusterctl, hollow, install, mirror, one, outage, package, tools, versions};
use crate::run;
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

/// Runs the part `outage` in a process of its own, beside parts that have labs of their own. All of them mostly wait, and
/// one after the other they take three minutes more.
///
/// The order of the others counts. The failovers of `outage` must take less than ten seconds. They come after three to four
/// minutes, beside `mirror`, which waits most.
pub(super) fn beside_outage(programs: &[programs::Program], outcome: &mut Outcome) -> anyhow::Result<()> {
    // A machine where nothing was built needs minutes for it, in which no other part should wait for the processors.
    outage::prepare()?;
    std::thread::scope(|scope| {
        let running = scope.spawn(|| in_process(Part::Outage));
        let others = hollow_clusters(programs, outcome)
            .and_then(|()| installed(outcome))
            .and_then(|()| mirror(outcome));
        let taken = running.join().map_err(|_| anyhow!("the thread of the part outage panicked"))?;
        // The lines of the part say why it failed, also if another one has failed, too.
        others?;
        outcome.add(Part::Outage.name(), taken?);
        outcome.passed += outage::COUNT;
        anyhow::Ok(())
    })
}

/// Runs a part in a process of its own, which has a folder of its own. Its lines are printed together at its end, so that
/// they do not mix with those of other parts. Returns its duration.
fn in_process(part: Part) -> anyhow::Result<Duration> {
    let (started, name) = (Instant::now(), part.name());
    let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
    command.args(["e2e", "--only", name]).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().with_context(|| format!("the part {name} cannot be started"))?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "the part {name} failed ({}); its lines are above", output.status);
    Ok(started.elapsed())
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
        outcome.skipped += install::COUNT;
        let why = anyhow!("they need network namespaces: run them as root, with the program ip");
        return run::skip(&format!("{} checks of the part install", install::COUNT), why);
    }
    let started = Instant::now();
    let skipped = install::run(&tools()?)?;
    outcome.passed += install::COUNT - skipped;
    outcome.skipped += skipped;
    outcome.add(Part::Install.name(), started.elapsed());
    Ok(())
}
