//! Templates in files: the part of Go's `text/template` that a choice by the version of the control plane needs.
//!
//! There are fields, text literals, `if`, `else`, `end`, `eq`, `ne`, `and`, `or`, `not`, `printf`, comments and trim
//! markers. Anything else is an error that names its position.

mod evaluate;
mod lex;
mod parse;

use evaluate::Value;

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
    /// The text is not in the supported part of the language.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1 on.
        line: usize,
        /// Column in characters, from 1 on.
        column: usize,
        /// Error, for people.
        message: String,
    },
    /// A value that is written is not set.
    #[error("{0} is not set: the control plane of the Cluster has no version")]
    Unset(String),
    /// Arguments do not fit.
    #[error("{0}")]
    Arguments(String),
    /// The output is too long.
    #[error("the output is longer than {LIMIT} bytes")]
    TooLong,
}

/// Renders a template.
///
/// # Errors
/// The template is not in the supported part of the language, or writes a value that is not set.
pub fn render(template: &str, values: &Values) -> Result<String, TemplateError> {
    let nodes = parse::parse(template)?;
    let version = values.control_plane_version.clone();
    let control_plane =
        version.map(|version| Value::Map([("version".to_owned(), Value::Text(version))].into()));
    let root = Value::Map(control_plane.map(|it| ("controlPlane".to_owned(), it)).into_iter().collect());
    let mut output = String::new();
    evaluate::write(&nodes, &root, &mut output)?;
    Ok(output)
}

/// Version of the control plane with which [`check`] renders. Any would do.
const ANY_VERSION: &str = "v1.36.0";

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
                "{{ .controlPlane.name }}",
                ".controlPlane.name is not set: the control plane of the Cluster has no version",
            ),
            ("{{ printf \"%d\" .controlPlane.version }}", "printf: %d is not supported"),
            ("{{ printf \"%s\" }}", "printf: the format and its arguments do not fit"),
            ("{{ .controlPlane }}", "only a text can be written"),
        ];
        for (template, expected) in table {
            let error = with(Some("v1.36.3"), template).unwrap_err();
            assert_eq!(error.to_string(), expected, "{template}");
            assert_eq!(check(template), Err(error), "{template}");
        }
    }

    #[test]
    fn an_output_beyond_the_limit_is_refused() {
        assert_eq!(with(None, &"x".repeat(LIMIT + 1)), Err(TemplateError::TooLong));
    }
}
