//! Go templates (`text/template`) with the hermetic functions of the Sprig library.
//!
//! A template has no access to the clock, randomness, the environment or the network. Its work and its output are bounded,
//! so that a template of a user cannot stop the server. Numbers of the data are floats, as Go decodes JSON. In templates of
//! names, whole numbers are integers.

mod certificate;
mod compare;
mod escapes;
mod evaluate;
mod format;
mod functions;
mod json;
mod node;
mod number;
mod parse;
mod times;
mod token;
mod value;
mod versions;

use evaluate::MissingKey;
use functions::Library;
use serde_json::Value;

/// Error of a Go template: it does not parse, or it does not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub(crate) String);

/// Parsed Go template.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    templates: parse::Templates,
    library: Library,
}

impl Template {
    /// Parses a template. `name` appears in error messages.
    ///
    /// # Errors
    /// [`TemplateError`] with the line and the reason, if the text is no template.
    pub fn parse(name: &str, text: &str) -> Result<Self, TemplateError> {
        Self::parsed(name, text, Library::Sprig)
    }

    /// Parses a template that can call only Go's own functions. Upstream's templates of names are such.
    ///
    /// # Errors
    /// [`TemplateError`] as of [`Self::parse`].
    pub fn parse_plain(name: &str, text: &str) -> Result<Self, TemplateError> {
        Self::parsed(name, text, Library::Go)
    }

    fn parsed(name: &str, text: &str, library: Library) -> Result<Self, TemplateError> {
        Ok(Self { name: name.to_owned(), templates: parse::parse(name, text, library)?, library })
    }

    /// Renders the template. `data` is the dot. A missing key is written as `<no value>`.
    ///
    /// # Errors
    /// [`TemplateError`] if a function fails, a value has no fields, or a bound is exceeded.
    pub fn render(&self, data: &Value) -> Result<String, TemplateError> {
        self.evaluate(data, MissingKey::Prints)
    }

    /// Renders the template as [`Self::render`] does, but a missing key is an error: the option `missingkey=error`. Whole
    /// numbers in `data` are of Go's type `int`, so that `%02d` formats them.
    ///
    /// # Errors
    /// [`TemplateError`] as of [`Self::render`], and if a field does not exist in the data.
    pub fn render_complete(&self, data: &Value) -> Result<String, TemplateError> {
        self.evaluate(data, MissingKey::Fails)
    }

    fn evaluate(&self, data: &Value, missing_key: MissingKey) -> Result<String, TemplateError> {
        evaluate::render(&self.templates, self.library, data, missing_key)
            .map_err(|(line, error)| TemplateError(format!("template: {}:{line}: {error}", self.name)))
    }
}

#[cfg(test)]
mod tests;
