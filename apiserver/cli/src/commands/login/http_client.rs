//! HTTP client of a login.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, Client, redirect};

use super::file_failure;
use crate::error::{ExitCode, Failure};

/// Time limit of a request: a person waits for it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Creates a client that trusts the CAs of a file, in PEM. Without one, it trusts those of the system.
pub(super) fn http_client(ca: Option<&Path>) -> Result<Client, Failure> {
    // A redirect would show the password to another server.
    let mut builder = Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none());
    if let Some(path) = ca {
        let pem = std::fs::read(path).map_err(|error| file_failure("read", path, &error))?;
        let found = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
        let found = found.ok_or_else(|| {
            Failure::new(ExitCode::Failed, format!("{}: holds no certificate in PEM", path.display()))
        })?;
        builder = builder.tls_certs_only(found);
    }
    builder.build().map_err(|error| {
        Failure::new(ExitCode::Failed, "cannot create an HTTP client")
            .detail("cause", crate::error::chain(&error))
    })
}
