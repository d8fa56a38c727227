//! Values of patches: literals, variables and rendered templates.

use std::collections::BTreeMap;

use apiserver_types::{JsonPatch, JsonPatchOperation};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Options};

use super::variable_path;
use crate::go_template::Template;

/// Reports whether a patch is enabled for these variables: the rendered condition is true as a value of YAML.
pub(super) fn is_enabled(
    condition: Option<&str>,
    variables: &BTreeMap<String, Value>,
) -> Result<bool, String> {
    let Some(condition) = condition else { return Ok(true) };
    Ok(yaml(&render("enabledIf", condition, variables)?)? == Value::Bool(true))
}

/// Returns the value of an operation.
pub(super) fn value(operation: &JsonPatch, variables: &BTreeMap<String, Value>) -> Result<Value, String> {
    if operation.op == JsonPatchOperation::Remove {
        return Ok(Value::Null);
    }
    match (&operation.value, &operation.value_from) {
        (Some(value), None) => Ok(value.0.clone()),
        (None, Some(from)) => match (&from.variable, &from.template) {
            (Some(path), None) => variable_path::value(path, variables).cloned(),
            (None, Some(template)) => {
                let text = render("valueFrom.template", template, variables)?;
                yaml(&text)
            }
            _ => Err("valueFrom must set either variable or template".to_owned()),
        },
        _ => Err("one of value and valueFrom must be set".to_owned()),
    }
}

fn render(name: &str, text: &str, variables: &BTreeMap<String, Value>) -> Result<String, String> {
    let template = Template::parse(name, text).map_err(|error| error.to_string())?;
    let data = Value::Object(variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
    template.render(&data).map_err(|error| error.to_string())
}

/// Parses rendered text. Empty text is null. Of several documents, the first one counts, as upstream.
fn yaml(text: &str) -> Result<Value, String> {
    let text = first_document(text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let error = error.to_string();
        format!("the rendered template is no YAML: {}", error.lines().next().unwrap_or_default())
    })
}

/// Returns the first document of a text. No value can have a line that begins with the mark of a document.
fn first_document(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}');
    let (mut has_begun, mut end) = (false, 0_usize);
    for line in text.split_inclusive('\n') {
        let is_mark = |mark: &str| {
            let rest = line.strip_prefix(mark);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        };
        let begins = is_mark("---");
        if has_begun && (begins || is_mark("...")) {
            return text.get(..end).unwrap_or(text);
        }
        let is_content = !line.trim().is_empty() && !line.starts_with(['#', '%']);
        has_begun |= begins || is_content;
        end = end.saturating_add(line.len());
    }
    text
}

/// Returns the options of rendered text. With them it has the value that `sigs.k8s.io/yaml` gives it.
fn options() -> Options {
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.legacy_octal_numbers = true;
    options
}
