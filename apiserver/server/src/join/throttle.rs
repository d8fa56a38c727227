//! Limit on failed joins of each address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address within [`WINDOW`] after which its requests are refused unread.
const FAILURES: usize = 5;

/// Time for which a failure counts.
const WINDOW: Duration = Duration::from_secs(60);

/// Most addresses that are remembered. Beyond that all are refused for a moment: only an attack has so many.
const ADDRESSES: usize = 10_000;

/// Failures of the last minute, by address.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    failures: Mutex<HashMap<IpAddr, Vec<Instant>>>,
}

impl Throttle {
    /// Reports whether an address may try.
    pub(super) fn admits(&self, from: IpAddr, now: Instant) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, times| {
            times.retain(|time| now.duration_since(*time) < WINDOW);
            !times.is_empty()
        });
        let count = failures.get(&network(from)).map_or(0, Vec::len);
        count < FAILURES && failures.len() < ADDRESSES
    }

    /// Counts a failure.
    pub(super) fn failed(&self, from: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.entry(network(from)).or_default().push(now);
    }
}

/// Returns the unit that counts as one client: an IPv4 address, or the /64 that a client of IPv6 has to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_failure_within_a_minute_is_refused_and_other_addresses_are_not() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        for _ in 0..FAILURES {
            assert!(throttle.admits(one, now));
            throttle.failed(one, now);
        }
        assert!(!throttle.admits(one, now) && throttle.admits(other, now));
        assert!(throttle.admits(one, now + WINDOW));
        let v6 = |text: &str| network(text.parse().unwrap());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::2"));
        assert_eq!(v6("::ffff:192.0.2.1"), v6("192.0.2.1"));
    }
}
