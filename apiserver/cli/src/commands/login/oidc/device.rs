//! Login with a short code, in a browser on any machine.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::OidcArguments;
use super::endpoints::{Endpoints, Granted};
use crate::error::{ExitCode, Failure};
use crate::output;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Time between two questions, if the issuer does not say. Unit: seconds.
const INTERVAL: u64 = 5;

/// Longest time between two questions, and longest life of a code, whatever the issuer says. Unit: seconds.
const LONGEST: u64 = 3600;

/// Time by which questions are further apart after each one that the issuer leaves undecided.
const STEP: Duration = Duration::from_secs(1);

/// Answer to the request for a code.
#[derive(Deserialize)]
struct Device {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

pub(super) async fn log_in(arguments: &OidcArguments, endpoints: &Endpoints) -> Result<Granted, Failure> {
    let url = endpoints.device()?;
    let scope = arguments.scope();
    let found = endpoints.post(url, &[("scope", &scope)]).await.map_err(|refused| refused.failure)?;
    let device: Device = serde_json::from_value(found)
        .map_err(|error| endpoints.failure(format!("the response of {url} is no device code: {error}")))?;
    let place = device.verification_uri_complete.as_ref().unwrap_or(&device.verification_uri);
    output::note(&format!("Log in with any browser at {place}\nThe code is {}\n", device.user_code));
    let end = Instant::now() + Duration::from_secs(device.expires_in.min(LONGEST));
    let mut pause = Duration::from_secs(device.interval.unwrap_or(INTERVAL).min(LONGEST));
    let fields = [("grant_type", GRANT), ("device_code", device.device_code.as_str())];
    let mut undecided = None;
    while Instant::now() < end {
        tokio::time::sleep(pause).await;
        let refused = match endpoints.token(&fields, None).await {
            Ok(granted) => return Ok(granted),
            Err(refused) => refused,
        };
        undecided = match refused.code.as_str() {
            "authorization_pending" => None,
            "slow_down" => {
                pause += Duration::from_secs(INTERVAL);
                None
            }
            // The person may be logging in at this moment, and the code stays good.
            _ if refused.is_undecided => {
                pause += STEP;
                Some(refused.failure)
            }
            _ => return Err(refused.failure),
        };
    }
    Err(undecided.unwrap_or_else(|| {
        let summary = format!("no login within {} s", device.expires_in.min(LONGEST));
        Failure::new(ExitCode::TimedOut, summary).next("run the command again")
    }))
}
