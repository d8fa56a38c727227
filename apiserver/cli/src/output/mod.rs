//! Output of commands: forms, colours, and writing to the standard streams.

mod age;
mod columns;
mod conditions;
mod form;
mod json;
mod live;
mod style;
mod table;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use clap::ValueEnum;

pub use age::age;
pub(crate) use age::span;
pub use columns::columns;
pub use conditions::ConditionFilter;
pub use form::ViewForm;
pub use json::{names, view};
pub use live::LiveTree;
pub use style::Style;
pub use table::{changes, render};

use crate::error::{ExitCode, Failure};

/// Condition under which a command writes colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR or TERM=dumb is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Style {
    /// Returns the style for a stream of this process.
    #[must_use]
    pub fn detect(stream: &(impl IsTerminal + AsFd), color: ColorChoice, ascii: bool) -> Self {
        let is_terminal = stream.is_terminal();
        let set = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => !set("NO_COLOR") && !is_dumb && (is_terminal || set("CLICOLOR_FORCE")),
        };
        let width = is_terminal.then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten();
        let width = width.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Self { color, ascii: ascii || !is_utf8(), width }
    }
}

/// Returns false if the locale names another encoding than UTF-8. Without a locale, UTF-8 is assumed: most containers
/// have none, and their terminals use UTF-8.
fn is_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let Some(locale) = locale else { return true };
    let locale = locale.to_lowercase().replace('-', "");
    locale.contains("utf8") || !locale.contains('.')
}

/// Writes to standard output. A closed pipe is no error: a reader such as `head` reads only the beginning.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(unwritable),
    }
}

/// Returns the failure of an output that cannot be made or written.
pub(crate) fn unwritable(error: impl Display) -> Failure {
    Failure::new(ExitCode::Failed, format!("cannot write the output: {error}"))
}

/// Writes to standard error, for a person who waits. Nothing depends on it.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // The mode above applies to a new file only.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text)
}
