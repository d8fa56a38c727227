//! HTTP client of a session: it follows no redirects, and connects to allowed endpoints only.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url, redirect};

use crate::allowed_endpoints::AllowedEndpoints;
use crate::error_mapping::root_cause;
use crate::server_certificates;

/// Timeout of a connection: even a distant cloud connects within a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a call. In some calls Nova waits for Neutron and Cinder, by default up to 30 seconds each.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle connections that are kept for each service: as many as a busy project has calls in flight.
const IDLE_CONNECTIONS: usize = 32;

/// HTTP client.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    http: Client,
    allowed: Arc<AllowedEndpoints>,
}

/// Call without a response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The endpoint is not allowed. The text names it.
    NotAllowed(String),
    /// The request cannot be built.
    Invalid(String),
    /// There was no connection, or no complete response.
    Http(reqwest::Error),
}

/// Name without an allowed address. The text names the address.
#[derive(Debug)]
struct NotAllowed(String);

impl std::fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NotAllowed {}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        not_allowed(&error).map_or(Self::Http(error), Self::NotAllowed)
    }
}

/// Returns the text of the refusal, if an endpoint that is not allowed is the cause of an error.
pub(crate) fn not_allowed(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<NotAllowed>() {
            return Some(refusal.0.clone());
        }
        cause = error.source();
    }
    None
}

impl Transport {
    /// Creates a client. `authority`: CAs in PEM that it trusts beside those of the system. Without `verify`, it trusts all
    /// certificates.
    ///
    /// # Errors
    /// The text says why the CAs cannot be used.
    pub(crate) fn new(
        allowed: Arc<AllowedEndpoints>,
        authority: Option<&str>,
        verify: bool,
    ) -> Result<Self, String> {
        let builder = Client::builder()
            // A redirect would let the other side choose what the server reads, and to whom it shows the credentials.
            .redirect(redirect::Policy::none())
            .dns_resolver(Resolver(Arc::clone(&allowed)))
            .timeout(CALL_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS);
        let builder = match verify {
            true => builder.tls_backend_preconfigured(server_certificates::client_config(authority)?),
            false => builder.tls_danger_accept_invalid_certs(true),
        };
        let http = builder.build().map_err(|error| root_cause(&error))?;
        Ok(Self { http, allowed })
    }

    /// Returns the client, for requests whose URLs have been checked.
    pub(crate) fn http(&self) -> &Client {
        &self.http
    }

    /// Checks the URL of a request.
    ///
    /// # Errors
    /// The text names the endpoint, and why it is refused.
    pub(crate) fn check(&self, url: &str) -> Result<Url, String> {
        // The text of a URL that cannot be parsed may be a password.
        let url: Url = url.parse().map_err(|error| format!("it is no URL: {error}"))?;
        self.allowed.check(&url)?;
        Ok(url)
    }

    /// Sends a request, and reads the whole response.
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Response<Bytes>, SendError> {
        let request = reqwest::Request::try_from(request);
        let request = request.map_err(|error| SendError::Invalid(root_cause(&error)))?;
        self.allowed.check(request.url()).map_err(SendError::NotAllowed)?;
        let answer = self.http.execute(request).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut response = Response::new(answer.bytes().await?);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Resolver that keeps the allowed addresses of a name. The connection is made to an address that was checked, so a name
/// whose addresses change between the check and the connection gains nothing.
#[derive(Debug)]
struct Resolver(Arc<AllowedEndpoints>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let kept = keep_allowed(&allowed, name.as_str(), found)?;
            let addresses: Addrs = Box::new(kept.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns the allowed ones of the addresses of a name. If there is none, the error names the first.
fn keep_allowed(
    allowed: &AllowedEndpoints,
    name: &str,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, NotAllowed> {
    let mut refusal = None;
    let mut kept = Vec::with_capacity(found.len());
    for address in found {
        match allowed.check_address(address.ip(), Some(name)) {
            Ok(()) => kept.push(address),
            Err(text) => refusal = refusal.or(Some(text)),
        }
    }
    match (kept.is_empty(), refusal) {
        (true, Some(refusal)) => Err(NotAllowed(refusal)),
        _ => Ok(kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(allowed: AllowedEndpoints) -> Transport {
        Transport::new(Arc::new(allowed), None, true).unwrap()
    }

    fn get(url: &str) -> http::Request<Vec<u8>> {
        http::Request::get(url).body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn a_name_that_leads_to_loopback_is_refused_at_the_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let error = transport(AllowedEndpoints::default()).send(get(&url)).await.unwrap_err();
        let SendError::NotAllowed(text) = &error else { panic!("{error:?}") };
        assert!(text.contains(r#"an address of "localhost", is a loopback address"#), "{text}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a connection was made");
    }

    #[tokio::test]
    async fn an_address_is_refused_without_a_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let error = transport(AllowedEndpoints::default()).send(get(&url)).await.unwrap_err();
        assert!(matches!(error, SendError::NotAllowed(_)), "{error:?}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a connection was made");
    }

    #[test]
    fn of_several_addresses_the_allowed_ones_are_kept() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let of = |texts: &[&str]| keep_allowed(&AllowedEndpoints::default(), "k.example", addresses(texts));
        assert_eq!(of(&["127.0.0.1:0", "192.0.2.1:0"]).unwrap(), addresses(&["192.0.2.1:0"]));
        assert!(of(&["169.254.169.254:0", "[::1]:0"]).unwrap_err().0.starts_with("169.254.169.254, "));
        assert_eq!(of(&[]).unwrap(), addresses(&[]));
    }
}
