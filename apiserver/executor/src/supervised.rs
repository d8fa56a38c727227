//! Supervised tasks: every task of the process has a name, and a supervisor reacts to its end.
//!
//! | Function | Use | End before shutdown | Panic |
//! |---|---|---|---|
//! | [`Supervisor::spawn`] | runs as long as the process | the process shuts down and fails | as its end |
//! | [`Supervisor::spawn_restarting`] | as above, and nothing depends on what it remembers | restarted | restarted |
//! | [`Supervisor::spawn_finite`] | start-up work, work that ends with its subject | allowed | the process shuts down and fails |
//! | [`spawn_joined`] | the caller awaits the handle | the caller's to handle | the caller's to handle |
//! | [`spawn_detached`] | serves one client, after its handler returned | allowed | logged |
//!
//! A task that the process cannot do without must not end in silence: readers of a watch cache that no task feeds
//! see old objects for ever, and readiness says that all is well.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// First pause before a restart; each restart in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause before a restart: how long the process does without the task once its cause is gone.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Run time after which a task counts as recovered: its next pause is the first one again.
const RECOVERED: Duration = Duration::from_secs(300);

/// Name of a task, as logs and metrics show it: lower case, e.g. `storage health`.
pub type TaskName = Cow<'static, str>;

/// Supervisor of the long-lived tasks of a process. Clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct Supervisor(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    shutdown: CancellationToken,
    tasks: TaskTracker,
    failure: OnceLock<TaskFailure>,
    restarts: Mutex<BTreeMap<TaskName, u64>>,
}

/// Counter of the restarts of one task.
#[derive(Debug, Clone)]
pub struct RestartCounter {
    supervisor: Supervisor,
    task: TaskName,
}

impl RestartCounter {
    /// Counts one restart.
    pub fn increment(&self) {
        *self.supervisor.restarts_mut().entry(self.task.clone()).or_default() += 1;
    }
}

/// End of a task that the process cannot do without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task:?} {reason}")]
pub struct TaskFailure {
    /// Name of the task.
    pub task: TaskName,
    /// Way in which it ended: `ended`, or its panic.
    pub reason: String,
}

