//! Interface of the controllers to an OpenStack cloud, in types of our own.
//!
//! [`Cloud`] is one authenticated project in one region. A provider implements it; the
//! reconcilers use nothing else. No SDK type crosses this crate.

mod cloud;
mod credentials;
mod error;
mod resources;
#[cfg(feature = "suite")]
pub mod suite;

pub use cloud::{Cloud, CloudConnector};
pub use credentials::Credentials;
pub use error::{CloudError, CloudResult, ErrorClass};
pub use resources::*;
