//! Templates in files: the part of Go's `text/template` that a choice by the version of the control plane needs.
//!
//! There are fields, text literals, `if`, `else`, `end`, `eq`, `ne`, `and`, `or`, `not`, `printf`, comments and trim
//! markers. Anything else is an error that names its position, also in a branch that is not taken.

mod evaluate;
mod lex;
mod parse;
mod verify;

use evaluate::{Evaluator, Value};

/// Largest output. Upstream's limit. Unit: bytes.
const LIMIT: usize = 1024 * 1024;

/// Values that a template can read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    /// `.controlPlane.version`. Without it, `.controlPlane` is not set.
    pub control_plane_version: Option<String>,
}

/// Error of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is not in the supported part of the language, arguments do not fit, or a value that is written is not set.
    #[error("line {line}, column {column}: {message}")]
    At {
        /// Line, from 1 on.
        line: usize,
        /// Column in characters, from 1 on.
        column: usize,
        /// Error, for people.
        message: String,
    },
    /// The output is too long.
    #[error("the output is longer than {LIMIT} bytes")]
    TooLong,
}

/// Version of the control plane with which branches are checked. Any would do.
const ANY_VERSION: &str = "v1.36.0";

/// Renders a template. A branch that these values do not take must be right, too.
///
/// # Errors
/// The template is not in the supported part of the language, or writes a value that is not set.
pub fn render(template: &str, values: &Values) -> Result<String, TemplateError> {
    let nodes = parse::parse(template)?;
    let any = root(Some(ANY_VERSION));
    Evaluator { template, root: &any }.verify(&nodes)?;
    let root = root(values.control_plane_version.as_deref());
    let mut output = String::new();
    Evaluator { template, root: &root }.write(&nodes, &mut output)?;
    Ok(output)
}

/// Returns the values that a template can read.
fn root(version: Option<&str>) -> Value {
    let control_plane = |version: &str| {
        let fields = [("version".to_owned(), Value::Text(version.to_owned()))];
        ("controlPlane".to_owned(), Value::Map(fields.into()))
    };
    Value::Map(version.map(control_plane).into_iter().collect())
}

