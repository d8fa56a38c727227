//! Bound on the requests in flight to a server that decides about clients, with a bounded queue before it.
//!
//! A request of a client waits for each of these requests. If the server is slow, a queue without a bound would grow with
//! every client, and one client could keep all others waiting.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Longest wait in the queue.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Number of users from which those without requests are forgotten.
const MOST_USERS: usize = 1024;

/// Number of leading bits of an IPv6 address that count: a network of this size is the least that a site gets, so one
/// stranger has all its addresses.
const IPV6_BITS: u32 = 64;

/// Requests in flight, and the queue.
#[derive(Debug)]
pub struct InFlight {
    all: Semaphore,
    per_user: usize,
    by_user: Mutex<HashMap<String, Arc<Semaphore>>>,
    queue: Semaphore,
}

/// Permit for one request. It ends when it is dropped.
#[derive(Debug)]
pub struct InFlightPermit<'a> {
    _all: SemaphorePermit<'a>,
    _user: OwnedSemaphorePermit,
}

/// The queue is full, or the wait in it was too long.
#[derive(Debug, PartialEq, Eq)]
pub struct Overloaded;

impl InFlight {
    /// Creates a bound of `all` requests, of which at most `per_user` are of one user. At most `waiting` requests wait.
    pub fn new(all: usize, per_user: usize, waiting: usize) -> Self {
        let by_user = Mutex::default();
        Self { all: Semaphore::new(all), per_user, by_user, queue: Semaphore::new(waiting) }
    }

    /// Returns the name under which the requests for a client at this address are counted, while its user is not known.
    /// Clients without an address share one.
    pub fn source(address: Option<IpAddr>) -> String {
        match address.map(|address| address.to_canonical()) {
            None => String::new(),
            Some(IpAddr::V4(four)) => four.to_string(),
            Some(IpAddr::V6(six)) => {
                let mask = u128::MAX << (Ipv6Addr::BITS - IPV6_BITS);
                Ipv6Addr::from_bits(six.to_bits() & mask).to_string()
            }
        }
    }

    /// Waits until a request of this user may be sent, for two seconds at most.
    ///
    /// # Errors
    /// [`Overloaded`] if the queue is full, or the wait was too long.
    pub async fn enter(&self, user: &str) -> Result<InFlightPermit<'_>, Overloaded> {
        let of_user = self.of_user(user);
        if let Ok(user) = Arc::clone(&of_user).try_acquire_owned()
            && let Ok(all) = self.all.try_acquire()
        {
            return Ok(InFlightPermit { _all: all, _user: user });
        }
        let _place = self.queue.try_acquire().map_err(|_| Overloaded)?;
        let waiting = async {
            let user = of_user.acquire_owned().await.map_err(|_| Overloaded)?;
            let all = self.all.acquire().await.map_err(|_| Overloaded)?;
            Ok(InFlightPermit { _all: all, _user: user })
        };
        tokio::time::timeout(LONGEST_WAIT, waiting).await.map_err(|_| Overloaded)?
    }

    fn of_user(&self, user: &str) -> Arc<Semaphore> {
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if by_user.len() > MOST_USERS {
            // A permit and a waiting request hold a reference each.
            by_user.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore =
            by_user.entry(user.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.per_user)));
        Arc::clone(semaphore)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_leaves_room_for_others_and_the_queue_is_bounded() {
        let in_flight = InFlight::new(3, 2, 2);
        let first = in_flight.enter("alice").await.unwrap();
        let _second = in_flight.enter("alice").await.unwrap();
        let mut third = Box::pin(in_flight.enter("alice"));
        assert!(third.as_mut().now_or_never().is_none(), "a third request of one user waits");
        let of_bob = in_flight.enter("bob").await.unwrap();
        let mut of_carol = Box::pin(in_flight.enter("carol"));
        assert!(of_carol.as_mut().now_or_never().is_none(), "a fourth request waits");
        assert_eq!(in_flight.enter("dave").await.unwrap_err(), Overloaded, "the queue is full");
        drop(of_bob);
        let _of_carol = of_carol.await.unwrap();
        drop(first);
        let _third = third.await.unwrap();
        let started = tokio::time::Instant::now();
        assert_eq!(in_flight.enter("dave").await.unwrap_err(), Overloaded);
        assert_eq!(started.elapsed(), LONGEST_WAIT);
    }

    #[test]
    fn the_spelling_of_an_address_gives_no_second_bound() {
        let of = |text: &str| InFlight::source(Some(text.parse().unwrap()));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(InFlight::source(None), "");
    }

    #[tokio::test]
    async fn users_without_requests_are_forgotten() {
        let in_flight = InFlight::new(2, 1, 1);
        let _held = in_flight.enter("alice").await.unwrap();
        for number in 0..3 * MOST_USERS {
            drop(in_flight.enter(&number.to_string()).await.unwrap());
        }
        let by_user = in_flight.by_user.lock().unwrap();
        assert!(by_user.len() <= MOST_USERS + 1 && by_user.contains_key("alice"), "{}", by_user.len());
    }
}
