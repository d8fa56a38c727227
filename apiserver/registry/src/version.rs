//! Kubernetes versions, as far as rules about them need.

/// Major, minor, patch of `v1.30.2-rc.1+x`; `None` when it is not a version with a leading v. What
/// comes after the three numbers may be anything of letters, digits and `-_.+`: so upstream has it.
pub(crate) fn parse(text: &str) -> Option<(u64, u64, u64)> {
    let (major, rest) = text.strip_prefix('v')?.split_once('.')?;
    let (minor, rest) = rest.split_once('.')?;
    let digits = match rest.strip_prefix('0') {
        Some(_) => 1,
        None => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
    };
    let (patch, rest) = rest.split_at_checked(digits)?;
    let is_free = rest.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
    is_free.then_some((number(major)?, number(minor)?, number(patch)?))
}

/// A number without zeros before it.
fn number(text: &str) -> Option<u64> {
    let is_canonical = text == "0" || !text.starts_with(['0', '+']);
    is_canonical.then(|| text.parse::<u64>().ok()).flatten()
}

/// What Go says of a text that is no number.
pub(crate) fn go_number_fault(error: &std::num::ParseIntError) -> &'static str {
    match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_need_a_v_and_three_numbers() {
        let table = [
            ("v1.30.2", Some((1, 30, 2))),
            ("v1.30.2-rc.1+x", Some((1, 30, 2))),
            ("1.30.2", None),
            ("v1.30", None),
            ("v1.30.2.1", Some((1, 30, 2))),
            ("v1.30.0foo", Some((1, 30, 0))),
            ("v1.30.0_x", Some((1, 30, 0))),
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
