//! Random numbers of a history.

/// Random numbers that a seed determines.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next(u64::try_from(length.max(1)).unwrap())).unwrap()
    }
}
