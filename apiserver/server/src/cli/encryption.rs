//! Arguments of `capstan encryption`.

use clap::{Args, Subcommand};

use super::StoreArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum EncryptionCommand {
    /// Print the encryption keys: in the file, in the store, in which replicas, and which one seals
    ///
    /// The command reads all values, and counts those that another key has sealed.
    ///
    /// Example: capstan encryption status --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Status(StoreArguments),
    /// Add a new key to the encryption configuration of this machine
    ///
    /// The key opens values, and seals none yet. Copy the file to all replicas then. The server reads it
    /// again while it runs. The command does not need the store.
    ///
    /// Example: capstan encryption add --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Add(StoreArguments),
    /// Make all replicas seal new values with another key
    ///
    /// The command is refused until each live replica has the key. The promoted key seals, whatever the
    /// order of keys in the files of the replicas.
    ///
    /// Example: capstan encryption promote --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Promote(EncryptionPromoteArguments),
    /// Seal all values with the promoted key
    ///
    /// The leader rewrites the values, 200 per second at most. The command prints the progress. If you
    /// interrupt it, the leader goes on. Run the command again to see the progress.
    ///
    /// Example: capstan encryption reencrypt --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Reencrypt(StoreArguments),
    /// Check that no value needs an old key, and end the rotation
    ///
    /// The command reads all values. It is refused while one of them needs another key than the promoted
    /// one. Then you can remove the old key from the files.
    ///
    /// Example: capstan encryption finish --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Finish(StoreArguments),
}

#[derive(Debug, Args)]
pub(crate) struct EncryptionPromoteArguments {
    /// Fingerprint of the key, or kms:NAME [default: the only key that has sealed no value]
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
}
