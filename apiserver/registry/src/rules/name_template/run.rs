//! Evaluation of name templates.

use serde_json::{Value, json};

use super::parse::{Command, Piece};
use super::{TITLE, position};

/// Examples of the variables of a template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Examples<'a> {
    /// Path of the variable that only names of this kind have.
    pub(super) own: Option<[&'a str; 2]>,
    /// Random part of the name.
    pub(super) random: &'static str,
    /// Index of a Machine; `None` in names of other kinds.
    pub(super) index: Option<u8>,
}

/// Example of the variable `own`.
const OWN: &str = "owner";

/// Example of the name of a cluster.
const CLUSTER: &str = "cluster";

/// Variables of a template: path and example.
type Known<'a> = Vec<(Vec<&'a str>, String)>;

/// Returns the variables of a template.
pub(super) fn known(examples: Examples<'_>) -> Known<'_> {
    let always =
        [(vec!["cluster", "name"], CLUSTER.to_owned()), (vec!["random"], examples.random.to_owned())];
    let own = examples.own.map(|own| (own.to_vec(), OWN.to_owned()));
    let index = examples.index.map(|index| (vec!["index"], index.to_string()));
    always.into_iter().chain(own).chain(index).collect()
}

/// Returns the variables of a template as an object.
pub(super) fn data(examples: Examples<'_>) -> Value {
    let mut data = json!({"cluster": {"name": CLUSTER}, "random": examples.random});
    if let (Some([part, name]), Some(fields)) = (examples.own, data.as_object_mut()) {
        fields.insert(part.to_owned(), json!({name: OWN}));
    }
    if let (Some(index), Some(fields)) = (examples.index, data.as_object_mut()) {
        fields.insert("index".to_owned(), json!(index));
    }
    data
}

/// Evaluates a template with these variables.
pub(super) fn run(pieces: &[Piece<'_>], template: &str, known: &Known<'_>) -> Result<String, String> {
    let mut name = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => name.push_str(text),
            Piece::Action(commands) => name.push_str(&value(commands, template, known)?),
        }
    }
    Ok(name)
}

/// Returns the value of the last field of a pipeline.
fn value(commands: &[Command<'_>], template: &str, known: &Known<'_>) -> Result<String, String> {
    let mut value = String::new();
    for (index, command) in commands.iter().enumerate() {
        let has_arguments = index > 0 || command.has_arguments;
        value = look_up(command.field, has_arguments, known).map_err(|problem| {
            let (line, column) = position(template, command.at);
            format!(
                "template: {TITLE}:{line}:{column}: executing \"{TITLE}\" at <{}>: {problem}",
                command.field
            )
        })?;
    }
    Ok(value)
}

fn look_up(field: &str, has_arguments: bool, known: &Known<'_>) -> Result<String, String> {
    let names: Vec<&str> = field.split('.').filter(|name| !name.is_empty()).collect();
    if names.is_empty() && has_arguments {
        return Err("can't give argument to non-function .".to_owned());
    }
    let mut above: Vec<&str> = Vec::new();
    for name in &names {
        if known.iter().any(|(path, _)| *path == above) {
            return Err(format!("can't evaluate field {name} in type interface {{}}"));
        }
        above.push(name);
        if has_arguments && above.len() == names.len() {
            return Err(format!("{name} is not a method but has arguments"));
        }
        if !known.iter().any(|(path, _)| path.starts_with(&above)) {
            return Err(format!("map has no entry for key {name:?}"));
        }
    }
    // A value with fields would print as a map, which is no valid name.
    let found = known.iter().find(|(path, _)| *path == names);
    Ok(found.map_or("map[]", |(_, example)| example.as_str()).to_owned())
}