/// Checks a template before there is a control plane.
///
/// # Errors
/// The template is not in the supported part of the language, or fails for a control plane with a version.
pub fn check(template: &str) -> Result<(), TemplateError> {
    render(template, &Values { control_plane_version: Some(ANY_VERSION.to_owned()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(version: Option<&str>, template: &str) -> Result<String, TemplateError> {
        render(template, &Values { control_plane_version: version.map(ToOwned::to_owned) })
    }

    #[test]
    fn the_supported_part_renders_as_in_go() {
        let table = [
            ("plain {x}", "plain {x}"),
            ("{{ .controlPlane.version }}", "v1.36.3"),
            ("a {{- \" b \" -}} c", "a b c"),
            ("a\n{{- /* a comment */ -}}\nb", "ab"),
            ("{{ if .controlPlane }}yes{{ else }}no{{ end }}", "yes"),
            (
                "{{ if not .controlPlane }}yes{{ else if eq .controlPlane.version \"v1.36.3\" }}same{{ end }}",
                "same",
            ),
            ("{{ if and (ne .controlPlane.version \"v1\") (or .other .controlPlane) }}x{{ end }}", "x"),
            ("{{ if eq .controlPlane.version \"v1\" `v1.36.3` }}one of them{{ end }}", "one of them"),
            ("{{ printf \"%s-%q-100%%\" .controlPlane.version \"a\" }}", "v1.36.3-\"a\"-100%"),
            ("{{ .controlPlane.version | printf \"%s\" }}", "v1.36.3"),
            ("{{ if .a.b.c }}{{ if true }}x{{ end }}{{ else }}y{{ end }}", "y"),
            ("{{ and \"\" \"b\" }}{{ or \"\" \"b\" }}", "b"),
        ];
        for (template, expected) in table {
            assert_eq!(with(Some("v1.36.3"), template).as_deref(), Ok(expected), "{template}");
        }
        assert_eq!(with(None, "{{ if .controlPlane }}yes{{ else }}no{{ end }}").as_deref(), Ok("no"));
    }

    #[test]
    fn anything_else_is_an_error_with_its_position() {
        let table = [
            ("a\n {{ range .x }}{{ end }}", "line 2, column 5: \"range\" is not supported"),
            ("{{ if .x }}", "line 1, column 12: \"if\" has no \"end\""),
            ("{{ end }}", "line 1, column 4: \"end\" without \"if\""),
            ("{{ .x", "line 1, column 1: \"{{\" has no \"}}\""),
            ("{{ \"x }}", "line 1, column 4: a text has no end"),
            ("{{ $x }}", "line 1, column 4: \"$\" is not supported"),
            ("{{ (.x }}", "line 1, column 8: \")\" is missing"),
            ("{{ if .x }}{{ else }}{{ else }}{{ end }}", "line 1, column 25: \"else\" after \"else\""),
            (
                "a\n{{ .controlPlane.name }}",
                "line 2, column 4: .controlPlane.name is not set: the only value is .controlPlane.version",
            ),
            ("{{ printf \"%d\" .controlPlane.version }}", "line 1, column 4: printf: %d is not supported"),
            ("{{ printf \"%s\" }}", "line 1, column 4: printf: the format and its arguments do not fit"),
            ("a\nb {{ .controlPlane }}", "line 2, column 6: only a text can be written"),
            ("{{ if not .a .b }}{{ end }}", "line 1, column 7: not: one argument is needed"),
            ("{{ if eq .a }}{{ end }}", "line 1, column 7: eq: two or more arguments are needed"),
            ("{{ if true }}x{{ else if ne .a }}{{ end }}", "line 1, column 26: ne: two arguments are needed"),
        ];
        for (template, expected) in table {
            let error = with(Some("v1.36.3"), template).unwrap_err();
            assert_eq!(error.to_string(), expected, "{template}");
            assert_eq!(check(template), Err(error), "{template}");
        }
    }

    /// A wrong branch for one version was found when a machine of that version was made.
    #[test]
    fn a8_a_branch_and_an_argument_that_are_not_reached_are_checked_too() {
        let table = [
            (
                "{{ if .controlPlane }}x{{ else }}\n{{ printf \"%d\" \"a\" }}{{ end }}",
                "line 2, column 4: printf: %d is not supported",
            ),
            (
                "{{ if eq .controlPlane.version \"v1\" }}{{ .machine.name }}{{ end }}",
                "line 1, column 42: .machine.name is not set: the only value is .controlPlane.version",
            ),
            (
                "{{ if or .controlPlane (not .a .b) }}x{{ end }}",
                "line 1, column 25: not: one argument is needed",
            ),
            ("{{ and \"\" (printf \"%d\" \"a\") }}", "line 1, column 12: printf: %d is not supported"),
        ];
        for (template, expected) in table {
            for version in [Some("v1.36.3"), None] {
                assert_eq!(with(version, template).unwrap_err().to_string(), expected, "{template}");
            }
            assert_eq!(check(template).unwrap_err().to_string(), expected, "{template}");
        }
        for template in [
            "{{ if .machine }}{{ .machine.name }}{{ end }}",
            "{{ if and .machine (eq .machine.name \"a\") }}{{ printf \"%s\" .machine.name }}{{ end }}",
            "{{ if not .machine }}{{ else }}{{ .machine }}{{ end }}",
        ] {
            assert_eq!(check(template), Ok(()), "a condition protects the field: {template}");
        }
    }

    #[test]
    fn a_version_that_the_control_plane_does_not_have_is_an_error_with_its_position() {
        let error = with(None, "a {{ .controlPlane.version }}").unwrap_err().to_string();
        let expected = "line 1, column 6: .controlPlane.version is not set: the control plane of the Cluster has no version";
        assert_eq!(error, expected);
    }

    #[test]
    fn an_output_beyond_the_limit_is_refused() {
        assert_eq!(with(None, &"x".repeat(LIMIT + 1)), Err(TemplateError::TooLong));
    }
}
