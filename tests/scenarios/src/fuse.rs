//! Fuse of a test: counts effects in the API and the cloud, and ends the simulated process at one of them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Side of an effect on which the cut is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process ends before the effect.
    Before,
    /// The effect happens, and the process ends before it receives the response.
    After,
}

/// Test fuse that blows at the n-th effect, in the API or in the cloud. After that no call through it returns, as in a
/// process that has ended.
#[derive(Debug)]
pub struct Fuse {
    cut: Option<(usize, Side)>,
    effects: Mutex<Vec<String>>,
    blown: AtomicBool,
    notify: Notify,
}

impl Fuse {
    /// Creates a fuse that blows at effect `n`, counted from 0.
    pub fn at(n: usize, side: Side) -> Self {
        Self { cut: Some((n, side)), ..Self::never() }
    }

    /// Creates a fuse that never blows.
    pub fn never() -> Self {
        Self { cut: None, effects: Mutex::default(), blown: AtomicBool::new(false), notify: Notify::new() }
    }

    /// Returns true if the fuse has blown.
    pub fn is_blown(&self) -> bool {
        self.blown.load(Ordering::SeqCst)
    }

    /// Waits until the fuse blows.
    pub async fn blows(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_blown() {
                return;
            }
            notified.await;
        }
    }

    /// Returns the effects so far.
    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes an effect, unless the fuse blows before it.
    pub(crate) async fn through<T>(&self, effect: String, future: impl Future<Output = T>) -> T {
        self.alive().await;
        let index = {
            let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
            effects.push(effect);
            effects.len() - 1
        };
        match self.cut {
            Some((n, Side::Before)) if n == index => self.blow().await,
            Some((n, Side::After)) if n == index => {
                drop(future.await);
                self.blow().await
            }
            _ => future.await,
        }
    }

    /// Returns unless the fuse has blown. After that it never returns, like a read of a process that has ended.
    pub(crate) async fn alive(&self) {
        if self.is_blown() {
            std::future::pending::<()>().await;
        }
    }

    async fn blow<T>(&self) -> T {
        self.blown.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
        std::future::pending().await
    }
}
