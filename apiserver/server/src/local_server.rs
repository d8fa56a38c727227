//! Client of the server of this machine, for commands with access to its data directory.

use std::path::Path;
use std::time::Duration;

use crate::config::{self, ServerConfiguration};
use crate::pki::{self, Authority};
use crate::serve;

/// Longest time of one request. A person waits for the command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lifetime of the client certificate, which is made for the moment.
const LIFETIME: Duration = Duration::from_secs(300);

/// Client of a server.
pub(crate) struct LocalServer {
    http: reqwest::Client,
    url: String,
}

impl LocalServer {
    /// Creates a client with a new certificate of this user, which the CA of the data directory signs. No request is sent
    /// yet.
    ///
    /// # Errors
    /// A CA that cannot be read, or an address in the configuration that is none.
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        data: &Path,
        user: &str,
        group: &str,
    ) -> anyhow::Result<Self> {
        let listen = configuration.listen.as_deref().unwrap_or(serve::LISTEN);
        let url = config::local_url(config::listen_address(listen)?);
        let pair = Authority::of_clients(data)?.client(user, &[group.to_owned()], None, LIFETIME)?;
        let identity = reqwest::Identity::from_pem(format!("{}{}", pair.certificate, pair.key).as_bytes())?;
        let ca = reqwest::Certificate::from_pem_bundle(pki::read(&data.join("pki/ca.crt"))?.as_bytes())?;
        let builder = reqwest::Client::builder().no_proxy().timeout(PATIENCE).identity(identity);
        // With a certificate of the operator, the address of loopback is not in it. The command runs on the same machine.
        let is_own = configuration.tls.is_none();
        let builder = builder.tls_certs_only(ca).tls_danger_accept_invalid_certs(!is_own);
        Ok(Self { http: builder.build()?, url })
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the code and the body of a response.
    ///
    /// # Errors
    /// A server that does not answer.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        answer(self.http.get(format!("{}{path}", self.url))).await
    }

    /// Sends an empty request with `POST`. Returns the code and the body of the response.
    ///
    /// # Errors
    /// A server that does not answer.
    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<(u16, String)> {
        answer(self.http.post(format!("{}{path}", self.url))).await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> anyhow::Result<(u16, String)> {
    // The client's own text leaves the causes out, and repeats the URL.
    let answer = request.send().await.map_err(|error| anyhow::Error::new(error.without_url()))?;
    Ok((answer.status().as_u16(), answer.text().await?))
}
