//! Fair queue: start-time fair queuing with seats.
//!
//! Every user has an account in microseconds of seats. A request starts at its user's account, but not before the
//! queue's clock, which is the start of the latest admitted request: a user who was away saves nothing up. Of the
//! waiting requests, the one with the earliest start is admitted next. On admission the account is charged with the
//! recent cost of the user's requests; on release it is corrected to the real cost.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Limits;
use super::lending::Share;

/// Estimated cost of a user's first request. Unit: microseconds.
const FIRST_ESTIMATE: u64 = 10_000;

/// Maximum number of accounts that are kept. Beyond that, accounts of users without running requests are dropped.
const MOST_ACCOUNTS: usize = 10_000;

/// Reason why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue of the user, or of all users, is full.
    QueueFull,
    /// The request has waited as long as it may.
    TimedOut,
}

impl Refusal {
    /// Returns the reason as a metric's label.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TimedOut => "time-out",
        }
    }
}

/// Load of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) executing: usize,
    pub(crate) waiting: usize,
}

#[derive(Debug, Default)]
struct Account {
    /// Start of the user's next request.
    next: u64,
    /// Recent cost of one of the user's seats. Unit: microseconds.
    recent_cost: u64,
    seats: usize,
    executing: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Waiter {
    user: Arc<str>,
    seats: usize,
    charged: u64,
    wake: oneshot::Sender<()>,
}

/// Position in the queue: start, then arrival.
type Position = (u64, u64);

#[derive(Debug, Default)]
struct State {
    used: usize,
    executing: usize,
    clock: u64,
    arrivals: u64,
    accounts: HashMap<Arc<str>, Account>,
    waiting: BTreeMap<Position, Waiter>,
}

impl State {
    /// Removes the request at this position; `false` if there is none.
    fn remove(&mut self, position: &Position) -> bool {
        let Some(waiter) = self.waiting.remove(position) else { return false };
        if let Some(account) = self.accounts.get_mut(&waiter.user) {
            account.waiting = account.waiting.saturating_sub(1);
            account.next = account.next.saturating_sub(waiter.charged);
        }
        true
    }
}

/// Queue of requests that wait for seats.
#[derive(Debug)]
pub(crate) struct FairQueue {
    limits: Limits,
    state: Mutex<State>,
    /// Share of the seats, if another queue has some of them.
    share: Option<Share>,
}

/// Seats of a request, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    queue: Arc<FairQueue>,
    user: Arc<str>,
    seats: usize,
    charged: u64,
    since: Instant,
}

impl FairQueue {
    pub(crate) fn new(limits: Limits) -> Self {
        let limits = Limits { seats: limits.seats.max(1), ..limits };
        Self { limits, state: Mutex::default(), share: None }
    }

    /// Creates a queue that shares seats with another one. The limits have the most that it may use.
    pub(super) fn sharing(limits: Limits, share: Share) -> Self {
        Self { share: Some(share), ..Self::new(limits) }
    }

    /// Admits waiting requests to seats that the other queue has released.
    pub(super) fn look(&self) {
        let mut state = self.lock();
        self.admit_waiting(&mut state);
    }

    /// Lets the other queue take what this one has left. No lock may be held.
    fn wake_other(&self) {
        if let Some(share) = &self.share {
            share.wake();
        }
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.lock();
        Load { executing: state.executing, waiting: state.waiting.len() }
    }

    /// Waits for `seats` at once.
    ///
    /// # Errors
    /// [`Refusal`] if the queue is full, or the wait was too long.
    pub(crate) async fn enter(self: &Arc<Self>, user: &str, seats: usize) -> Result<Seat, Refusal> {
        let seats = seats.clamp(1, self.seats_per_user());
        let mut waiting = self.arrive(user, seats)?;
        match tokio::time::timeout(self.limits.longest_wait, &mut waiting.woken).await {
            Ok(Ok(())) => Ok(waiting.into_seat()),
            // The drop of the waiter removes it from the queue.
            Ok(Err(_)) | Err(_) => Err(Refusal::TimedOut),
        }
    }

    /// Returns the most seats of one user: some are left for others, even if all are held for long.
    fn seats_per_user(&self) -> usize {
        self.limits.seats - self.limits.seats / 4
    }

