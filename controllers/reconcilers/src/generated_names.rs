//! Names of objects that controllers create, and names as label values.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// Longest name of a created object: the limit of a label value, since other objects refer to it by label.
const LONGEST: usize = 63;

/// Length of the random end of a name. Upstream's.
const RANDOM: usize = 5;

/// Characters of a random end: no vowels, which would form words, and none that look alike. Upstream's set.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Start value of the hash FNV-1a with 32 bits, which its definition gives.
const FNV_OFFSET: u32 = 0x811c_9dc5;

/// Prime of the hash FNV-1a with 32 bits, which its definition gives.
const FNV_PRIME: u32 = 0x0100_0193;

/// Returns a random end of a name.
pub(crate) fn random() -> String {
    let id = Uuid::new_v4();
    // The first bytes of an id of version 4 are random; its fixed bits come later.
    let letters = id.as_bytes().iter().take(RANDOM).map(|byte| {
        let at = usize::from(*byte) % ALPHABET.len();
        ALPHABET.get(at).copied().map_or('x', char::from)
    });
    letters.collect()
}

/// Returns a name of `base` and an end. The base is cut, so that the name is short enough.
pub(crate) fn with_end(base: &str, end: &str) -> String {
    let kept: String = base.chars().take(LONGEST - RANDOM - 1).collect();
    format!("{kept}-{end}")
}

/// Returns the name that a Go template and its variables describe, with a random end.
///
/// # Errors
/// The template uses something other than the variables. For people.
pub(crate) fn from_template(
    template: &str,
    variables: &[(&str, &str)],
    random: &str,
) -> Result<String, String> {
    let (mut name, mut rest, mut trims) = (String::new(), template, false);
    while let Some((text, after)) = rest.split_once("{{") {
        let (action, after) =
            after.split_once("}}").ok_or_else(|| format!("template {template:?} has an unclosed {{{{"))?;
        let text = if trims { text.trim_start() } else { text };
        let trims_before = action.starts_with("- ");
        name.push_str(if trims_before { text.trim_end() } else { text });
        trims = action.ends_with(" -");
        let action = action.strip_prefix('-').filter(|_| trims_before).unwrap_or(action);
        let action = action.strip_suffix('-').filter(|_| trims).unwrap_or(action).trim();
        let mut all = variables.iter().copied().chain([(".random", random)]);
        let (_, value) = all.find(|(variable, _)| *variable == action).ok_or_else(|| {
            format!("template {template:?} uses {action:?}, which is not among the variables of a name")
        })?;
        name.push_str(value);
        rest = after;
    }
    name.push_str(if trims { rest.trim_start() } else { rest });
    if name.chars().count() > LONGEST {
        name = name.chars().take(LONGEST - RANDOM).chain(random.chars()).collect();
    }
    Ok(name)
}

/// Returns a name as a label value. A name that is too long for one is replaced by its hash, as upstream
/// does; readers compare with this function's result.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(fnv32a(name.as_bytes()).to_be_bytes()))
}

/// Returns the hash FNV-1a with 32 bits.
pub(crate) fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_fits_into_a_label() {
        assert_eq!(with_end("md-0", "abcde"), "md-0-abcde");
        assert_eq!(with_end(&"a".repeat(70), &random()).len(), LONGEST);
        assert_eq!(random().len(), RANDOM);
        assert!(random().bytes().all(|letter| ALPHABET.contains(&letter)));
    }

    #[test]
    fn a_name_follows_its_template() {
        let variables = [(".cluster.name", "c"), (".machineSet.name", "ms")];
        let table = [
            ("{{ .machineSet.name }}-{{ .random }}", Ok("ms-abcde")),
            ("{{.cluster.name}}-x{{ .random }}y", Ok("c-xabcdey")),
            ("x {{- .cluster.name -}} \n y-{{ .random }}", Ok("xcy-abcde")),
            ("{{ .machine.name }}", Err("\".machine.name\"")),
            ("{{ .random", Err("unclosed")),
        ];
        for (template, expected) in table {
            let name = from_template(template, &variables, "abcde");
            match (&name, expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected, "{template}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{template}: {error}"),
                _ => panic!("{template}: {name:?}"),
            }
        }
        let long =
            from_template("{{ .cluster.name }}{{ .random }}", &[(".cluster.name", &"a".repeat(60))], "abcde");
        assert_eq!(long.unwrap(), format!("{}abcde", "a".repeat(58)));
    }

    #[test]
    fn a_name_too_long_for_a_label_is_hashed() {
        assert_eq!(label_value("ms"), "ms");
        assert_eq!(label_value(&"a".repeat(63)), "a".repeat(63));
        let hashed = label_value(&"a".repeat(64));
        assert!(hashed.starts_with("hash_") && hashed.ends_with("_z") && hashed.len() == 13, "{hashed}");
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968, "a known value of FNV-1a");
    }
}
