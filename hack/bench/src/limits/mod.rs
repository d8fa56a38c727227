//! Upper limits for any server: the stores' own writes, and reads of bytes from memory.

pub(crate) mod embedded;
pub(crate) mod etcd;
pub(crate) mod floor;

/// Kind of a write to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StoreWrite {
    /// Create if absent, as a server's create is
    Create,
    /// Update if unchanged, as a server's updates, patches and applies are
    Update,
}

impl StoreWrite {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}
