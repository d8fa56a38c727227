//! All that is exchanged with a host cluster: what it applies to serve us ([`manifests()`]), what
//! it tells us about its front proxy ([`front_proxy()`]), who is behind a token ([`HostTokens`]),
//! whom it lets do what ([`HostAuthorizer`]), which namespaces it has ([`HostNamespaces`]), the
//! Secrets its users made ([`HostSecrets`]), and the Events we show there ([`HostEvents`]).

mod authorizer;
mod connection;
mod crds;
mod events;
#[cfg(test)]
mod fake;
mod front_proxy;
mod manifests;
mod namespaces;
mod retry;
mod secrets;
mod tokens;
mod ttl_cache;

pub use authorizer::HostAuthorizer;
pub use connection::{ConnectError, connect, connect_to_watch};
pub use events::HostEvents;
pub use front_proxy::{FrontProxy, FrontProxyError, front_proxies, front_proxy};
pub use manifests::{Options, manifests};
pub use namespaces::HostNamespaces;
pub use secrets::HostSecrets;
pub use tokens::HostTokens;
