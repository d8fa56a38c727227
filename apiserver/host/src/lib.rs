//! All that is exchanged with a host cluster: what it applies to serve us ([`manifests()`]), what
//! it tells us about its front proxy ([`front_proxy()`]), whom it lets do what ([`HostAuthorizer`]),
//! and which namespaces it has ([`HostNamespaces`]).

mod authorizer;
mod connection;
mod front_proxy;
mod manifests;
mod namespaces;

pub use authorizer::HostAuthorizer;
pub use connection::{ConnectError, connect};
pub use front_proxy::{FrontProxy, FrontProxyError, front_proxy};
pub use manifests::{Options, manifests};
pub use namespaces::HostNamespaces;