    fn arrive(self: &Arc<Self>, user: &str, seats: usize) -> Result<Waiting, Refusal> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.accounts.len() > MOST_ACCOUNTS {
            state.accounts.retain(|_, account| account.executing + account.waiting > 0);
        }
        let (user, account) = account(&mut state.accounts, user);
        let start = account.next.max(state.clock);
        let charged = account.recent_cost.saturating_mul(as_number(seats));
        account.next = start.saturating_add(charged);
        account.waiting += 1;
        state.arrivals += 1;
        let position = (start, state.arrivals);
        let (wake, woken) = oneshot::channel();
        state.waiting.insert(position, Waiter { user: Arc::clone(&user), seats, charged, wake });
        self.admit_waiting(state);
        let ahead = state.accounts.get(&user).map_or(0, |account| account.waiting);
        let is_full = ahead > self.limits.longest_queue || state.waiting.len() > self.limits.most_waiting;
        if is_full && state.remove(&position) {
            self.publish(state);
            return Err(Refusal::QueueFull);
        }
        let queue = Arc::clone(self);
        Ok(Waiting { queue, user, seats, charged, position, woken, taken: false })
    }

    fn seat(self: &Arc<Self>, user: Arc<str>, seats: usize, charged: u64) -> Seat {
        Seat { queue: Arc::clone(self), user, seats, charged, since: Instant::now() }
    }

    /// Admits waiting requests to free seats. It is the last step under the lock.
    fn admit_waiting(&self, state: &mut State) {
        self.admit_those_with_room(state);
        self.publish(state);
    }

    fn publish(&self, state: &State) {
        if let Some(share) = &self.share {
            share.publish(state.used, state.waiting.len());
        }
    }

    fn admit_those_with_room(&self, state: &mut State) {
        while let Some(position) = self.next(state) {
            let Some(waiter) = state.waiting.remove(&position) else { return };
            state.clock = state.clock.max(position.0);
            state.used += waiter.seats;
            state.executing += 1;
            if let Some(account) = state.accounts.get_mut(&waiter.user) {
                account.waiting = account.waiting.saturating_sub(1);
                account.executing += 1;
                account.seats += waiter.seats;
            }
            // The receiver is there: a waiter that leaves takes the lock first.
            let _ = waiter.wake.send(());
        }
    }

    /// Returns the position of the first request whose user may have more seats, if those are free. A request that
    /// needs many seats is not passed by: it would wait for ever.
    fn next(&self, state: &State) -> Option<Position> {
        let may = |waiter: &Waiter| {
            let has = state.accounts.get(&waiter.user).map_or(0, |account| account.seats);
            has + waiter.seats <= self.seats_per_user()
        };
        let (position, waiter) = state.waiting.iter().find(|(_, waiter)| may(waiter))?;
        let is_shared_free = self.share.as_ref().is_none_or(|share| share.has_room(state.used, waiter.seats));
        (is_shared_free && state.used + waiter.seats <= self.limits.seats).then_some(*position)
    }

    /// Releases seats that were held for `took` microseconds each.
    fn release(&self, user: &Arc<str>, seats: usize, charged: u64, took: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.used = state.used.saturating_sub(seats);
        state.executing = state.executing.saturating_sub(1);
        if let Some(account) = state.accounts.get_mut(user) {
            account.executing = account.executing.saturating_sub(1);
            account.seats = account.seats.saturating_sub(seats);
            account.recent_cost = (account.recent_cost.saturating_mul(7).saturating_add(took)) / 8;
            let cost = took.saturating_mul(as_number(seats));
            account.next = account.next.saturating_sub(charged).saturating_add(cost);
        }
        if state.used == 0 && state.waiting.is_empty() {
            // No request waits, so all accounts can start again.
            state.accounts.clear();
            state.clock = 0;
        }
        self.admit_waiting(state);
        drop(guard);
        self.wake_other();
    }

    // Only plain assignments happen under the lock, so a panic leaves no half state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn account<'a>(accounts: &'a mut HashMap<Arc<str>, Account>, user: &str) -> (Arc<str>, &'a mut Account) {
    let name = accounts.get_key_value(user).map_or_else(|| Arc::from(user), |(name, _)| Arc::clone(name));
    let fresh = || Account { recent_cost: FIRST_ESTIMATE, ..Account::default() };
    (Arc::clone(&name), accounts.entry(name).or_insert_with(fresh))
}

fn as_number(seats: usize) -> u64 {
    u64::try_from(seats).unwrap_or(u64::MAX)
}

/// Waiting request; it leaves the queue when dropped.
#[derive(Debug)]
struct Waiting {
    queue: Arc<FairQueue>,
    user: Arc<str>,
    seats: usize,
    charged: u64,
    position: Position,
    woken: oneshot::Receiver<()>,
    taken: bool,
}

impl Waiting {
    fn into_seat(mut self) -> Seat {
        self.taken = true;
        self.queue.seat(Arc::clone(&self.user), self.seats, self.charged)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.queue.lock();
        if state.remove(&self.position) {
            // This may have been the one that needed many seats.
            self.queue.admit_waiting(&mut state);
            drop(state);
            self.queue.wake_other();
            return;
        }
        drop(state);
        // It was admitted at the moment at which it left.
        self.queue.release(&self.user, self.seats, self.charged, 0);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let took = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.queue.release(&self.user, self.seats, self.charged, took);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
