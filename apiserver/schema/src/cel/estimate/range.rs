//! From the least to the most that there may be of something.

/// Entries, letters, or units of cost. What would be more than fits is as much as fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// What going over a letter costs.
pub(super) const LETTER: (u64, u64) = (1, 10);

/// What a letter of a pattern costs for each letter that is looked at.
pub(super) const PATTERN: (u64, u64) = (1, 4);

impl Range {
    pub(super) const NONE: Self = Self::exactly(0);
    pub(super) const ONE: Self = Self::exactly(1);
    pub(super) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };
    /// What any range widens.
    pub(super) const NOTHING_YET: Self = Self { least: u64::MAX, most: 0 };

    pub(super) const fn exactly(number: u64) -> Self {
        Self { least: number, most: number }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    /// Times a fraction, rounded up.
    pub(super) fn scaled(self, (by, of): (u64, u64)) -> Self {
        let scale = |number: u64| {
            let scaled = (u128::from(number) * u128::from(by)).div_ceil(u128::from(of.max(1)));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self { least: scale(self.least), most: scale(self.most) }
    }

    /// What includes both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_up_and_nothing_overflows() {
        let range = |least, most| Range { least, most };
        assert_eq!(range(1, 30).scaled(LETTER), range(1, 3));
        assert_eq!(range(0, 31).scaled(LETTER), range(0, 4));
        assert_eq!(range(3, u64::MAX).scaled((2, 1)), range(6, u64::MAX));
        assert_eq!(range(3, u64::MAX).times(range(2, 2)), range(6, u64::MAX));
        assert_eq!(range(3, u64::MAX).plus(Range::ONE), range(4, u64::MAX));
        assert_eq!(Range::NOTHING_YET.or(range(2, 5)), range(2, 5));
    }
}
