//! Arguments of `capstan keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create the keys of a new installation as files, and keep those that exist
    ///
    /// The files are the CA (pki/ca.crt, pki/ca.key) and the key that encrypts Secrets (encryption.yaml).
    /// manifests/keys makes Secrets of them for all replicas. The directory also serves as --data-dir of
    /// `capstan kubeconfig` and `capstan host manifests`.
    ///
    /// With --etcd the command also creates a CA of its own for etcd, and signs a certificate for the
    /// members of manifests/overlays/ha-etcd and one for Capstan. They are valid for ten years. To
    /// replace one, delete its files and run the command again.
    ///
    /// Example: capstan keys create --output manifests/keys --etcd
    #[command(verbatim_doc_comment)]
    Create(KeysCreateArguments),
}

#[derive(Debug, Args)]
pub(crate) struct KeysCreateArguments {
    /// Directory for the files
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: PathBuf,
    /// Create the certificates of an etcd, too
    #[arg(long)]
    pub(crate) etcd: bool,
    /// Namespace of the etcd, which is in the names of its members
    #[arg(long, default_value = "capstan-system")]
    pub(crate) namespace: String,
}
