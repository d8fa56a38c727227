//! Arguments of the commands `completion` and `manual`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// Directory for the pages, one for each command
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: PathBuf,
}
