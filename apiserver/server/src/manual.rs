//! Commands `capstan completion` and `capstan manual`: scripts for shells, and pages for `man`.

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionArguments, ManualArguments};
use crate::output;

/// Prints the completion script of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completion(arguments: &CompletionArguments) -> anyhow::Result<()> {
    let (mut command, mut script) = (Cli::command(), Vec::new());
    clap_complete::generate(arguments.shell, &mut command, "capstan", &mut script);
    Ok(output::print(&String::from_utf8(script)?)?)
}

/// Writes a page for each command: `capstan.1`, `capstan-serve.1`, and so on.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn pages(arguments: &ManualArguments) -> anyhow::Result<()> {
    let directory = &arguments.output;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("{}: the pages cannot be written", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visible_command_has_a_page_and_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        pages(&ManualArguments { output: directory.path().to_owned() }).unwrap();
        let (mut command, mut script) = (Cli::command(), Vec::new());
        clap_complete::generate(clap_complete::Shell::Bash, &mut command, "capstan", &mut script);
        let script = String::from_utf8(script).unwrap();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = directory.path().join(format!("capstan-{name}.1"));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(text.contains(".SH SYNOPSIS"), "{name}");
            assert!(script.contains(&format!("capstan,{name})")), "{name} is not completed");
        }
        assert!(!directory.path().join("capstan-manual.1").exists(), "a hidden command has a page");
    }
}
