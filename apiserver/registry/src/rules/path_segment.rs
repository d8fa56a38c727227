//! Names that are a segment of a path, such as those of roles.

/// Returns the errors of a name, in upstream's words.
pub(crate) fn errors(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let found = ['/', '%'].into_iter().filter(|character| name.contains(*character));
    found.map(|character| format!("may not contain '{character}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_colons_and_capitals_but_no_slash_and_no_percent() {
        for (name, good) in [
            ("system:node", true),
            ("A b", true),
            (".", false),
            ("..", false),
            ("...", true),
            ("a/b", false),
            ("a%20", false),
        ] {
            assert_eq!(errors(name).is_empty(), good, "{name}");
        }
        assert_eq!(errors("a/%"), ["may not contain '/'", "may not contain '%'"]);
    }
}
