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

/// Whether `text`, which has no leading v, is a semantic version to the letter.
pub(crate) fn is_semantic(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre_release) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let is_word =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let is_canonical = |part: &str| {
        let number = part.chars().all(|c| c.is_ascii_digit());
        !number || part == "0" || !part.starts_with('0')
    };
    parse(&format!("v{core}")).is_some()
        && pre_release.is_none_or(|pre| pre.split('.').all(|part| is_word(part) && is_canonical(part)))
        && build.is_none_or(|build| build.split('.').all(is_word))
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

    #[test]
    fn semantic_versions_are_so_to_the_letter() {
        for (text, expected) in [
            ("1.30.2", true),
            ("1.30.2-rc.1+x.01", true),
            ("1.30.2+x", true),
            ("1.30", false),
            ("1.30.2-", false),
            ("1.30.2-rc.01", false),
            ("1.30.2-a..b", false),
            ("1.30.2+", false),
            ("v1.30.2", false),
        ] {
            assert_eq!(is_semantic(text), expected, "{text}");
        }
    }
}
