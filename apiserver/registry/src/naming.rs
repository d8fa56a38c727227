//! Go templates of names, as far as they can be judged without running them.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::metadata::is_subdomain;
use serde_json::json;

/// A fault when the names would be no names of objects. A template that does more than insert words
/// is left to whoever runs it.
pub(crate) fn validate(
    template: &str,
    words: &[(&str, &str)],
    path: &FieldPath,
    faults: &mut Vec<FieldError>,
) {
    let name = words.iter().fold(template.to_owned(), |name, (word, example)| name.replace(word, example));
    if template.matches("{{").count() != template.matches("}}").count() {
        faults.push(FieldError::invalid(
            path.clone(),
            &json!(template),
            "invalid template: an action is not closed",
        ));
    } else if !name.contains("{{") && !is_subdomain(&name) {
        let detail = "invalid template, generated names would not be valid Kubernetes object names";
        faults.push(FieldError::invalid(path.clone(), &json!(template), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_names() {
        for (template, count) in [
            ("{{ .cluster.name }}-x", 0),
            ("{{ .cluster.name | trunc 5 }}", 0),
            ("UPPER", 1),
            ("x-{{ .cluster", 1),
        ] {
            let mut faults = Vec::new();
            let words = [("{{ .cluster.name }}", "cluster")];
            validate(template, &words, &FieldPath::new("spec.naming.template"), &mut faults);
            assert_eq!(faults.len(), count, "{template}");
        }
    }
}
