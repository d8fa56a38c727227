//! Go templates of names, as far as they can be judged without running them.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::metadata::is_subdomain;
use serde_json::{Value, json};

use crate::shape::text;

/// What makes one name differ from another.
const RANDOM: &str = "{{ .random }}";

/// Names a Machine's template may use, each with an example.
const MACHINE_WORDS: [(&str, &str); 3] =
    [("{{ .cluster.name }}", "cluster"), ("{{ .machineSet.name }}", "machineset"), (RANDOM, "x1y2z")];

/// Faults of `spec.machineNaming`.
pub(crate) fn validate_machines(new: &Value, faults: &mut Vec<FieldError>) {
    let Some(template) = text(new, "spec.machineNaming.template").filter(|template| !template.is_empty())
    else {
        return;
    };
    let path = FieldPath::new("spec.machineNaming.template");
    if !template.contains(RANDOM) {
        let detail = "invalid template, {{ .random }} is missing";
        faults.push(FieldError::invalid(path.clone(), &json!(template), detail));
    }
    validate(template, &MACHINE_WORDS, &path, faults);
}

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
    fn names_must_differ_and_be_names() {
        for (template, count) in [
            ("{{ .cluster.name }}-{{ .random }}", 0),
            ("{{ .machineSet.name | trunc 5 }}-{{ .random }}", 0),
            ("{{ .cluster.name }}", 1),
            ("UPPER-{{ .random }}", 1),
            ("{{ .random }}-{{ .cluster", 1),
            ("", 0),
        ] {
            let mut faults = Vec::new();
            validate_machines(&json!({"spec": {"machineNaming": {"template": template}}}), &mut faults);
            assert_eq!(faults.len(), count, "{template}");
        }
    }
}
