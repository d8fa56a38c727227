//! Counts effects, and ends everything at one of them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Which side of an effect the cut is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process dies before the effect.
    Before,
    /// The effect happens, and the process dies before it learns so.
    After,
}

/// Blows at the n-th effect, in the API or in the cloud. After that nothing that goes through it
/// ever answers: as for a process that is no more.
#[derive(Debug)]
pub struct Fuse {
    cut: Option<(usize, Side)>,
    effects: Mutex<Vec<String>>,
    blown: AtomicBool,
    notify: Notify,
}

impl Fuse {
    /// Blows at effect `n`, counted from 0.
    pub fn at(n: usize, side: Side) -> Self {
        Self { cut: Some((n, side)), ..Self::never() }
    }

    /// Never blows.
    pub fn never() -> Self {
        Self { cut: None, effects: Mutex::default(), blown: AtomicBool::new(false), notify: Notify::new() }
    }

    /// Whether it has blown.
    pub fn is_blown(&self) -> bool {
        self.blown.load(Ordering::SeqCst)
    }

    /// Ends when it blows.
    pub async fn blows(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_blown() {
                return;
            }
            notified.await;
        }
    }

    /// What went through it.
    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets an effect through, or not.
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

    /// Never ends once it has blown: what is read afterwards is read by nobody.
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
