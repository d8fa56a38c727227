//! YAML options of request bodies.

use serde_saphyr::Options;

/// Largest expansion of all aliases of a body: a few hundred bytes of nested aliases can expand to gigabytes.
/// Manifests of people use a handful. Unit: events, about two for each value.
const MOST_BY_ALIAS: usize = 50_000;

/// Returns the options for every body in YAML.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    // Errors do not quote lines, which may be a Secret's.
    options.with_snippet = false;
    // As Go's decoder: 010 is eight.
    options.legacy_octal_numbers = true;
    options.alias_limits.max_total_replayed_events = MOST_BY_ALIAS;
    options
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn aliases_are_expanded_up_to_a_limit() {
        let read = |text: &str| serde_saphyr::from_str_with_options::<Value>(text, options());
        let some = read("a: &a [1, 2]\nb: *a").unwrap();
        assert_eq!(some["a"], some["b"]);
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (last, next) in ["ab", "bc", "cd", "de", "ef"].map(|pair| pair.split_at(1)) {
            bomb += &format!("{next}: &{next} [{}]\n", [format!("*{last}").as_str(); 9].join(","));
        }
        assert!(read(&bomb).is_err());
    }
}
