//! Arguments of `capstan audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StoreArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find changed, missing and inserted lines in files of the audit log
    ///
    /// Each line needs a link to the line before it: set audit.chain.enabled in the configuration of the server. The command
    /// prints the file and the number of each line that does not follow the one before it. Lines that are missing at the end
    /// are found by the checkpoints in the store. Give the files as the server wrote them, without those of other replicas.
    ///
    /// With etcd, the command works while servers run. The embedded store can be open only once: stop the server, or give
    /// --without-checkpoints.
    ///
    /// The exit code is 1 if a line was changed, removed or inserted.
    ///
    /// Example: capstan audit verify --config /etc/capstan/config.yaml /var/lib/capstan/audit/audit*.log
    #[command(verbatim_doc_comment)]
    Verify(AuditVerifyArguments),
    /// Create an audit key in a new file
    ///
    /// Without audit.chain.keyFile in its configuration, the server creates audit.key in its data directory by itself.
    ///
    /// Example: capstan audit key /etc/capstan/audit.key
    #[command(verbatim_doc_comment)]
    Key(AuditKeyArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArguments {
    /// Files of the audit log of one replica, the oldest first
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File with the audit key [default: audit.chain.keyFile in --config, else audit.key in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Replica whose checkpoints to compare, as below /capstan/audit/ in the store; can be repeated [default: the one with
    /// this key]
    #[arg(long, value_name = "NAME")]
    pub(crate) replica: Vec<String>,
    /// Do not read the store. Lines that are missing at the end are then not found
    #[arg(long, conflicts_with = "replica")]
    pub(crate) without_checkpoints: bool,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AuditKeyArguments {
    /// File to create; only its owner can read it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
