//! The provider for OpenStack: [`Cloud`](controllers_infrastructure::Cloud) over HTTP.
//!
//! `openstack_sdk` does what is hard to get right: logging in, renewing the token after a 401, the
//! service catalog, TLS. Calls and their answers are written here, with the fields we use and no
//! others, so that the SDK's generated types never reach us. No SDK type is public.
//!
//! From the outside in: `connector` keeps one session per credentials, `login` makes it, `cloud`
//! lists the calls, `compute`, `network`, `image` and `volume` word them, `session` sends them,
//! `failure` says what went wrong.

mod catalog;
mod cloud;
mod clouds_yaml;
mod compute;
mod connector;
mod error_mapping;
mod error_text;
mod image;
mod login;
mod network;
mod paging;
mod rate_limit;
mod request;
mod session;
mod time;
mod volume;

pub use connector::OpenStackConnector;
