//! Interface between the controllers and an OpenStack cloud, in types that do not depend on a client library.
//!
//! [`Cloud`] is one authenticated project in one region, with the calls of one trait per service. A provider implements
//! it; the reconcilers use nothing else. No SDK type crosses this crate.

mod call_scope;
mod cloud;
mod credentials;
mod error;
mod permit;
mod resources;
mod stable_text;
#[cfg(feature = "suite")]
pub mod suite;

pub use call_scope::{CallScope, OpenCall};
pub use cloud::{
    Cloud, CloudConnector, ComputeService, Connection, IdentityService, ImageService, LoadBalancerService,
    NetworkService, StorageService,
};
pub use credentials::Credentials;
pub use error::{CloudError, CloudResult, ErrorClass, FailedStep, OPENSTACK_ERROR};
pub use permit::{AlwaysPermitted, CallPermit};
pub use resources::*;
pub use stable_text::without_present_time;
