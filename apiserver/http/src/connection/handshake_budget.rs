//! Budget of TLS handshakes per source address.
//!
//! A handshake costs the server about a millisecond of a core, and the client much less. Without a budget, one stranger can
//! take all cores without a single request. Clients with credentials keep their connections, so they need few handshakes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Handshakes of one address per second: a fifth of a core. A load balancer that hides the addresses of its clients has one
/// budget for all of them, and a thousand clients that reconnect after its failure then need five seconds.
const PER_SECOND: u32 = 200;

/// Time whose budget an idle address can use at once.
const BURST: Duration = Duration::from_secs(1);

/// Largest number of addresses with a record. An address without one is admitted, so that many addresses cannot make the
/// table grow, nor lock others out. Each record has 48 bytes.
const MOST: usize = 16 * 1024;

/// Number of leading bits of an IPv6 address that count: a network of this size is the least that a site gets, so one
/// stranger has all its addresses.
const IPV6_BITS: u32 = 64;

/// Budgets of all addresses.
///
/// The record of an address is the time at which its budget is whole again. Each handshake moves it by its share of a
/// second (generic cell rate algorithm).
#[derive(Debug, Default)]
pub struct HandshakeBudget {
    records: HashMap<IpAddr, Instant>,
    /// Time of the next removal of the records of idle addresses. Each reads the whole table.
    removal: Option<Instant>,
}

impl HandshakeBudget {
    /// Takes one handshake from the budget of an address. Returns false if nothing is left. Loopback has no budget: a
    /// process on this machine can use its cores in any case.
    pub fn admits(&mut self, from: IpAddr, now: Instant) -> bool {
        if from.to_canonical().is_loopback() {
            return true;
        }
        let source = network(from);
        let known = self.records.get(&source).copied();
        let whole = known.unwrap_or(now).max(now) + Duration::from_secs(1) / PER_SECOND;
        if whole > now + BURST {
            return false;
        }
        if known.is_some() || self.has_room(now) {
            self.records.insert(source, whole);
        }
        true
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if self.records.len() >= MOST && self.removal.is_none_or(|removal| removal <= now) {
            self.records.retain(|_, whole| *whole > now);
            self.removal = Some(now + BURST);
        }
        self.records.len() < MOST
    }
}

/// Returns the part of an address that one client has for itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - IPV6_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Returns the number of these attempts that are admitted.
    fn admitted(budget: &mut HandshakeBudget, from: &str, attempts: usize, now: Instant) -> usize {
        (0..attempts).filter(|_| budget.admits(address(from), now)).count()
    }

    #[test]
    fn an_address_has_200_handshakes_per_second_and_others_have_theirs() {
        let (mut budget, now) = (HandshakeBudget::default(), Instant::now());
        assert_eq!(admitted(&mut budget, "192.0.2.1", 1000, now), 200);
        assert_eq!(admitted(&mut budget, "192.0.2.2", 10, now), 10);
        let later = now + Duration::from_millis(100);
        assert_eq!(admitted(&mut budget, "192.0.2.1", 1000, later), 20);
        assert_eq!(admitted(&mut budget, "192.0.2.1", 1000, later + Duration::from_secs(60)), 200);
    }

    #[test]
    fn the_spelling_of_an_address_gives_no_second_budget() {
        let (mut budget, now) = (HandshakeBudget::default(), Instant::now());
        assert_eq!(admitted(&mut budget, "192.0.2.1", 300, now), 200);
        assert_eq!(admitted(&mut budget, "::ffff:192.0.2.1", 300, now), 0);
        assert_eq!(admitted(&mut budget, "2001:db8::1", 300, now), 200);
        assert_eq!(admitted(&mut budget, "2001:db8::ffff:2", 300, now), 0);
        assert_eq!(admitted(&mut budget, "2001:db8:0:1::1", 300, now), 200);
    }

    #[test]
    fn loopback_has_no_budget() {
        let (mut budget, now) = (HandshakeBudget::default(), Instant::now());
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(admitted(&mut budget, loopback, 1000, now), 1000, "{loopback}");
        }
        assert!(budget.records.is_empty());
    }

    #[test]
    fn many_addresses_neither_grow_the_table_nor_lock_others_out() {
        let (mut budget, now) = (HandshakeBudget::default(), Instant::now());
        let number = u32::try_from(MOST).unwrap() * 2;
        for index in 0..number {
            assert!(budget.admits(IpAddr::V4((0x0a00_0000 + index).into()), now));
        }
        assert_eq!(budget.records.len(), MOST);
        assert_eq!(admitted(&mut budget, "10.0.0.1", 1000, now), 199, "a record is not lost");
        // Records of addresses that were idle since make room.
        assert!(budget.admits(address("192.0.2.1"), now + Duration::from_secs(2)));
        assert_eq!(budget.records.len(), 1);
    }
}
