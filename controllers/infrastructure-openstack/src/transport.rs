//! HTTP client of a session: it follows no redirects, and connects to allowed endpoints only.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use controllers_infrastructure::CallPermit;
use http::Response;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Body, Client, Url, redirect};

use crate::allowed_endpoints::AllowedEndpoints;
use crate::error_mapping::root_cause;
use crate::fresh_connection::{FreshConnections, with_permit};
use crate::permitted_body::PermittedBody;
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
    /// The permit had become too old when the request could be written. Nothing was sent.
    TooLate,
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

impl SendError {
    /// Returns true if the cloud has not begun the request, so that it can be sent again whatever it changes.
    pub(crate) fn is_unsent(&self) -> bool {
        match self {
            Self::TooLate => true,
            Self::Http(error) => is_not_begun(error),
            Self::NotAllowed(_) | Self::Invalid(_) => false,
        }
    }
}

/// Returns true if a server of HTTP/2 says that it has not begun a request: it closes the connection in order, or refuses the
/// stream. The HTTP client sends such a request again by itself, but not one with a [`PermittedBody`], which it cannot copy.
fn is_not_begun(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let closes = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            let refuses = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (closes || refuses);
        }
        cause = error.source();
    }
    false
}

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
            .connector_layer(FreshConnections)
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

    /// Sends a request, and reads the whole response. With a permit, the request is written only if that is still fresh.
    pub(crate) async fn send(
        &self,
        request: http::Request<Vec<u8>>,
        permit: Option<&Arc<dyn CallPermit>>,
    ) -> Result<Response<Bytes>, SendError> {
        let (parts, content) = request.into_parts();
        let (body, refused) = match permit {
            None => (Body::from(content), None),
            Some(permit) => {
                let (body, refused) = PermittedBody::new(Arc::clone(permit), content);
                (Body::wrap(body), Some(refused))
            }
        };
        let request = reqwest::Request::try_from(http::Request::from_parts(parts, body));
        let request = request.map_err(|error| SendError::Invalid(root_cause(&error)))?;
        self.allowed.check(request.url()).map_err(SendError::NotAllowed)?;
        let answer = match with_permit(permit, self.http.execute(request)).await {
            Err(_) if refused.as_ref().is_some_and(|refused| refused.load(Ordering::Acquire)) => {
                return Err(SendError::TooLate);
            }
            answer => answer?,
        };
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
    use controllers_infrastructure::AlwaysPermitted;
    use tokio_rustls::TlsAcceptor;

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
        let error = transport(AllowedEndpoints::default()).send(get(&url), None).await.unwrap_err();
        let SendError::NotAllowed(text) = &error else { panic!("{error:?}") };
        assert!(text.contains(r#"an address of "localhost", is a loopback address"#), "{text}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a connection was made");
    }

    #[tokio::test]
    async fn an_address_is_refused_without_a_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let error = transport(AllowedEndpoints::default()).send(get(&url), None).await.unwrap_err();
        assert!(matches!(error, SendError::NotAllowed(_)), "{error:?}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a connection was made");
    }

    /// Returns a server with a certificate that is its own authority, and the certificate in PEM.
    fn http2() -> (TlsAcceptor, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
    }

    /// Serves one connection. Refuses the first request.
    async fn serve(listener: tokio::net::TcpListener, tls: TlsAcceptor) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(tls.accept(stream).await.unwrap()).await.unwrap();
        let mut requests = 0;
        while let Some(request) = connection.accept().await {
            let (_, mut respond) = request.unwrap();
            requests += 1;
            if requests == 1 {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
            } else {
                let answer = Response::builder().status(202).body(()).unwrap();
                respond.send_response(answer, true).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn hv_03_a_change_that_a_server_has_refused_before_it_began_can_be_sent_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, (tls, pem)) = (format!("https://{}/", listener.local_addr().unwrap()), http2());
        let allowed = Arc::new(AllowedEndpoints::with_loopback());
        let transport = Transport::new(allowed, Some(&pem), true).unwrap();
        let permit: Arc<dyn CallPermit> = Arc::new(AlwaysPermitted);
        let send = || transport.send(http::Request::post(&url).body(b"{}".to_vec()).unwrap(), Some(&permit));
        let calls = async {
            let refused = send().await.unwrap_err();
            assert!(refused.is_unsent() && matches!(refused, SendError::Http(_)), "{refused:?}");
            assert_eq!(send().await.unwrap().status(), 202);
        };
        tokio::select! {
            () = calls => {}
            () = serve(listener, tls) => panic!("the connection has ended"),
        }
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
