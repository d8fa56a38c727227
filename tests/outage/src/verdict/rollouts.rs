//! Comparison of the rollouts during the outage with one before.

use std::fmt::Write as _;
use std::time::Duration;

use super::answers::Outage;
use super::{LEADER_LOST, Report};
use crate::record::{Records, Rollout};

/// Part by which a rollout may take longer, in percent of the one before the outage.
const LONGER: u32 = 130;

/// Time that each loss of a leader may add: the next one begins after ten seconds, and then waits for calls of the former one to
/// the cloud, which take 65 seconds at most.
const FAILOVER: Duration = Duration::from_secs(75);

/// Difference that says nothing: Machines boot beside other parts that run on the same machine.
const NOISE: Duration = Duration::from_secs(30);

/// Compares the time per worker.
pub(super) fn compare(records: &Records, outage: &Outage, report: &mut Report) {
    let rollouts = &records.rollouts;
    let Some(first) = rollouts.iter().find(|rollout| rollout.ended < outage.killed) else { return };
    let losses = records.marks.iter().filter(|(_, text)| LEADER_LOST.contains(&text.as_str()));
    let losses: Vec<Duration> = losses.map(|(at, _)| *at).collect();
    for rollout in rollouts.iter().filter(|rollout| rollout.ended >= outage.killed) {
        let lost = losses.iter().filter(|at| (rollout.begun..rollout.ended).contains(*at)).count();
        let (usual, taken) = (scaled(first, rollout.workers), duration(rollout));
        let allowed = usual * LONGER / 100 + FAILOVER * count(lost) + NOISE;
        let line = format!(
            "a rollout took {:.0} s with {lost} losses of a leader, and {:.0} s without an outage",
            taken.as_secs_f64(),
            usual.as_secs_f64()
        );
        let _ = writeln!(report.text, "{line}; at most {:.0} s", allowed.as_secs_f64());
        if taken > allowed {
            report.violations.push(line);
        }
    }
}

fn duration(rollout: &Rollout) -> Duration {
    rollout.ended.saturating_sub(rollout.begun)
}

/// Returns the time of a rollout for so many workers.
fn scaled(rollout: &Rollout, workers: usize) -> Duration {
    duration(rollout) * count(workers) / count(rollout.workers).max(1)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
