//! Setup of one machine: everything that a boot document contains. All content is resolved.

use std::fmt::{Debug, Formatter};

use apiserver_types::{BootstrapUser, FileEncoding, KubeadmConfigSpec};

/// Path of the file that tells the infrastructure provider that kubeadm succeeded. Part of Cluster API's contract.
pub(crate) const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";

/// Owner of all files of kubeadm.
pub(crate) const ROOT: &str = "root:root";

/// Command of kubeadm that makes a machine a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `kubeadm init`: the first control plane node.
    Init,
    /// `kubeadm join`: every other node.
    Join,
}

impl Command {
    /// Returns the name of the subcommand.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Join => "join",
        }
    }

    /// Returns the arguments after the configuration. `kubeadm init` prints a command with a token otherwise, and the
    /// cloud's users can read the console.
    pub(crate) const fn arguments(self) -> &'static str {
        match self {
            Self::Init => " --skip-token-print",
            Self::Join => "",
        }
    }
}

/// File of a machine. `Debug` does not print the content.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct File {
    /// Absolute path.
    pub path: String,
    /// Content, as the user gave it: encoded, if `encoding` is set.
    pub content: Vec<u8>,
    /// Encoding of the content.
    pub encoding: Option<FileEncoding>,
    /// Owner, in the form `user:group`.
    pub owner: Option<String>,
    /// Permissions in octal notation.
    pub permissions: Option<String>,
    /// Write mode: true appends to an existing file.
    pub append: Option<bool>,
}

impl Debug for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

impl File {
    /// Creates a file of root with these permissions.
    pub fn of_root(path: impl Into<String>, permissions: &str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            content: content.into(),
            owner: Some(ROOT.to_owned()),
            permissions: Some(permissions.to_owned()),
            ..Self::default()
        }
    }
}

/// Setup of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// Command of kubeadm.
    pub command: Command,
    /// Configuration file of kubeadm.
    pub kubeadm: &'a str,
    /// Files with certificates and keys, in the order of [`crate::certificates::Purpose`].
    pub certificates: &'a [File],
    /// Files of the user.
    pub files: &'a [File],
    /// Kubeconfig for discovery by a file.
    pub discovery: Option<&'a File>,
    /// Users, with their passwords.
    pub users: &'a [BootstrapUser],
    /// Name of the Machine in the report of a failed bootstrap. Without it, a failure is not reported.
    pub report: Option<&'a str>,
    /// Commands, disks, mounts, time servers and log level. Its files and users are ignored.
    pub spec: &'a KubeadmConfigSpec,
}

/// Error of a boot document that cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// A content is not in the encoding that its file names.
    #[error("file {path}: the content is not in encoding {encoding}")]
    Content {
        /// Path of the file.
        path: String,
        /// Encoding that the file names.
        encoding: &'static str,
    },
    /// A field has no form in this format.
    #[error("{0}")]
    Unsupported(String),
}
