//! Health of the host cluster, which decides on the answers of the host that are believed.

mod machine;
mod observed;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

pub use machine::HostState;
pub(crate) use machine::{Listed, Outcome, Probe};
pub(crate) use observed::{Backlog, HostObservations};

use crate::contact::Contact;
use crate::metrics::{HostMetrics, Outbox};
use machine::Machine;

/// Health of the host, as all its users see it. Clones share it.
#[derive(Debug, Clone)]
pub struct HostHealth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// `None`: no prober runs, and all answers are believed.
    machine: Option<Mutex<Machine>>,
    state: watch::Sender<HostState>,
    /// Last time at which the host was up.
    contact: Mutex<Contact>,
    /// Observations that only people need.
    observed: Mutex<HostObservations>,
    metrics: HostMetrics,
}

impl Default for HostHealth {
    /// Returns the health of a host whose answers are all believed.
    fn default() -> Self {
        Self::with(None, HostState::Up, HostMetrics::default())
    }
}

impl HostHealth {
    /// Creates the health of a host that was not seen yet.
    pub fn new(metrics: HostMetrics) -> Self {
        Self::with(Some(Mutex::new(Machine::new(Instant::now()))), HostState::Probation, metrics)
    }

    fn with(machine: Option<Mutex<Machine>>, state: HostState, metrics: HostMetrics) -> Self {
        metrics.set_state(state);
        let (state, contact) = (watch::Sender::new(state), Mutex::new(Contact::never()));
        let observed = Mutex::new(HostObservations::new(Timestamp::now()));
        Self(Arc::new(Shared { machine, state, contact, observed, metrics }))
    }

    /// Returns the state now.
    pub fn state(&self) -> HostState {
        *self.0.state.borrow()
    }

    /// Returns the time since the host was last up: zero now, and the longest time if it never was. It is the longer one
    /// of what the wall clock and the monotonic clock say, so that no jump of a clock makes a copy younger.
    pub fn age(&self) -> Duration {
        if self.state().believes_reviews() {
            return Duration::ZERO;
        }
        self.contact().age()
    }

    /// Sets the last contact from the record of an earlier process, unless this process had one.
    pub fn restore_contact(&self, at: Timestamp) {
        self.contact().restore(at);
    }

    /// Runs a future whenever the host is not cut off, and anew after each time it was. Returns when the future does.
    pub async fn while_reachable<T, F: Future<Output = T>>(&self, run: impl Fn() -> F) -> T {
        let mut state = self.0.state.subscribe();
        loop {
            self.wait(&mut state, |state| !state.is_cut_off()).await;
            let mut cut_off = state.clone();
            tokio::select! {
                done = run() => return done,
                () = self.wait(&mut cut_off, HostState::is_cut_off) => {}
            }
        }
    }

    /// Publishes the age of a copy in the metrics. `what` is its name.
    pub fn report_mirror_age(&self, what: &'static str, age: Duration) {
        self.0.metrics.set_mirror_age(what, age);
    }

    pub(crate) fn metrics(&self) -> &HostMetrics {
        &self.0.metrics
    }

    /// Waits until all answers of the host are believed.
    pub async fn up(&self) {
        self.wait(&mut self.0.state.subscribe(), |state| state.believes_absence()).await;
    }

    /// Waits until the host is up again after an outage: one in which it was cut off, or on probation.
    pub(crate) async fn returned(&self) {
        let mut state = self.0.state.subscribe();
        self.wait(&mut state, |state| !state.believes_reviews()).await;
        self.wait(&mut state, HostState::believes_absence).await;
    }

    async fn wait(&self, state: &mut watch::Receiver<HostState>, is_so: impl Fn(HostState) -> bool) {
        // The sender lives as long as `self`.
        let _ = state.wait_for(|state| is_so(*state)).await;
    }

    /// Records the result of a request.
    pub(crate) fn request(&self, outcome: Outcome) {
        self.change(|machine, now| machine.request(now, outcome));
    }

    /// Records the result of a probe.
    pub(crate) fn probe(&self, probe: Probe) {
        self.observed().note_probe(probe);
        self.change(|machine, now| machine.probe(now, probe));
    }

    /// Returns true if the next probe should list the namespaces.
    pub(crate) fn wants_list(&self) -> bool {
        self.machine().is_some_and(|machine| machine.wants_list(Instant::now()))
    }

