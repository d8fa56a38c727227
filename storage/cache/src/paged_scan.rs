//! Paged scan of a range, in segments whose length is estimated from the last keys.
//!
//! With every page a store reports how many entries of the range follow. etcd counts them. With 100,000 entries in
//! pages of 2,000 the counts take as long as reading all entries, and they grow with the square of the entries. So
//! each request covers a segment that ends a few pages ahead, as far as the keys show. The next segment begins there.

use storage_contract::{KeyRange, Page};

/// Pages that a segment should have.
const PAGES_PER_SEGMENT: u64 = 3;

/// Largest factor between the lengths of two successive segments.
const MAX_FACTOR: u64 = 8;

/// Bits by which a segment grows with each empty segment in a row. Digits are few among all byte values: where one
/// range of digits ends, a wide gap follows.
const GAP_BITS: u32 = 3;

pub(crate) struct PagedScan {
    /// End of the whole range.
    end: Vec<u8>,
    /// Range of the next request.
    segment: KeyRange,
    /// True for the first page of the segment.
    is_new: bool,
    stride: Option<Stride>,
    /// Number of empty segments in a row.
    empty: u32,
    /// Entries that remain in the whole range, once a page has reported them.
    remaining: Option<u64>,
}

impl PagedScan {
    pub(crate) fn over(range: KeyRange) -> Self {
        Self { end: range.end.clone(), segment: range, is_new: true, stride: None, empty: 0, remaining: None }
    }

    /// Returns the range of the next request.
    pub(crate) fn segment(&self) -> KeyRange {
        self.segment.clone()
    }

    /// Takes a page into account. Returns true if the scan continues.
    pub(crate) fn advance(&mut self, page: &Page, limit: usize) -> bool {
        let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (count, desired) = (page.remaining + size(page.entries.len()), PAGES_PER_SEGMENT * size(limit));
        // The first page counts the whole range, and all pages show one revision.
        let remaining = self
            .remaining
            .map_or(page.remaining, |remaining| remaining.saturating_sub(size(page.entries.len())));
        self.remaining = Some(remaining);
        if remaining == 0 {
            return false;
        }
        if std::mem::take(&mut self.is_new) {
            self.set_stride(page, count, desired);
        }
        let last = page.entries.last().filter(|_| page.remaining > 0);
        match last {
            Some(last) => self.segment = self.segment.after(last.key.as_bytes()),
            None if self.segment.end >= self.end => return false,
            None => self.segment.start = std::mem::take(&mut self.segment.end),
        }
        if last.is_none() || page.remaining > 2 * desired {
            let end = self.stride.as_ref().and_then(|stride| stride.end_after(&self.segment.start));
            self.segment.end = end.filter(|end| *end < self.end).unwrap_or_else(|| self.end.clone());
            self.is_new = true;
        }
        true
    }

    /// Sets the length of the next segments to what this one should have had.
    fn set_stride(&mut self, page: &Page, count: u64, desired: u64) {
        self.empty = if count == 0 { self.empty + 1 } else { 0 };
        match &mut self.stride {
            Some(stride) if count == 0 => stride.widen(GAP_BITS * self.empty),
            Some(stride) if count <= MAX_FACTOR * desired => stride.scale(desired, count),
            // The segment was all that remains, or far too long: the keys of the page give the length.
            stride => {
                let keys = page.entries.first().zip(page.entries.last());
                let span =
                    keys.and_then(|(first, last)| Stride::between(first.key.as_bytes(), last.key.as_bytes()));
                *stride = span.map(|mut span| {
                    span.scale(PAGES_PER_SEGMENT, 1);
                    span
                });
            }
        }
    }
}

/// Length of a segment. A key is treated as a number whose digits are its bytes.
#[derive(Debug)]
struct Stride {
    /// Common prefix of the keys.
    prefix: Vec<u8>,
    /// Distance in the sixteen bytes after the prefix.
    distance: u128,
}

