//! Random numbers that are the same on every run and every machine: xorshift64*.

/// Generator of random numbers.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Creates the generator of one policy.
    pub(super) fn new(seed: u64, number: u32) -> Self {
        let mut random = Self(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of similar seeds are similar.
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// Returns a number below `bound`, which is above zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// Returns true in one of `odds` cases.
    pub(super) fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    /// Returns one of the texts.
    pub(super) fn one<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        let index = self.below(texts.len());
        texts.get(index).copied().unwrap_or_default()
    }

    /// Returns between `least` and `most` of the texts. A text can be there twice.
    pub(super) fn some(&mut self, texts: &[&str], least: usize, most: usize) -> Vec<String> {
        let count = least + self.below(most - least + 1);
        (0..count).map(|_| self.one(texts).to_owned()).collect()
    }
}
