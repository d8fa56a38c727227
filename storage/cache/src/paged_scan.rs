//! A walk over a range in pages, in parts that are guessed from the keys seen last.
//!
//! With every page a store says how many entries of the range come after it. etcd counts them: of 100,000 entries in
//! pages of 2,000 that takes as long as reading all of them, and grows with their square. So the part of the range that
//! is asked for ends a few pages ahead, as far as keys tell, and the next one begins there.

use storage_contract::{KeyRange, Page};

/// How many pages a part is to have.
const PAGES: u64 = 3;

/// By how much the next part is longer or shorter than the last one, at the most.
const MOST: u64 = 8;

/// By how many bits more it is longer with every part in which there was nothing. Among all bytes digits are few: where
/// one comes to an end there is a wide gap before the next.
const GAP: u32 = 3;

pub(crate) struct Walk {
    /// Where the whole range ends.
    end: Vec<u8>,
    /// What is asked for next.
    part: KeyRange,
    /// Whether that is the first page of the part.
    is_new: bool,
    reach: Option<Reach>,
    /// How many parts in a row there was nothing in.
    empty: u32,
    /// How many entries are left of the whole range, once that was said.
    left: Option<u64>,
}

impl Walk {
    pub(crate) fn over(range: KeyRange) -> Self {
        Self { end: range.end.clone(), part: range, is_new: true, reach: None, empty: 0, left: None }
    }

    /// What to ask for.
    pub(crate) fn part(&self) -> KeyRange {
        self.part.clone()
    }

    /// Takes the answer to that into account; whether there is more to ask for.
    pub(crate) fn advance(&mut self, page: &Page, limit: usize) -> bool {
        let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (count, wanted) = (page.remaining + size(page.entries.len()), PAGES * size(limit));
        // The first answer is about the whole range, and all are about one revision.
        let left = self.left.map_or(page.remaining, |left| left.saturating_sub(size(page.entries.len())));
        self.left = Some(left);
        if left == 0 {
            return false;
        }
        if std::mem::take(&mut self.is_new) {
            self.learn(page, count, wanted);
        }
        let last = page.entries.last().filter(|_| page.remaining > 0);
        match last {
            Some(last) => self.part = self.part.after(last.key.as_bytes()),
            None if self.part.end >= self.end => return false,
            None => self.part.start = std::mem::take(&mut self.part.end),
        }
        if last.is_none() || page.remaining > 2 * wanted {
            let end = self.reach.as_ref().and_then(|reach| reach.from(&self.part.start));
            self.part.end = end.filter(|end| *end < self.end).unwrap_or_else(|| self.end.clone());
            self.is_new = true;
        }
        true
    }

    /// Makes the parts to come as long as this one should have been.
    fn learn(&mut self, page: &Page, count: u64, wanted: u64) {
        self.empty = if count == 0 { self.empty + 1 } else { 0 };
        match &mut self.reach {
            Some(reach) if count == 0 => reach.leap(GAP * self.empty),
            Some(reach) if count <= MOST * wanted => reach.scale(wanted, count),
            // What was asked for was all that is left, or much more than is wanted: the page itself tells.
            reach => {
                let keys = page.entries.first().zip(page.entries.last());
                let span =
                    keys.and_then(|(first, last)| Reach::between(first.key.as_bytes(), last.key.as_bytes()));
                *reach = span.map(|mut span| {
                    span.scale(PAGES, 1);
                    span
                });
            }
        }
    }
}

/// How far a part goes. A key is looked at as a number whose digits are its bytes.
#[derive(Debug)]
struct Reach {
    /// What the keys begin with.
    prefix: Vec<u8>,
    /// The distance in the sixteen bytes that follow.
    distance: u128,
}

impl Reach {
    /// As far as from one key to the other.
    fn between(first: &[u8], last: &[u8]) -> Option<Self> {
        let same = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        // Half of the digits are before the first that differs: a sum may carry into them.
        let prefix = first.get(..same.saturating_sub(8))?.to_vec();
        let distance = digits(last, prefix.len()).checked_sub(digits(first, prefix.len()))?;
        (distance > 0).then_some(Self { prefix, distance })
    }