impl Stride {
    /// Returns the distance from one key to the other.
    fn between(first: &[u8], last: &[u8]) -> Option<Self> {
        let same = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        // Half of the digits precede the first difference: a sum may carry into them.
        let prefix = first.get(..same.saturating_sub(8))?.to_vec();
        let distance = digits(last, prefix.len()).checked_sub(digits(first, prefix.len()))?;
        (distance > 0).then_some(Self { prefix, distance })
    }

    /// Scales the length by `desired` / `found`.
    fn scale(&mut self, desired: u64, found: u64) {
        let found = found.clamp((desired / MAX_FACTOR).max(1), desired.saturating_mul(MAX_FACTOR));
        let distance = (self.distance / u128::from(found)).max(1).saturating_mul(u128::from(desired));
        self.distance = distance.max(1);
    }

    /// Multiplies the length by two, `bits` times.
    fn widen(&mut self, bits: u32) {
        self.distance = self.distance.saturating_mul(1_u128.checked_shl(bits).unwrap_or(u128::MAX));
    }

    /// Returns the key at this distance after `start`, or `None` if `start` has another prefix.
    fn end_after(&self, start: &[u8]) -> Option<Vec<u8>> {
        let at = start.starts_with(&self.prefix).then_some(self.prefix.len())?;
        let end = digits(start, at).checked_add(self.distance)?;
        Some([self.prefix.as_slice(), &end.to_be_bytes()].concat())
    }
}

/// Returns the sixteen bytes from `at` on as one number.
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

    /// Returns the page that a store with these keys answers.
    fn page(keys: &BTreeSet<String>, range: &KeyRange, limit: usize) -> Page {
        let mut found = keys.iter().filter(|key| range.contains(key.as_bytes()));
        let entry = |key: &String| {
            let (modified, created) = (Revision::new(1), Revision::new(1));
            Entry { key: Key::new(key.as_str()).unwrap(), value: Bytes::new(), modified, created }
        };
        let entries = found.by_ref().take(limit).map(entry).collect();
        Page { entries, revision: Revision::new(1), remaining: u64::try_from(found.count()).unwrap() }
    }

    /// Returns all keys that a scan meets, the number of pages, and the number of entries that the store counted.
    fn scanned(keys: &BTreeSet<String>, limit: usize) -> (Vec<String>, usize, usize) {
        let mut scan = PagedScan::over(KeyRange::prefix("/"));
        let (mut met, mut pages, mut counted) = (Vec::new(), 0, 0);
        loop {
            let page = page(keys, &scan.segment(), limit);
            pages += 1;
            counted += page.entries.len() + usize::try_from(page.remaining).unwrap();
            met.extend(page.entries.iter().map(|entry| entry.key.to_string()));
            if !scan.advance(&page, limit) {
                return (met, pages, counted);
            }
        }
    }

    proptest! {
        #[test]
        fn every_key_is_returned_once_and_in_order(
            keys in prop::collection::btree_set("/[ab]{1,3}/[a-c0-9é-]{1,9}", 0..300),
            limit in 1..40_usize,
        ) {
            let expected: Vec<String> = keys.iter().cloned().collect();
            prop_assert_eq!(scanned(&keys, limit).0, expected);
        }
    }

    #[test]
    fn pages_and_counted_entries_grow_linearly_with_the_entries() {
        let numbered = |count: usize| -> BTreeSet<String> {
            (0..count).map(|number| format!("/m/ns/machine-{number:06}")).collect()
        };
        let scattered = |count: usize| -> BTreeSet<String> {
            let mixed = |number: usize| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60_466_176;
            (0..count).map(|number| format!("/m/ns-{}/machine-{:x}", number % 7, mixed(number))).collect()
        };
        for count in [5_000, 50_000] {
            for (name, keys) in [("numbered", numbered(count)), ("scattered", scattered(count))] {
                let (met, pages, counted) = scanned(&keys, 100);
                assert_eq!(met.len(), count, "{name}");
                assert!(pages < count / 100 * 3, "{name}: {pages} pages for {count}");
                assert!(counted < count * 12, "{name}: {counted} counted of {count}");
            }
        }
    }
}