    /// Records the objects of one kind that wait to be written to the host. `None`: this process does not write them.
    pub(crate) fn report_backlog(&self, outbox: Outbox, backlog: Option<Backlog>) {
        self.0.metrics.set_outbox(outbox, backlog.unwrap_or_default());
        self.observed().set_backlog(outbox, backlog);
    }

    /// Returns a copy of the observations that only people need.
    pub(crate) fn observations(&self) -> HostObservations {
        self.observed().clone()
    }

    /// Returns the time since the last answer that counted; the longest time if there was none. Unlike
    /// [`HostHealth::age`], it is not zero while the host is up.
    pub(crate) fn since_contact(&self) -> Duration {
        self.contact().age()
    }

    fn change(&self, change: impl FnOnce(&mut Machine, Instant)) {
        let Some(mut machine) = self.machine() else { return };
        let (before, now) = (machine.state(), Instant::now());
        change(&mut machine, now);
        let state = machine.state();
        if state.believes_reviews() {
            *self.contact() = Contact::now();
        }
        if before != state {
            self.0.metrics.set_state(state);
            self.observed().since = Timestamp::now();
            self.0.state.send_replace(state);
            drop(machine);
            log(before, state);
        }
    }

    // No change of the state panics half-way.
    fn machine(&self) -> Option<MutexGuard<'_, Machine>> {
        self.0.machine.as_ref().map(|machine| machine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn observed(&self) -> MutexGuard<'_, HostObservations> {
        self.0.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contact(&self) -> MutexGuard<'_, Contact> {
        self.0.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(before: HostState, state: HostState) {
    let (before, now) = (before.name(), state.name());
    match state {
        HostState::Up => tracing::info!(before, now, "host cluster: all its answers are believed"),
        HostState::Slow => tracing::warn!(before, now, "host cluster: answers slowly"),
        HostState::Down => tracing::warn!(before, now, "host cluster: does not answer; copies are used"),
        HostState::Probation => {
            tracing::info!(before, now, "host cluster: answers; its negative answers are not believed yet");
        }
        HostState::Other => {
            tracing::error!(before, now, "host cluster: another cluster answers; it is not used")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    impl HostHealth {
        /// Returns the health of a host in this state.
        pub(crate) fn in_state(state: HostState) -> Self {
            let health = Self::new(HostMetrics::default());
            health.set(state);
            health
        }

        /// Brings the host into this state.
        pub(crate) fn set(&self, state: HostState) {
            let full = Probe::Ready(Some(Listed { known: 1, missing: 0 }));
            match state {
                HostState::Up => self.change(|machine, now| {
                    for seconds in 0..20 {
                        machine.probe(now + Duration::from_secs(seconds), full);
                    }
                }),
                HostState::Slow => {
                    self.set(HostState::Up);
                    (0..3).for_each(|_| self.request(Outcome::Answer(Duration::from_secs(2))));
                }
                HostState::Down => (0..3).for_each(|_| self.request(Outcome::Failure)),
                HostState::Probation => {
                    (0..3).for_each(|_| self.request(Outcome::Failure));
                    self.probe(Probe::Ready(None));
                }
                HostState::Other => self.probe(Probe::Stranger),
            }
            assert_eq!(self.state(), state);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_age_of_the_copies_grows_while_the_host_is_not_up() {
        let health = HostHealth::in_state(HostState::Probation);
        assert_eq!(health.age(), Duration::MAX, "never seen");
        health.restore_contact(Timestamp::now() - Duration::from_secs(3600));
        assert_eq!(health.age().as_secs(), 3600);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(health.age().as_secs(), 4200);
        health.restore_contact(Timestamp::now());
        assert!(health.age().as_secs() >= 4200, "a later record makes no copy younger");
        health.set(HostState::Up);
        assert_eq!(health.age(), Duration::ZERO);
        health.set(HostState::Down);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(health.age().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_runs_only_while_the_host_is_reachable_and_begins_anew() {
        let health = HostHealth::in_state(HostState::Down);
        let begun = Mutex::new(0);
        let run = health.while_reachable(|| {
            *begun.lock().unwrap() += 1;
            std::future::pending::<()>()
        });
        let count = || *begun.lock().unwrap();
        let changes = async {
            tokio::task::yield_now().await;
            assert_eq!(count(), 0);
            for expected in [1, 2] {
                health.set(HostState::Probation);
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert_eq!(count(), expected);
                health.set(HostState::Down);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! { () = run => {}, () = changes => {} }
    }
}
