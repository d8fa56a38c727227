//! Parser of Kubernetes versions with a leading `v`.

use crate::rules::semver::Semver;

/// Parses `v1.30.2-rc.1+x` and returns major, minor and patch number; `None` if the text is no semantic version with a
/// leading v.
pub(crate) fn parse(text: &str) -> Option<(u64, u64, u64)> {
    Semver::parse(text.strip_prefix('v')?).map(|version| version.numbers)
}

/// Returns Go's text for an error of number parsing.
pub(crate) fn go_number_error(error: &std::num::ParseIntError) -> &'static str {
    match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_need_a_leading_v_and_three_numbers() {
        let table = [
            ("v1.30.2", Some((1, 30, 2))),
            ("v1.30.2-rc.1+x", Some((1, 30, 2))),
            ("1.30.2", None),
            ("v1.30", None),
            ("v1.30.2.1", None),
            ("v1.30.0foo", None),
            ("v1.30.0_x", None),
            ("v1.30.0-", None),
            ("v1.30.0 ", None),
            ("v1.030.2", None),
            ("vx.y.z", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
