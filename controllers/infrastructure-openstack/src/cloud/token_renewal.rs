//! Renewal of tokens before their end.

/// Time before the end of a token at which a new one is due at the latest. Unit: seconds.
const RESERVE: i64 = 5 * 60;

/// Returns when a new token is due: after 80 % of the life of the old one, or five minutes before its end, whichever is
/// earlier. A token of a few minutes is used for 80 % of them.
pub(super) fn renewal(begin: i64, end: i64) -> i64 {
    let life = end.saturating_sub(begin).max(0);
    let most = begin.saturating_add(life.saturating_mul(4) / 5);
    let reserve = end.saturating_sub(RESERVE);
    if life > 2 * RESERVE { most.min(reserve) } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_6_a_token_is_renewed_after_most_of_its_life_or_five_minutes_before_its_end() {
        // An hour, 20 minutes, 4 minutes, and one without a life.
        for (end, due) in [(3600, 2880), (1200, 900), (240, 192), (0, 0)] {
            assert_eq!(renewal(0, end), due, "{end}");
            assert_eq!(renewal(1000, 1000 + end), 1000 + due, "{end}");
        }
    }
}
