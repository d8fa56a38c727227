//! Crash point of a test: counts effects in the API and the cloud, and ends the simulated process at one of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Side of an effect on which the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process ends before the effect.
    Before,
    /// The effect happens, and the process ends before it receives the response.
    After,
    /// The process freezes before the effect. When it is thawed, the effect happens late, and the process ends.
    Late,
}

/// Effects at which one process after another crashes: each crashes at the next such effect, once before it and once
/// after it.
#[derive(Debug)]
pub struct EachEffect {
    parts: Vec<String>,
    /// Generated names count as one. Otherwise a crash before the creation of an object is repeated for ever, since the
    /// next process takes another name.
    is_of_kinds: bool,
    crashes: Mutex<BTreeMap<String, Vec<Side>>>,
}

impl EachEffect {
    /// Selects the effects that contain one of these texts. An empty text selects all.
    pub fn containing(parts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { parts, is_of_kinds: false, crashes: Mutex::default() }
    }

    /// Selects the effects that contain one of these texts. Objects whose names differ in the generated part are one.
    pub fn of_kinds(parts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { is_of_kinds: true, ..Self::containing(parts) }
    }

    /// Returns the sides of the crashes so far, by the text of the effect.
    pub fn crashes(&self) -> BTreeMap<String, Vec<Side>> {
        self.crashes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the side on which the process crashes now.
    fn side(&self, effect: &str) -> Option<Side> {
        if !self.parts.iter().any(|part| effect.contains(part.as_str())) {
            return None;
        }
        let mut crashes = self.crashes.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = if self.is_of_kinds { without_suffixes(effect) } else { effect.to_owned() };
        let sides = crashes.entry(effect).or_default();
        let side = [Side::Before, Side::After].into_iter().nth(sides.len())?;
        sides.push(side);
        Some(side)
    }
}

/// Returns a path with `*` for each generated end of a name.
fn without_suffixes(path: &str) -> String {
    /// Characters of generated ends, and their number.
    const SUFFIX: (&str, usize) = ("bcdfghjklmnpqrstvwxz2456789", 5);
    let is_suffix = |end: &str| end.len() == SUFFIX.1 && end.chars().all(|it| SUFFIX.0.contains(it));
    let name = |name: &str| match name.rsplit_once('-') {
        Some((base, end)) if is_suffix(end) => format!("{base}-*"),
        _ => name.to_owned(),
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

/// Position of a crash.
#[derive(Debug)]
enum Position {
    Never,
    Number(usize, Side),
    Each(Arc<EachEffect>),
}

/// Point at which a simulated process crashes: before or after the n-th effect, in the API or in the cloud. After that
/// no call of the process returns.
#[derive(Debug)]
pub struct CrashPoint {
    position: Position,
    effects: Mutex<Vec<String>>,
    crashed: AtomicBool,
    frozen: AtomicBool,
    notify: Notify,
    thaw: Notify,
}

impl CrashPoint {
    /// Creates a crash point at effect `n`, counted from 0.
    pub fn at(n: usize, side: Side) -> Self {
        Self { position: Position::Number(n, side), ..Self::never() }
    }

    /// Creates a crash point at the next of several effects.
    pub fn at_each(effects: &Arc<EachEffect>) -> Self {
        Self { position: Position::Each(Arc::clone(effects)), ..Self::never() }
    }

    /// Creates a crash point for a process that never crashes.
    pub fn never() -> Self {
        Self {
            position: Position::Never,
            effects: Mutex::default(),
            crashed: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            notify: Notify::new(),
            thaw: Notify::new(),
        }
    }

    /// Returns true if the process has crashed.
    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// Waits until the process crashes.
    pub async fn crashed(&self) {
        self.is_set(&self.crashed).await;
    }

    /// Waits until the process freezes. From then on the test does not poll it, until it thaws the process.
    pub async fn frozen(&self) {
        self.is_set(&self.frozen).await;
    }

    /// Returns true if the process has frozen.
    pub fn has_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Lets the effect of a frozen process happen.
    pub fn thaw(&self) {
        self.thaw.notify_one();
    }

    async fn is_set(&self, flag: &AtomicBool) {
        loop {
            let notified = self.notify.notified();
            if flag.load(Ordering::SeqCst) {
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
        let side = self.side(effect);
        match side {
            Some(Side::Before) => self.crash().await,
            Some(Side::After) => {
                drop(future.await);
                self.crash().await
            }
            Some(Side::Late) => {
                self.frozen.store(true, Ordering::SeqCst);
                self.notify.notify_waiters();
                self.thaw.notified().await;
                drop(future.await);
                self.crash().await
            }
            None => future.await,
        }
    }

    /// Records an effect. Returns the side on which the process crashes now.
    fn side(&self, effect: String) -> Option<Side> {
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        let side = match &self.position {
            Position::Never => None,
            Position::Number(n, side) => (*n == effects.len()).then_some(*side),
            Position::Each(each) => each.side(&effect),
        };
        effects.push(effect);
        side
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
