//! Many clusters of hollow nodes: their creation, their rest and their deletion, by one server.

pub(crate) mod cloud;
mod manifest;
mod measure;
mod neighbours;
mod processes;
mod timeline;
mod waits;
mod watch_cache;

pub(crate) use measure::{Arguments, run};

/// Lets `rustls` use the same cryptography as the server.
fn install_crypto() {
    // This fails only if it was done before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
