//! One queue: start-time fair queuing with seats.
//!
//! Every user has an account in microseconds of seats. A request starts where its user's account
//! stands, but not before the queue's clock, which is the start of whatever was let in last: who was
//! away saves nothing up. Of those that wait, the one with the earliest start goes next. On entry the
//! account is charged what the user's requests took lately, and on leaving it is set right.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Limits;

/// What a user's first request is taken to cost. Unit: microseconds.
const FIRST_ESTIMATE: u64 = 10_000;

/// Accounts kept; beyond this those of users who have nothing running are forgotten.
const MOST_ACCOUNTS: usize = 10_000;

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The user has as many waiting as may wait, or all have.
    QueueFull,
    /// It waited as long as it may.
    TimedOut,
}

impl Refusal {
    /// The word that metrics have for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TimedOut => "time-out",
        }
    }
}

/// What a queue holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) executing: usize,
    pub(crate) waiting: usize,
}

#[derive(Debug, Default)]
struct Account {
    /// Where the user's next request starts.
    next: u64,
    /// What a seat of theirs takes, lately. Unit: microseconds.
    lately: u64,
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

/// By start, then by arrival.
type Place = (u64, u64);

#[derive(Debug, Default)]
struct State {
    used: usize,
    executing: usize,
    clock: u64,
    arrivals: u64,
    accounts: HashMap<Arc<str>, Account>,
    waiting: BTreeMap<Place, Waiter>,
}

impl State {
    /// Takes out whoever waits there; `false` when nobody does.
    fn give_up(&mut self, place: &Place) -> bool {
        let Some(waiter) = self.waiting.remove(place) else { return false };
        if let Some(account) = self.accounts.get_mut(&waiter.user) {
            account.waiting = account.waiting.saturating_sub(1);
            account.next = account.next.saturating_sub(waiter.charged);
        }
        true
    }
}

/// Seats, and who waits for them.
#[derive(Debug)]
pub(crate) struct FairQueue {
    limits: Limits,
    state: Mutex<State>,
}

/// A place among those served, for as long as it is held.
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
        Self { limits: Limits { seats: limits.seats.max(1), ..limits }, state: Mutex::default() }
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.lock();
        Load { executing: state.executing, waiting: state.waiting.len() }
    }

    /// Waits for `seats` at once.
    ///
    /// # Errors
    /// [`Refusal`] when there is no room to wait, or it took too long.
    pub(crate) async fn enter(self: &Arc<Self>, user: &str, seats: usize) -> Result<Seat, Refusal> {
        let seats = seats.clamp(1, self.most_of_one());
        let mut waiting = self.arrive(user, seats)?;
        match tokio::time::timeout(self.limits.longest_wait, &mut waiting.woken).await {
            Ok(Ok(())) => Ok(waiting.into_seat()),
            // Dropping it takes it out of the queue.
            Ok(Err(_)) | Err(_) => Err(Refusal::TimedOut),
        }
    }

    /// Seats that one user may have: some are left for others, even when all are held for long.
    fn most_of_one(&self) -> usize {
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
        let charged = account.lately.saturating_mul(as_number(seats));
        account.next = start.saturating_add(charged);
        account.waiting += 1;
        state.arrivals += 1;
        let place = (start, state.arrivals);
        let (wake, woken) = oneshot::channel();
        state.waiting.insert(place, Waiter { user: Arc::clone(&user), seats, charged, wake });
        self.let_in(state);
        let ahead = state.accounts.get(&user).map_or(0, |account| account.waiting);
        let is_full = ahead > self.limits.longest_queue || state.waiting.len() > self.limits.most_waiting;
        if is_full && state.give_up(&place) {
            return Err(Refusal::QueueFull);
        }
        let queue = Arc::clone(self);
        Ok(Waiting { queue, user, seats, charged, place, woken, taken: false })
    }

    fn seat(self: &Arc<Self>, user: Arc<str>, seats: usize, charged: u64) -> Seat {
        Seat { queue: Arc::clone(self), user, seats, charged, since: Instant::now() }
    }

    /// Gives free seats to those whose turn it is.
    fn let_in(&self, state: &mut State) {
        while let Some(place) = self.next(state) {
            let Some(waiter) = state.waiting.remove(&place) else { return };
            state.clock = state.clock.max(place.0);
            state.used += waiter.seats;
            state.executing += 1;
            if let Some(account) = state.accounts.get_mut(&waiter.user) {
                account.waiting = account.waiting.saturating_sub(1);
                account.executing += 1;
                account.seats += waiter.seats;
            }
            // Nobody is gone here: leaving takes the lock first.
            let _ = waiter.wake.send(());
        }
    }

    /// The first in the queue whose user may have more, if its seats are free. One that needs many
    /// seats is not passed by: it would wait for ever.
    fn next(&self, state: &State) -> Option<Place> {
        let may = |waiter: &Waiter| {
            let has = state.accounts.get(&waiter.user).map_or(0, |account| account.seats);
            has + waiter.seats <= self.most_of_one()
        };
        let (place, waiter) = state.waiting.iter().find(|(_, waiter)| may(waiter))?;
        (state.used + waiter.seats <= self.limits.seats).then_some(*place)
    }

    /// Takes back seats that were held for `took` microseconds each.
    fn give_back(&self, user: &Arc<str>, seats: usize, charged: u64, took: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.used = state.used.saturating_sub(seats);
        state.executing = state.executing.saturating_sub(1);
        if let Some(account) = state.accounts.get_mut(user) {
            account.executing = account.executing.saturating_sub(1);
            account.seats = account.seats.saturating_sub(seats);
            account.lately = (account.lately.saturating_mul(7).saturating_add(took)) / 8;
            let cost = took.saturating_mul(as_number(seats));
            account.next = account.next.saturating_sub(charged).saturating_add(cost);
        }
        if state.used == 0 && state.waiting.is_empty() {
            // Nobody is kept waiting by anybody: all begin anew.
            state.accounts.clear();
            state.clock = 0;
        }
        self.let_in(state);
    }

    // Between lock and unlock there are plain assignments, which cannot leave halves.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn account<'a>(accounts: &'a mut HashMap<Arc<str>, Account>, user: &str) -> (Arc<str>, &'a mut Account) {
    let name = accounts.get_key_value(user).map_or_else(|| Arc::from(user), |(name, _)| Arc::clone(name));
    let fresh = || Account { lately: FIRST_ESTIMATE, ..Account::default() };
    (Arc::clone(&name), accounts.entry(name).or_insert_with(fresh))
}

fn as_number(seats: usize) -> u64 {
    u64::try_from(seats).unwrap_or(u64::MAX)
}

/// A place in the queue; given up when dropped.
#[derive(Debug)]
struct Waiting {
    queue: Arc<FairQueue>,
    user: Arc<str>,
    seats: usize,
    charged: u64,
    place: Place,
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
        if state.give_up(&self.place) {
            // It may have been the one that needed many seats.
            self.queue.let_in(&mut state);
            return;
        }
        drop(state);
        // It was let in at the moment at which it left.
        self.queue.give_back(&self.user, self.seats, self.charged, 0);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let took = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.queue.give_back(&self.user, self.seats, self.charged, took);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
