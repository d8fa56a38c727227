//! What no server can exceed: the stores' own writes, and bytes from memory for reads.

pub(crate) mod embedded;
pub(crate) mod etcd;
pub(crate) mod floor;
