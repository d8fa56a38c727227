//! Kubernetes versions, as far as rules about them need.

/// Major, minor, patch of `v1.30.2-rc.1+x`; `None` when it is not a version with a leading v.
pub(crate) fn parse(text: &str) -> Option<(u64, u64, u64)> {
    let core = text.strip_prefix('v')?.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(|part| {
        let canonical = part == "0" || !part.starts_with('0');
        canonical.then(|| part.parse::<u64>().ok()).flatten()
    });
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
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
            ("v1.30.2.1", None),
            ("v1.030.2", None),
            ("vx.y.z", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
