//! Name templates in Go's template language. Controllers evaluate them when they create objects. An error there is not
//! visible to the author, and no object is created, so templates are validated here.
//!
//! Text and fields are evaluated here, with the error messages and positions of Go. The engine of topologies, with which
//! controllers make names, evaluates templates that use more of the language.

mod parse;
mod run;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::go_template::{Template, TemplateError};
use serde_json::{Value, json};

use crate::rules::names;
use parse::Stop;

/// Name of a template in errors: Go's words, which users search for.
const TITLE: &str = "template name generator";

/// Longest generated name. Longer names are cut and get a random suffix.
const LONGEST_NAME: usize = 63;

/// Returns the errors of a template for the names of Machines, which must be unique. The template can use
/// `.cluster.name`, `.random` and the name of `owner`, for example `.machineSet.name` of a `machineSet`.
pub(crate) fn validate(
    template: Option<&Value>,
    owner: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(text) = template.and_then(Value::as_str).filter(|text| !text.is_empty()) else { return };
    let mut error = |detail: &str| errors.push(FieldError::invalid(path.clone(), &json!(text), detail));
    if !text.contains("{{ .random }}") {
        error("invalid template, {{ .random }} is missing");
    }
    match example(text, Some([owner, "name"])) {
        Err(reason) => error(&format!("invalid template: {reason}")),
        Ok(name) => {
            for wrong in names::subdomain(&name) {
                error(&format!(
                    "invalid template, generated names would not be valid Kubernetes object names: {wrong}"
                ));
            }
        }
    }
}

/// Returns an example of a name. The template can use `.cluster.name`, `.random` and the variable `own`, for example
/// `.machineDeployment.topologyName`.
///
/// # Errors
/// The template does not parse, or it fails with these variables. In Go's words, with the line.
pub(crate) fn example(template: &str, own: Option<[&str; 2]>) -> Result<String, String> {
    let unparsed = |problem: String| format!("parsing template {template:?}: {problem}");
    let unrendered = |problem: String| format!("rendering template: {problem}");
    let mut name = match parse::parse(template) {
        Ok(pieces) => run::run(&pieces, template, &run::known(own)).map_err(unrendered)?,
        Err(Stop::Beyond) => {
            let text = |error: TemplateError| error.to_string();
            let parsed = Template::parse_plain(TITLE, template).map_err(text).map_err(unparsed)?;
            parsed.render_complete(&run::data(own)).map_err(text).map_err(unrendered)?
        }
        Err(Stop::Invalid { at, problem }) => {
            let (line, _) = position(template, at);
            return Err(unparsed(format!("template: {TITLE}:{line}: {problem}")));
        }
    };
    if name.len() > LONGEST_NAME {
        let kept = LONGEST_NAME - run::RANDOM.len();
        name = name.chars().take(kept).chain(run::RANDOM.chars()).collect();
    }
    Ok(name)
}

