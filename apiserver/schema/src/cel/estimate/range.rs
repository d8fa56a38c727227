//! Ranges: the minimum and the maximum of a size or a cost.

/// Range of entries, letters or units of cost. Arithmetic saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// Cost of reading a letter.
pub(super) const LETTER: (u64, u64) = (1, 10);

/// Cost of a letter of a pattern, for each letter that is searched.
pub(super) const PATTERN: (u64, u64) = (1, 4);

impl Range {
    pub(super) const NONE: Self = Self::exactly(0);
    pub(super) const ONE: Self = Self::exactly(1);
    pub(super) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };
    /// Neutral element of [`Range::or`].
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

    /// Multiplies by a fraction, rounded up.
    pub(super) fn scaled(self, (by, of): (u64, u64)) -> Self {
        let scale = |number: u64| {
            let scaled = (u128::from(number) * u128::from(by)).div_ceil(u128::from(of.max(1)));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self { least: scale(self.least), most: scale(self.most) }
    }

    /// Returns the smallest range that contains both.
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
