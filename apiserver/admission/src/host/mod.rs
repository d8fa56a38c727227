//! Host cluster as a source of configurations: those that apply, and what a write needs to know about the host.

mod cluster;
mod division;

use apiserver_machinery::status::ApiError;
use serde_json::json;

pub use cluster::{HostCluster, HostContact, HostService};
pub use division::HostConfigurations;

/// Interval after which a client repeats a write that an outage of the host refuses: outages last. Unit: seconds.
const RETRY: u64 = 30;

/// Returns the refusal of a write about which the host cluster must decide, and cannot.
pub(crate) fn silent(message: String) -> ApiError {
    let mut error = ApiError::unavailable(message);
    error.details["retryAfterSeconds"] = json!(RETRY);
    error
}
