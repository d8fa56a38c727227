//! Names of objects that controllers create, and names as label values.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use controllers_topology::go_template::{Template, TemplateError};
use serde_json::{Map, Value};
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

/// Returns the name that a Go template and its variables describe, with a random end. A variable is a path, for example
/// `.cluster.name`.
///
/// # Errors
/// The template does not parse, or uses something other than the variables. For people.
pub(crate) fn from_template(
    template: &str,
    variables: &[(&str, &str)],
    random: &str,
) -> Result<String, String> {
    rendered(template, variables, random, None).map(|name| cut_before_random(name, random))
}

/// Returns the name that a Go template and its variables describe, of any length. Names of Machines also have an index.
///
/// # Errors
/// As of [`from_template`].
pub(crate) fn rendered(
    template: &str,
    variables: &[(&str, &str)],
    random: &str,
    index: Option<usize>,
) -> Result<String, String> {
    let refusal = |error: TemplateError| format!("the name template {template:?} cannot be used: {error}");
    let parsed = Template::parse_plain("template name generator", template).map_err(refusal)?;
    parsed.render_complete(&data(variables, random, index)).map_err(refusal)
}

/// Cuts a name that is too long. It ends with its random part then, as upstream's.
pub(crate) fn cut_before_random(name: String, random: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name;
    }
    name.chars().take(LONGEST - RANDOM).chain(random.chars()).collect()
}

/// Cuts a name that is too long. It ends with its index then, so that cut names of different indexes differ.
pub(crate) fn cut_before_index(name: String, index: usize) -> String {
    if name.chars().count() <= LONGEST {
        return name;
    }
    let end = format!("-{index}");
    let kept: String = name.chars().take(LONGEST.saturating_sub(end.len())).collect();
    // Two separators in a row are no valid name.
    format!("{}{end}", kept.trim_end_matches(['-', '.']))
}

/// Returns the variables of a name as an object.
fn data(variables: &[(&str, &str)], random: &str, index: Option<usize>) -> Value {
    let mut parts: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (path, value) in variables {
        let (part, name) = path.trim_start_matches('.').split_once('.').unwrap_or((path, ""));
        parts.entry(part).or_default().insert(name.to_owned(), (*value).into());
    }
    let mut data: Map<String, Value> =
        parts.into_iter().map(|(part, fields)| (part.to_owned(), fields.into())).collect();
    data.insert("random".to_owned(), random.into());
    data.extend(index.map(|index| ("index".to_owned(), index.into())));
    data.into()
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
            ("{{ if .cluster.name }}{{ .machineSet.name | printf \"%.1s\" }}{{ end }}", Ok("m")),
            ("{{ slice .cluster.name 0 1 }}-{{ .random }}", Ok("c-abcde")),
            ("{{ upper .cluster.name }}", Err("function \"upper\" not defined")),
            ("{{ .machine.name }}", Err("map has no entry for key \"machine\"")),
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
    fn a_name_that_is_cut_keeps_its_index() {
        let name = |index| {
            let long = [(".cluster.name", "a".repeat(60)), (".machineSet.name", "-.-".to_owned())];
            let long = long.each_ref().map(|(path, value)| (*path, value.as_str()));
            let template = "{{ .cluster.name }}{{ .machineSet.name }}{{ printf \"%02d\" .index }}";
            cut_before_index(rendered(template, &long, "", Some(index)).unwrap(), index)
        };
        assert_eq!(name(7), format!("{}-7", "a".repeat(60)), "without the separators before it");
        assert_eq!(name(123), format!("{}-123", "a".repeat(59)));
        let names: std::collections::BTreeSet<String> = (0..1200).map(name).collect();
        assert_eq!(names.len(), 1200);
        assert!(names.iter().all(|name| name.len() <= LONGEST));
        assert_eq!(cut_before_index("w-3".to_owned(), 3), "w-3");
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
