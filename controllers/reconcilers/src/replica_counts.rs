//! Numbers of Machines that are given as a number or as a percentage.

use apiserver_types::IntOrString;

/// Returns a number, or the share of `total` that a percentage means. `None` if the text is neither.
pub(crate) fn scaled(value: &IntOrString, total: i64, rounds_up: bool) -> Option<i64> {
    let percent: i64 = match value {
        IntOrString::Int(number) => return Some(i64::from(*number)),
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok()?,
    };
    let share = percent.checked_mul(total)?;
    Some(if rounds_up { share.checked_add(99)?.div_euclid(100) } else { share.div_euclid(100) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_in_the_wanted_direction() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(scaled(&IntOrString::Int(2), 10, true), Some(2));
        assert_eq!(scaled(&percent("25%"), 10, true), Some(3));
        assert_eq!(scaled(&percent("25%"), 10, false), Some(2));
        assert_eq!(scaled(&percent("0%"), 10, true), Some(0));
        assert_eq!(scaled(&percent("many"), 10, true), None);
    }
}
