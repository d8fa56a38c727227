//! What a template comes to.

use super::parse::{Command, Piece};
use super::{TITLE, place};

/// What makes one name differ from another.
pub(super) const RANDOM: &str = "fwzk4";

/// A name by this template, for something made by an `owner` of this kind.
pub(super) fn run(pieces: &[Piece<'_>], template: &str, owner: &str) -> Result<String, String> {
    let mut name = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => name.push_str(text),
            Piece::Action(commands) => name.push_str(&value(commands, template, owner)?),
        }
    }
    Ok(name)
}

/// What the last of these fields comes to.
fn value(commands: &[Command<'_>], template: &str, owner: &str) -> Result<String, String> {
    let mut value = String::new();
    for (index, command) in commands.iter().enumerate() {
        let has_arguments = index > 0 || command.has_arguments;
        value = look_up(command.field, has_arguments, owner).map_err(|problem| {
            let (line, column) = place(template, command.at);
            format!(
                "template: {TITLE}:{line}:{column}: executing \"{TITLE}\" at <{}>: {problem}",
                command.field
            )
        })?;
    }
    Ok(value)
}

fn look_up(field: &str, has_arguments: bool, owner: &str) -> Result<String, String> {
    let known: [(&[&str], &str); 3] =
        [(&["cluster", "name"], "cluster"), (&["random"], RANDOM), (&[owner, "name"], "owner")];
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
    // What has names in it is shown as a map, which makes no name.
    let found = known.iter().find(|(path, _)| *path == names);
    Ok(found.map_or("map[]", |(_, example)| *example).to_owned())
}
