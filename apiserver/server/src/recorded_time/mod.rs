//! Time that has passed, as the store knows it: it does not depend on the clock of this machine.
//!
//! The leader records the time every minute, and each replica in its own record. If the clock of a machine was set back while
//! the server did not run, these times are later than the clock. The server then judges the ends of credentials by the last
//! of them, and signs nothing. This ends when the clock is right, or when an operator accepts it.

mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver_access::{CLOCK, ClockCorrection};
use apiserver_machinery::encryption::Encryption;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_contract::{Outage, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::replicas::{self, Clock};
use crate::sealed_values::SealedValues;
use decide::{Recorded, SKEW};

/// First part of the key. No API group has this name.
const FOLDER: &str = "clock";

/// Kind and name of the value.
const KIND: &str = "time";
const NAME: &str = "current";

/// Interval at which the leader records the time.
const INTERVAL: Duration = Duration::from_mins(1);

/// Time for which a leader must have run without a jump of its clock before it records the time. At the start of a machine,
/// the clock may be wrong until NTP has answered, and a wrong time that is recorded has effects until it has passed.
const STEADY: Duration = Duration::from_mins(10);

/// Interval of the comparisons while the clock is behind: that of the renewals of replicas.
const COMPARE_INTERVAL: Duration = Duration::from_secs(10);

/// Interval of the line in the log while the clock is behind.
const LOG_INTERVAL: Duration = Duration::from_mins(5);

/// Longest wait for the store at the start, and then the pause until the next comparison. The port must open soon.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pause after an error of the store at the start: an etcd is mostly connected within milliseconds.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the time by which the ends of credentials are judged.
pub(crate) fn judged_now() -> Timestamp {
    let seconds = i64::try_from(CLOCK.time().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// Returns the reason why this server signs nothing now; `None` if it does.
pub(crate) fn refusal_to_sign() -> Option<String> {
    let behind = CLOCK.seconds();
    (behind > 0).then(|| {
        format!(
            "the clock of this server is {behind} s behind a time that has passed, so it signs nothing. Synchronize it with \
             NTP. If the clock is right, set clock.acceptedAt"
        )
    })
}

/// Recorded time in the store, and the correction of the clock by it. Clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct RecordedTime {
    values: SealedValues,
    /// Time at which an operator has compared the clock.
    accepted: Option<Timestamp>,
    correction: &'static ClockCorrection,
    /// True after the first comparison.
    is_compared: Arc<AtomicBool>,
    metric: Gauge,
}

impl RecordedTime {
    /// Creates it for a store, without a time that an operator has accepted.
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        Self {
            values: SealedValues::new(store, encryption, FOLDER),
            accepted: None,
            correction: &CLOCK,
            is_compared: Arc::default(),
            metric: Gauge::default(),
        }
    }

    /// Adds the time at which an operator has accepted the clock, and the metric.
    pub(crate) fn with(self, accepted: Option<Timestamp>, registry: &mut Registry) -> Self {
        registry.register(
            "capstan_clock_behind_seconds",
            "Time by which the clock of this machine is behind the last one in the store, since the start of the process",
            self.metric.clone(),
        );
        Self { accepted, ..self }
    }

    /// Returns the time by which the clock of this machine is behind the last one in the store.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn behind(&self) -> anyhow::Result<SignedDuration> {
        let replicas = replicas::all(self.values.store.as_ref()).await?;
        let recorded = self.read().await?.and_then(|recorded| Timestamp::from_second(recorded.at).ok());
        let passed = replicas.iter().map(|replica| replica.renewed).chain(recorded).max();
        Ok(decide::behind(Timestamp::now(), passed))
    }

    /// Compares the clock at the start, if the store answers soon.
    pub(crate) async fn begin(&self) {
        let comparing = async {
            while self.compare().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        if tokio::time::timeout(PATIENCE, comparing).await.is_err() {
            tracing::debug!("the clock cannot be compared with the times in the store yet");
        }
    }

    /// Compares the clock until it is right. Returns at `shutdown`.
    pub(crate) async fn follow(self, shutdown: CancellationToken) {
        let _ = shutdown.run_until_cancelled(self.until_right()).await;
        shutdown.cancelled().await;
    }

    async fn until_right(&self) {
        let (mut outage, mut logged): (Outage, Option<Instant>) = (Outage::default(), None);
        while !self.is_compared.load(Ordering::Acquire) || self.correction.seconds() > 0 {
            if let Err(error) = self.compare().await
                && outage.should_log()
            {
                tracing::warn!(
                    "the clock cannot be compared with the times in the store; retrying: {error:#}"
                );
            }
            let behind = self.correction.seconds();
            if behind > 0 && logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                logged = Some(Instant::now());
                tracing::error!(
                    seconds = behind,
                    "the clock of this machine is behind a time in the store: credentials are judged by that time, and \
                     nothing is signed; synchronize it with NTP, or see clock.acceptedAt in docs/configuration.md"
                );
            }
            let is_compared = self.is_compared.load(Ordering::Acquire);
            tokio::time::sleep(if is_compared { COMPARE_INTERVAL } else { PATIENCE }).await;
        }
        if logged.is_some() {
            tracing::info!("the clock of this machine has caught up with the times in the store");
        }
    }

    /// Compares the clock with the times in the store, and sets the correction. After the first comparison it only gets
    /// smaller: the clock of another replica may be set while this process runs, and alerts report that.
    async fn compare(&self) -> anyhow::Result<()> {
        self.accept().await?;
        let behind = u64::try_from(self.behind().await?.as_secs()).unwrap_or_default();
        let is_first = !self.is_compared.swap(true, Ordering::AcqRel);
        let behind = if is_first { behind } else { behind.min(self.correction.seconds()) };
        self.correction.set(behind);
        self.metric.set(i64::try_from(behind).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Replaces the recorded time, and removes the records of replicas from the future, if an operator has accepted the clock
    /// since.
    async fn accept(&self) -> anyhow::Result<()> {
        let Some(accepted) = self.accepted else { return Ok(()) };
        let (before, now) = (self.read().await?, Timestamp::now());
        let Some(recorded) = Recorded::accepted(before, accepted, now) else { return Ok(()) };
        let limit = now.saturating_add(SKEW).unwrap_or(Timestamp::MAX);
        replicas::forget_later(self.values.store.as_ref(), limit).await?;
        self.values.write(KIND, NAME, &recorded).await?;
        tracing::warn!(
            before = before.map(|before| before.at),
            now = recorded.at,
            "the operator has accepted the clock of this machine; later times in the store do not count"
        );
        Ok(())
    }

    /// Records the time while this replica is the leader.
    pub(crate) async fn keep(self, end: CancellationToken) {
        let _ = end.run_until_cancelled(self.record_all()).await;
    }

    async fn record_all(&self) {
        let (mut clock, mut outage) = (Clock::default(), Outage::default());
        let mut steady_since = Instant::now();
        loop {
            let (wall, now) = (Timestamp::now(), Instant::now());
            if clock.read(wall, now).jump.is_some() {
                steady_since = now;
            }
            if now.duration_since(steady_since) >= STEADY
                && let Err(error) = self.record(wall).await
                && outage.should_log()
            {
                tracing::warn!("the time cannot be recorded in the store; retrying: {error:#}");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Records a time, unless a later one is recorded.
    pub(crate) async fn record(&self, now: Timestamp) -> anyhow::Result<()> {
        if let Some(recorded) = Recorded::advanced(self.read().await?, now) {
            self.values.write(KIND, NAME, &recorded).await?;
        }
        Ok(())
    }

    async fn read(&self) -> anyhow::Result<Option<Recorded>> {
        self.values.read(KIND, NAME).await
    }
}
