//! Crash point of a test: counts effects in the API and the cloud, and ends the simulated process at one of them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Side of an effect on which the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process ends before the effect.
    Before,
    /// The effect happens, and the process ends before it receives the response.
    After,
}

/// Point at which a simulated process crashes: before or after the n-th effect, in the API or in the cloud. After that
/// no call of the process returns.
#[derive(Debug)]
pub struct CrashPoint {
    position: Option<(usize, Side)>,
    effects: Mutex<Vec<String>>,
    crashed: AtomicBool,
    notify: Notify,
}

impl CrashPoint {
    /// Creates a crash point at effect `n`, counted from 0.
    pub fn at(n: usize, side: Side) -> Self {
        Self { position: Some((n, side)), ..Self::never() }
    }

    /// Creates a crash point for a process that never crashes.
    pub fn never() -> Self {
        Self {
            position: None,
            effects: Mutex::default(),
            crashed: AtomicBool::new(false),
            notify: Notify::new(),
        }
    }

    /// Returns true if the process has crashed.
    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// Waits until the process crashes.
    pub async fn crashed(&self) {
        loop {
            let notified = self.notify.notified();
            if self.has_crashed() {
                return;
            }
            notified.await;
        }
    }

    /// Returns the effects so far.
    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes an effect, unless the process crashes before it.
    pub(crate) async fn perform<T>(&self, effect: String, future: impl Future<Output = T>) -> T {
        self.alive().await;
        let index = {
            let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
            effects.push(effect);
            effects.len() - 1
        };
        match self.position {
            Some((n, Side::Before)) if n == index => self.crash().await,
            Some((n, Side::After)) if n == index => {
                drop(future.await);
                self.crash().await
            }
            _ => future.await,
        }
    }

    /// Returns unless the process has crashed. After that it never returns, like a read of a process that has ended.
    pub(crate) async fn alive(&self) {
        if self.has_crashed() {
            std::future::pending::<()>().await;
        }
    }

    async fn crash<T>(&self) -> T {
        self.crashed.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
        std::future::pending().await
    }
}
