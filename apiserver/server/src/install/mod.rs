//! Installation without a host cluster: `capstan init` on the first node, `capstan join` on the others, `capstan leave` and
//! `capstan reset` to undo that.

mod ask;
mod balancers;
mod init;
mod installation;
mod join;
mod keys;
mod layout;
mod leave;
mod recovery;
mod rendered;
mod services;
mod settings;
mod static_pods;
mod steps;
#[cfg(test)]
mod tests;
mod tokens;

use std::future::Future;

pub(crate) use balancers::Balancer;
pub(crate) use init::init;
pub(crate) use installation::{Installation, StoreKind, is_node_name, peer_url};
pub(crate) use join::join;
pub(crate) use layout::Layout;
pub(crate) use leave::{leave, reset};
pub(crate) use recovery::parse as parse_recovery_key;
pub(crate) use tokens::create_token;

/// Runs the part of a command that waits for other programs.
fn run_async<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
