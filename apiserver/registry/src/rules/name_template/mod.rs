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
use run::Examples;

/// Name of a template in errors: Go's words, which users search for.
const TITLE: &str = "template name generator";

/// Longest generated name. Longer names are cut and end with their random part or their index.
const LONGEST_NAME: usize = 63;

/// Example of the random part of a name.
const RANDOM: &str = "fwzk4";

/// Another one, to see whether a name has a random part.
const OTHER_RANDOM: &str = "x9b2c";

/// Index that has the digits of [`FIRST`] and [`SECOND`], so that a name with a part of the index is found.
const LATER: u8 = 10;

/// Index of the first Machine.
const FIRST: u8 = 0;

/// Index of the second Machine.
const SECOND: u8 = 1;

/// Returns the errors of a template for the names of Machines, which must be unique: by a random part, or by an index. The
/// template can use `.cluster.name`, `.random`, `.index` and the name of `owner`, for example `.machineSet.name` of a
/// `machineSet`.
pub(crate) fn validate(
    template: Option<&Value>,
    owner: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(text) = template.and_then(Value::as_str).filter(|text| !text.is_empty()) else { return };
    let mut error = |detail: &str| errors.push(FieldError::invalid(path.clone(), &json!(text), detail));
    let name =
        |random, index| rendered(text, Examples { own: Some([owner, "name"]), random, index: Some(index) });
    let first = name(RANDOM, FIRST);
    // By the effect of the variable: a comment or a condition may name it, too.
    let has_index = differs(&first, &name(RANDOM, SECOND));
    if !has_index && !text.contains("{{ .random }}") {
        error("invalid template, {{ .random }} is missing");
    }
    if has_index && differs(&first, &name(OTHER_RANDOM, FIRST)) {
        error(
            "invalid template, {{ .index }} and {{ .random }} exclude each other: a random name is always free, so the \
             index would always be 0",
        );
    }
    let later = name(RANDOM, LATER);
    if has_index && !(differs(&first, &later) && differs(&name(RANDOM, SECOND), &later)) {
        error("invalid template, each {{ .index }} must give a name of its own");
    }
    match first {
        Err(reason) => error(&format!("invalid template: {reason}")),
        Ok(name) => {
            let name = shortened(name, if has_index { "-0" } else { RANDOM });
            for wrong in names::subdomain(&name) {
                error(&format!(
                    "invalid template, generated names would not be valid Kubernetes object names: {wrong}"
                ));
            }
        }
    }
}

/// Reports whether two names differ. Failures do not.
fn differs(one: &Result<String, String>, other: &Result<String, String>) -> bool {
    matches!((one, other), (Ok(one), Ok(other)) if one != other)
}

/// Returns an example of a name. The template can use `.cluster.name`, `.random` and the variable `own`, for example
/// `.machineDeployment.topologyName`.
///
/// # Errors
/// The template does not parse, or it fails with these variables. In Go's words, with the line.
pub(crate) fn example(template: &str, own: Option<[&str; 2]>) -> Result<String, String> {
    let name = rendered(template, Examples { own, random: RANDOM, index: None })?;
    Ok(shortened(name, RANDOM))
}

/// Returns a name that is short enough: a longer one is cut and gets this end.
fn shortened(name: String, end: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name;
    }
    name.chars().take(LONGEST_NAME.saturating_sub(end.len())).chain(end.chars()).collect()
}

/// Evaluates a template with these examples.
fn rendered(template: &str, examples: Examples<'_>) -> Result<String, String> {
    let unparsed = |problem: String| format!("parsing template {template:?}: {problem}");
    let unrendered = |problem: String| format!("rendering template: {problem}");
    match parse::parse(template) {
        Ok(pieces) => run::run(&pieces, template, &run::known(examples)).map_err(unrendered),
        Err(Stop::Beyond) => {
            let text = |error: TemplateError| error.to_string();
            let parsed = Template::parse_plain(TITLE, template).map_err(text).map_err(unparsed)?;
            parsed.render_complete(&run::data(examples)).map_err(text).map_err(unrendered)
        }
        Err(Stop::Invalid { at, problem }) => {
            let (line, _) = position(template, at);
            Err(unparsed(format!("template: {TITLE}:{line}: {problem}")))
        }
    }
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

    #[test]
    fn an_index_makes_names_unique_in_place_of_a_random_part() {
        for template in [
            "{{ .owner.name }}-{{ .index }}",
            "{{.cluster.name}}-w{{.index}}",
            "{{ .cluster.name }}-{{ printf \"%03d\" .index }}",
            "rack-{{ .index | printf \"%02d\" }}-{{ .cluster.name }}",
        ] {
            assert_eq!(found(template), Vec::<String>::new(), "{template}");
        }
        assert_eq!(found(&format!("{}{{{{ .index }}}}", "a".repeat(200))), Vec::<String>::new());
        let missing = "invalid template, {{ .random }} is missing";
        for template in ["{{/* .index */}}a", "{{ if .index }}{{ end }}a", "index"] {
            assert_eq!(found(template), [missing], "{template}: it has no effect");
        }
        for template in ["{{ if .index }}a{{ else }}b{{ end }}", "{{ slice (printf \"%02d\" .index) 1 }}"] {
            let found = found(template);
            assert_eq!(
                found,
                ["invalid template, each {{ .index }} must give a name of its own"],
                "{template}"
            );
        }
        let both = found("{{ .index }}-{{ .random }}");
        assert!(both.len() == 1 && both[0].contains("exclude each other"), "{both:?}");
        assert!(found("{{ .index }}-")[0].contains("would not be valid Kubernetes object names"));
        let other = found("{{ .index.x }}");
        let text = "can't evaluate field x in type interface {}";
        assert!(other.iter().any(|error| error.ends_with(text)), "{other:?}");
    }

    #[test]
    fn only_names_of_machines_have_an_index() {
        let refused = example("{{ .cluster.name }}-{{ .index }}", None).unwrap_err();
        assert!(refused.ends_with("map has no entry for key \"index\""), "{refused}");
    }

    fn found(template: &str) -> Vec<String> {
        let mut errors = Vec::new();
        validate(Some(&json!(template)), "owner", &FieldPath::new("at"), &mut errors);
        let prefix = format!("at: Invalid value: {}: ", json!(template));
        errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect()
    }
}
