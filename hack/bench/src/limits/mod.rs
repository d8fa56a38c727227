//! What no server can exceed: etcd's own transactions for writes, and bytes from memory for reads.

pub(crate) mod etcd;
pub(crate) mod floor;