    /// Makes it longer or shorter, as `wanted` is to what was `found`.
    fn scale(&mut self, wanted: u64, found: u64) {
        let found = found.clamp((wanted / MOST).max(1), wanted.saturating_mul(MOST));
        let distance = (self.distance / u128::from(found)).max(1).saturating_mul(u128::from(wanted));
        self.distance = distance.max(1);
    }

    /// Makes it so many bits longer.
    fn leap(&mut self, bits: u32) {
        self.distance = self.distance.saturating_mul(1_u128.checked_shl(bits).unwrap_or(u128::MAX));
    }

    /// Where one is who goes so far from `start`; none where keys begin with something else.
    fn from(&self, start: &[u8]) -> Option<Vec<u8>> {
        let at = start.starts_with(&self.prefix).then_some(self.prefix.len())?;
        let end = digits(start, at).checked_add(self.distance)?;
        Some([self.prefix.as_slice(), &end.to_be_bytes()].concat())
    }
}

/// The sixteen bytes from `at` on, as one number.
fn digits(key: &[u8], at: usize) -> u128 {
    let mut digits = [0; 16];
    key.iter().skip(at).zip(&mut digits).for_each(|(byte, digit)| *digit = *byte);
    u128::from_be_bytes(digits)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use proptest::prelude::*;
    use storage_contract::{Entry, Key, Revision};

    use super::*;

    /// What a store with these keys answers.
    fn page(keys: &BTreeSet<String>, range: &KeyRange, limit: usize) -> Page {
        let mut found = keys.iter().filter(|key| range.contains(key.as_bytes()));
        let entry = |key: &String| {
            let (modified, created) = (Revision::new(1), Revision::new(1));
            Entry { key: Key::new(key.as_str()).unwrap(), value: Bytes::new(), modified, created }
        };
        let entries = found.by_ref().take(limit).map(entry).collect();
        Page { entries, revision: Revision::new(1), remaining: u64::try_from(found.count()).unwrap() }
    }

    /// All keys that a walk meets, how many pages it took, and how many entries the store counted.
    fn walked(keys: &BTreeSet<String>, limit: usize) -> (Vec<String>, usize, usize) {
        let mut walk = Walk::over(KeyRange::prefix("/"));
        let (mut met, mut pages, mut counted) = (Vec::new(), 0, 0);
        loop {
            let page = page(keys, &walk.part(), limit);
            pages += 1;
            counted += page.entries.len() + usize::try_from(page.remaining).unwrap();
            met.extend(page.entries.iter().map(|entry| entry.key.to_string()));
            if !walk.advance(&page, limit) {
                return (met, pages, counted);
            }
        }
    }

    proptest! {
        #[test]
        fn every_key_is_met_once_and_in_order(
            keys in prop::collection::btree_set("/[ab]{1,3}/[a-c0-9é-]{1,9}", 0..300),
            limit in 1..40_usize,
        ) {
            let expected: Vec<String> = keys.iter().cloned().collect();
            prop_assert_eq!(walked(&keys, limit).0, expected);
        }
    }

    #[test]
    fn pages_and_what_is_counted_grow_with_what_there_is() {
        let numbered = |count: usize| -> BTreeSet<String> {
            (0..count).map(|number| format!("/m/ns/machine-{number:06}")).collect()
        };
        let scattered = |count: usize| -> BTreeSet<String> {
            let mixed = |number: usize| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60_466_176;
            (0..count).map(|number| format!("/m/ns-{}/machine-{:x}", number % 7, mixed(number))).collect()
        };
        for count in [5_000, 50_000] {
            for (name, keys) in [("numbered", numbered(count)), ("scattered", scattered(count))] {
                let (met, pages, counted) = walked(&keys, 100);
                assert_eq!(met.len(), count, "{name}");
                assert!(pages < count / 100 * 3, "{name}: {pages} pages for {count}");
                assert!(counted < count * 12, "{name}: {counted} counted of {count}");
            }
        }
    }
}
