//! Client of one user: it sends requests with a token, and logs in again if the token has ended.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use controllers_infrastructure::CallPermit;
use http::{Response, StatusCode};
use openstack_sdk::auth::authtoken::AuthToken;
use tokio::sync::Mutex;

use crate::login_method::LoginRequest;
use crate::transport::{SendError, Transport};

/// Client with a token.
pub(crate) struct Client {
    transport: Transport,
    token: RwLock<Arc<AuthToken>>,
    /// Login for a new token; `None`: the session ends with its token.
    again: Option<LoginRequest>,
    /// Held during a login: the calls that failed at the same time wait for it.
    renewal: Mutex<()>,
}

impl Client {
    pub(crate) fn new(transport: Transport, token: AuthToken, again: Option<LoginRequest>) -> Self {
        Self { transport, token: RwLock::new(Arc::new(token)), again, renewal: Mutex::default() }
    }

    /// Returns the present token.
    pub(crate) fn token(&self) -> Arc<AuthToken> {
        Arc::clone(&self.token.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request, and once more with a new token, if the cloud refuses the present one. With a permit, neither is
    /// sent when that has become too old.
    pub(crate) async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
        permit: Option<&Arc<dyn CallPermit>>,
    ) -> Result<Response<Bytes>, SendError> {
        let request = request.body(body).map_err(|error| SendError::Invalid(error.to_string()))?;
        let token = self.token();
        let answer = self.send_with(&token, request.clone(), permit).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        match self.renewed(&token).await {
            // The login took time. With HTTP/2, the headers would be written before the body can refuse.
            Some(_) if permit.is_some_and(|permit| !permit.is_fresh()) => Err(SendError::TooLate),
            Some(token) => self.send_with(&token, request, permit).await,
            None => Ok(answer),
        }
    }

    async fn send_with(
        &self,
        token: &AuthToken,
        mut request: http::Request<Vec<u8>>,
        permit: Option<&Arc<dyn CallPermit>>,
    ) -> Result<Response<Bytes>, SendError> {
        let set = token.set_header(request.headers_mut());
        set.map_err(|_| SendError::Invalid("the token of Keystone cannot be a header".to_owned()))?;
        self.transport.send(request, permit).await
    }

    /// Returns a newer token than the refused one. `None`: there is none, and the refusal stands.
    async fn renewed(&self, refused: &Arc<AuthToken>) -> Option<Arc<AuthToken>> {
        let login = self.again.as_ref()?;
        let _renewal = self.renewal.lock().await;
        let present = self.token();
        if !Arc::ptr_eq(&present, refused) {
            return Some(present);
        }
        match login.send(&self.transport).await {
            Ok(token) => {
                let token = Arc::new(token);
                *self.token.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&token);
                Some(token)
            }
            Err(error) => {
                tracing::debug!(%error, "no new token");
                None
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("again", &self.again).finish_non_exhaustive()
    }
}