/// Returns the line (from 1) and the column (from 0) of an offset.
fn position(template: &str, at: usize) -> (usize, usize) {
    let before = template.get(..at).unwrap_or(template);
    let column = before.rsplit_once('\n').map_or(before, |(_, line)| line).len();
    (before.matches('\n').count() + 1, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_that_generate_valid_names_are_accepted() {
        for template in [
            "{{ .cluster.name }}-{{ .owner.name }}-{{ .random }}",
            "x{{ .random }} {{- .cluster.name -}} \n y",
            "{{.cluster.name}}-{{ .random }}",
            "{{\n.cluster.name\t}}-{{ .random }}",
            // The engine of topologies evaluates these.
            "{{ if true }}a{{ end }}-{{ .random }}",
            "{{ .cluster.name | printf \"%.5s\" }}-{{ .random }}",
            "{{/* short */}}{{ .random }}",
            "{{ (.cluster).name }}-{{ .random }}",
            "{{ slice .cluster.name 0 1 }}-{{ .random }}",
        ] {
            assert_eq!(found(template), Vec::<String>::new(), "{template}");
        }
        assert_eq!(found(""), Vec::<String>::new());
        assert_eq!(found(&format!("{}{{{{ .random }}}}", "a".repeat(200))), Vec::<String>::new());
    }

    #[test]
    fn templates_that_fail_at_execution_get_the_error_messages_of_go() {
        for (template, expected) in [
            ("{{ .foo }}", "1:3: executing \"T\" at <.foo>: map has no entry for key \"foo\""),
            ("{{ .owner.nam }}", "1:9: executing \"T\" at <.owner.nam>: map has no entry for key \"nam\""),
            (
                "{{ .machineSet.name }}",
                "1:14: executing \"T\" at <.machineSet.name>: map has no entry for key \"machineSet\"",
            ),
            (
                "{{ .cluster.name.x }}",
                "1:11: executing \"T\" at <.cluster.name.x>: can't evaluate field x in type interface {}",
            ),
            ("a\n  {{\n .foo }}", "3:1: executing \"T\" at <.foo>: map has no entry for key \"foo\""),
            (
                "{{ .cluster.name .random }}",
                "1:11: executing \"T\" at <.cluster.name>: name is not a method but has arguments",
            ),
            (
                "{{ .cluster.name | .random }}",
                "1:19: executing \"T\" at <.random>: random is not a method but has arguments",
            ),
        ] {
            let expected = format!(
                "invalid template: rendering template: template: {}",
                format!("T:{expected}").replace('T', TITLE)
            );
            assert_eq!(found(&format!("{template}{{{{ .random }}}}")), [expected], "{template}");
        }
    }

    #[test]
    fn malformed_templates_get_the_error_messages_of_go() {
        for (end, expected) in [
            ("{{ .cluster", "unclosed action"),
            ("{{", "unclosed action"),
            ("{{ }}", "missing value for command"),
            ("{{ -}}", "missing value for command"),
            ("{{ .cluster.name | trunc 5 }}", "function \"trunc\" not defined"),
            ("{{ name }}", "function \"name\" not defined"),
            ("{{ .a-b }}", "bad character U+002D '-'"),
            ("{{ .cluster..name }}", "unexpected <.> in operand"),
            ("{{ .random }", "unexpected \"}\" in operand"),
            ("{{ @ }}", "unexpected \"@\" in command"),
        ] {
            let template = format!("{{{{ .random }}}}{end}");
            let expected =
                format!("invalid template: parsing template {template:?}: template: {TITLE}:1: {expected}");
            assert_eq!(found(&template), [expected], "{template}");
        }
    }

    #[test]
    fn the_engine_of_topologies_refuses_what_it_cannot_evaluate() {
        for (template, expected) in [
            (
                "{{ if true }}a-{{ .random }}",
                format!("parsing template T: template: {TITLE}:1: unexpected EOF"),
            ),
            (
                "{{ if true }}{{ trunc 5 .cluster.name }}{{ end }}-{{ .random }}",
                format!("parsing template T: template: {TITLE}:1: function \"trunc\" not defined"),
            ),
            (
                "{{ (.cluster).nam }}-{{ .random }}",
                format!("rendering template: template: {TITLE}:1: map has no entry for key \"nam\""),
            ),
            (
                "{{ printf \"%s\" .other }}-{{ .random }}",
                format!("rendering template: template: {TITLE}:1: map has no entry for key \"other\""),
            ),
        ] {
            let expected = format!("invalid template: {expected}")
                .replace("template T:", &format!("template {template:?}:"));
            assert_eq!(found(template), [expected], "{template}");
        }
        let found = found("{{ .cluster.name | printf \"%s_\" }}{{ .random }}");
        assert!(found.iter().any(|error| error.contains("a lowercase RFC 1123 subdomain")), "{found:?}");
    }

    #[test]
    fn generated_names_must_be_unique_and_valid() {
        assert_eq!(found("{{ .cluster.name }}"), ["invalid template, {{ .random }} is missing"]);
        for template in
            ["A-{{ .random }}", "{{ .cluster }}-{{ .random }}", "{{ .random }}-", "{{.}}{{ .random }}"]
        {
            let found = found(template);
            let start = "invalid template, generated names would not be valid Kubernetes object names: a lowercase RFC";
            assert!(found.len() == 1 && found.iter().all(|error| error.starts_with(start)), "{found:?}");
        }
    }

    fn found(template: &str) -> Vec<String> {
        let mut errors = Vec::new();
        validate(Some(&json!(template)), "owner", &FieldPath::new("at"), &mut errors);
        let prefix = format!("at: Invalid value: {}: ", json!(template));
        errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect()
    }
}
