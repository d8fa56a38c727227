//! What the controllers ask of an OpenStack cloud, in words of our own.
//!
//! [`Cloud`] is one authenticated project in one region. A provider implements it; the
//! reconcilers know nothing else. No SDK type crosses this crate.

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
