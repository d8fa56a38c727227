//! Settings that the flags leave open: asked on a terminal, else the default.

use std::io::{IsTerminal, Write};

use anyhow::{Context, bail};

/// Way to get a setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    on_terminal: bool,
}

impl Ask {
    /// Asks only if a person is at the terminal, and `yes` is not set.
    pub(super) fn new(yes: bool) -> Self {
        Self { on_terminal: !yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() }
    }

    /// Returns the given setting. Else it asks; an empty answer means the default.
    ///
    /// # Errors
    /// There is no default, and no terminal. The error names the flag.
    pub(super) fn setting(
        self,
        flag: &str,
        question: &str,
        given: Option<String>,
        default: Option<String>,
    ) -> anyhow::Result<String> {
        if let Some(given) = given {
            return Ok(given);
        }
        let answer = if self.on_terminal { read(question, default.as_deref())? } else { String::new() };
        match default {
            _ if !answer.is_empty() => Ok(answer),
            Some(default) => Ok(default),
            None => bail!("{flag}: must be given: {question}"),
        }
    }

    /// Returns the given setting. Else it asks, and the answer may be empty.
    pub(super) fn optional(self, question: &str, given: Option<String>) -> anyhow::Result<Option<String>> {
        if given.is_some() || !self.on_terminal {
            return Ok(given);
        }
        Ok(Some(read(question, None)?).filter(|answer| !answer.is_empty()))
    }

    /// Asks whether to go on.
    ///
    /// # Errors
    /// The answer is no, or there is no terminal.
    pub(super) fn confirm(self, yes: bool, question: &str) -> anyhow::Result<()> {
        if yes || (self.on_terminal && matches!(read(question, Some("no"))?.as_str(), "y" | "yes")) {
            return Ok(());
        }
        bail!("nothing was changed; give --yes to confirm")
    }
}

fn read(question: &str, default: Option<&str>) -> anyhow::Result<String> {
    let mut err = std::io::stderr().lock();
    match default {
        Some(default) => write!(err, "{question} [{default}]: ")?,
        None => write!(err, "{question}: ")?,
    }
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the answer cannot be read")?;
    Ok(answer.trim().to_owned())
}
