//! What is known of a connection, once, for all its requests.

use std::sync::Arc;

use apiserver_access::{PeerIdentity, User};

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// What its client certificate proves, if it showed one that somebody vouches for.
    pub peer: Option<Arc<PeerIdentity>>,
    /// A caller inside this process, whose identity needs no proof: no network can set this.
    pub internal: Option<Arc<User>>,
}
