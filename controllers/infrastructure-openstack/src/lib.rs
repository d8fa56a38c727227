//! Provider for OpenStack: [`Cloud`](controllers_infrastructure::Cloud) over HTTP.
//!
//! `openstack_sdk` has the login methods. Calls and their responses are defined here, with the fields that we use and no
//! others, so that the SDK's generated types are not needed. No SDK type is public.
//!
//! From the outside in: `connector` keeps one session per credentials, `login` creates it, `cloud` lists
//! the calls, `compute`, `network`, `image`, `quota`, `share` and `volume` implement them, `session` sends them, and
//! `error_mapping` classifies failures. `change` is the permit and the global request id of a call. `client` adds the token
//! and renews it, `transport` is the HTTP client, `fresh_connection` and `permitted_body` look at the permit when a connection is
//! open and when a request is written, `server_certificates` has the verifiers, and `allowed_endpoints` limits the
//! connections.

mod allowed_endpoints;
mod catalog;
mod change;
mod client;
mod cloud;
mod clouds_yaml;
mod compute;
mod connector;
mod error_mapping;
mod error_text;
mod fresh_connection;
mod identity;
mod image;
mod load_balancer;
mod login;
mod login_method;
mod lookups;
mod metrics;
mod network;
mod object_store;
mod paging;
mod permitted_body;
mod quota;
mod rate_limit;
mod request;
mod server_certificates;
mod session;
mod share;
mod tags;
mod time;
mod transport;
mod trust;
mod volume;

pub use allowed_endpoints::AllowedEndpoints;
pub use connector::OpenStackConnector;
pub use metrics::CloudMetrics;
pub use object_store::ObjectStoreAccess;