impl Supervisor {
    /// Creates a supervisor that cancels `shutdown` when a task fails.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        Self(Arc::new(Shared { shutdown, ..Shared::default() }))
    }

    /// Returns the token that is cancelled when the process begins to shut down, for whatever reason.
    #[must_use]
    pub fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// Spawns a task that runs as long as the process. It ends by itself once [`Supervisor::shutdown`] is cancelled;
    /// if it ends earlier, or panics, the process shuts down and [`Supervisor::failure`] says why.
    pub fn spawn(&self, task: impl Into<TaskName>, future: impl Future<Output = ()> + Send + 'static) {
        self.start(task.into(), future, false);
    }

    /// Spawns a task that may end before the process does. If it panics, the process shuts down and fails.
    pub fn spawn_finite(&self, task: impl Into<TaskName>, future: impl Future<Output = ()> + Send + 'static) {
        self.start(task.into(), future, true);
    }

    fn start(&self, task: TaskName, future: impl Future<Output = ()> + Send + 'static, may_end: bool) {
        let supervisor = self.clone();
        self.track(async move {
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(()) if may_end || supervisor.0.shutdown.is_cancelled() => {}
                Ok(()) => supervisor.fail(task, "ended".to_owned()),
                Err(panic) => supervisor.fail(task, panicked(panic.as_ref())),
            }
        });
    }

    /// Spawns a task that runs as long as the process and can be created again: `make` creates it, and creates another
    /// one after a pause whenever the last one ends or panics. [`Supervisor::restarts`] counts. At shutdown it is
    /// dropped.
    pub fn spawn_restarting<F>(&self, task: impl Into<TaskName>, mut make: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (supervisor, task) = (self.clone(), task.into());
        supervisor.restarts_mut().insert(task.clone(), 0);
        self.track(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                let started = Instant::now();
                let ended = tokio::select! {
                    // First: a task that ends because of the shutdown is not restarted.
                    biased;
                    () = supervisor.0.shutdown.cancelled() => return,
                    ended = AssertUnwindSafe(make()).catch_unwind() => ended,
                };
                let reason = ended.map_or_else(|panic| panicked(panic.as_ref()), |()| "ended".to_owned());
                if started.elapsed() >= RECOVERED {
                    pause = FIRST_PAUSE;
                }
                *supervisor.restarts_mut().entry(task.clone()).or_default() += 1;
                tracing::warn!(task = %task, reason, pause_seconds = pause.as_secs(), "task ended; restarting it");
                tokio::select! {
                    () = supervisor.0.shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Returns a counter of the restarts of a task that restarts its parts itself, under its name in
    /// [`Supervisor::restarts`].
    #[must_use]
    pub fn restart_counter(&self, task: impl Into<TaskName>) -> RestartCounter {
        let task = task.into();
        self.restarts_mut().insert(task.clone(), 0);
        RestartCounter { supervisor: self.clone(), task }
    }

    /// Returns the number of restarts of each restarting task, zeros included.
    #[must_use]
    pub fn restarts(&self) -> Vec<(TaskName, u64)> {
        self.restarts_mut().iter().map(|(task, count)| (task.clone(), *count)).collect()
    }

    /// Returns the first failure, if there was one: the process then exits with an error.
    #[must_use]
    pub fn failure(&self) -> Option<&TaskFailure> {
        self.0.failure.get()
    }

    /// Waits until all tasks have ended. Call it after [`Supervisor::shutdown`] is cancelled.
    pub async fn wait(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn track(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(future);
    }

    fn fail(&self, task: TaskName, reason: String) {
        tracing::error!(task = %task, reason, "task ended; shutting down");
        let _ = self.0.failure.set(TaskFailure { task, reason });
        self.0.shutdown.cancel();
    }

    // Nothing under the lock can panic.
    fn restarts_mut(&self) -> MutexGuard<'_, BTreeMap<TaskName, u64>> {
        self.0.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spawns a task whose end the caller awaits: work that must go on when the caller is dropped, or that must not block
/// the caller's task. Its panic is in the [`JoinHandle`].
#[must_use = "a task that is not awaited can fail unnoticed: use spawn_detached"]
pub fn spawn_joined<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    tokio::spawn(future)
}

/// Spawns a task that serves one client on its own. Its panic is logged and ends nothing else.
pub fn spawn_detached(task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
    drop(spawn_joined(async move {
        if let Err(panic) = AssertUnwindSafe(future).catch_unwind().await {
            tracing::error!(task, reason = panicked(panic.as_ref()), "task ended");
        }
    }));
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked".to_owned(), |text| format!("panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restart_counter_starts_at_zero() {
        let supervisor = Supervisor::default();
        let counter = supervisor.restart_counter("controllers");
        assert_eq!(supervisor.restarts(), [("controllers".into(), 0)]);
        counter.increment();
        assert_eq!(supervisor.restarts(), [("controllers".into(), 1)]);
    }

    #[tokio::test]
    async fn a_task_that_ends_or_panics_shuts_the_process_down_with_a_failure() {
        for (panics, expected) in
            [(false, "task \"watch cache\" ended"), (true, "task \"watch cache\" panicked: oh no")]
        {
            let supervisor = Supervisor::default();
            supervisor.spawn("watch cache", async move { assert!(!panics, "oh {}", "no") });
            supervisor.shutdown().cancelled().await;
            supervisor.wait().await;
            assert_eq!(supervisor.failure().unwrap().to_string(), expected);
        }
    }

    #[tokio::test]
    async fn a_task_that_ends_at_shutdown_is_no_failure() {
        let supervisor = Supervisor::default();
        let shutdown = supervisor.shutdown().clone();
        supervisor.spawn("listener", async move { shutdown.cancelled().await });
        supervisor.spawn_restarting("host events", std::future::pending::<()>);
        let shutdown = supervisor.shutdown().clone();
        supervisor.spawn_restarting("host namespaces", move || shutdown.clone().cancelled_owned());
        assert!(tokio::time::timeout(Duration::from_millis(20), supervisor.wait()).await.is_err());
        supervisor.shutdown().cancel();
        supervisor.wait().await;
        assert_eq!(supervisor.failure(), None);
        assert!(supervisor.restarts().iter().all(|(_, count)| *count == 0), "{:?}", supervisor.restarts());
    }

    #[tokio::test]
    async fn a_finite_task_may_end_but_not_panic() {
        let supervisor = Supervisor::default();
        supervisor.spawn_finite("start hooks", async {});
        supervisor.wait().await;
        assert!(!supervisor.shutdown().is_cancelled());
        supervisor.spawn_finite("start hooks", async { panic!("no") });
        supervisor.shutdown().cancelled().await;
        assert_eq!(supervisor.failure().unwrap().task, "start hooks");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarting_task_restarts_with_backoff_and_is_counted() {
        let (supervisor, begun) = (Supervisor::default(), Instant::now());
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        supervisor.spawn_restarting("host events", move || {
            starts.send(begun.elapsed().as_secs()).unwrap();
            async move {
                match begun.elapsed().as_secs() {
                    0 => panic!("no"),
                    // The fourth recovers, and the pause after it is the first again.
                    7 => tokio::time::sleep(RECOVERED).await,
                    _ => {}
                }
            }
        });
        tokio::time::sleep(Duration::from_secs(309)).await;
        assert_eq!(supervisor.restarts(), [("host events".into(), 5)]);
        supervisor.shutdown().cancel();
        supervisor.wait().await;
        assert_eq!(supervisor.failure(), None);
        let mut times = Vec::new();
        while let Some(time) = started.recv().await {
            times.push(time);
        }
        assert_eq!(times, [0, 1, 3, 7, 308]);
    }

    #[tokio::test]
    async fn the_panic_of_a_detached_task_stays_inside_it() {
        let (done, awaited) = tokio::sync::oneshot::channel::<()>();
        spawn_detached("web socket", async move {
            let _done = done;
            panic!("no");
        });
        assert!(awaited.await.is_err());
        assert!(spawn_joined(async { panic!("no") }).await.is_err());
        assert_eq!(spawn_joined(async { 7 }).await.unwrap(), 7);
    }
}
