//! Start of a rewrite by a command, and its progress.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use storage_contract::Store;

use super::{Job, Reason, load, save};
use crate::output;

/// Interval at which a command reads the progress.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time without progress after which a command says that no leader works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes a new job. A job of the same kind that has not ended goes on.
///
/// # Errors
/// A job of another kind that has not ended; the store's.
pub(crate) async fn begin(store: &dyn Store, reason: Reason) -> anyhow::Result<Job> {
    let former = load(store).await?;
    if let Some(former) = former.as_ref().filter(|it| it.job.is_running()) {
        if former.job.reason == reason {
            return Ok(former.job.clone());
        }
        bail!(
            "`{}` has not ended. Wait until it ends: run the same command again to see its progress",
            former.job.reason.command()
        );
    }
    let saved = save(store, Job::new(reason), former.as_ref().map(|it| &it.entry)).await?;
    Ok(saved.context("another program has begun a rewrite at the same time; run the command again")?.job)
}

/// Prints the progress of a job until it ends. Returns an error if values were left out.
///
/// # Errors
/// The store's; values that cannot be rewritten.
pub(crate) async fn follow(store: &dyn Store, begun: &Job) -> anyhow::Result<()> {
    let (mut last, mut changed, mut is_warned) = (begun.clone(), tokio::time::Instant::now(), false);
    loop {
        let job = load(store).await?.map(|it| it.job).filter(|job| job.id == begun.id);
        let job =
            job.context("another rewrite has begun since; run the command again to see its progress")?;
        if job != last {
            (last, changed) = (job.clone(), tokio::time::Instant::now());
            output::print(&format!("{}\n", progress(&job)))?;
        }
        if !job.is_running() {
            output::print(&report(&job))?;
            return result(&job);
        }
        if changed.elapsed() > PATIENCE && !is_warned {
            is_warned = true;
            output::print(
                "no progress for 30 s: is a server of this release the leader? It goes on by itself\n",
            )?;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn progress(job: &Job) -> String {
    let total = job.total();
    format!("{} values read, {} rewritten, {} failed", total.read, total.rewritten, total.failed)
}

/// Returns the counts by kind, and the errors.
pub(super) fn report(job: &Job) -> String {
    let mut text = format!("{:<58} {:>8} {:>10} {:>7}\n", "KIND", "VALUES", "REWRITTEN", "FAILED");
    for (kind, counts) in &job.kinds {
        let _ = writeln!(text, "{kind:<58} {:>8} {:>10} {:>7}", counts.read, counts.rewritten, counts.failed);
    }
    for error in &job.errors {
        let _ = writeln!(text, "{error}");
    }
    text
}

fn result(job: &Job) -> anyhow::Result<()> {
    let failed = job.total().failed;
    if failed > 0 {
        bail!(
            "{failed} values could not be rewritten; the first errors are above. Repair or delete these objects, and run \
             the command again. An object that cannot be read is deleted only with the option \
             ignoreStoreReadErrorWithClusterBreakingPotential, see docs/running.md"
        );
    }
    Ok(())
}
