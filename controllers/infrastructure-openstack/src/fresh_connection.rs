//! Connections for calls that change something: opening one takes time, so the permit of the call may become too old.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use controllers_infrastructure::CallPermit;
use futures::future::BoxFuture;
use tower::{Layer, Service};

tokio::task_local! {
    /// Permit of the call that is made now.
    static PERMIT: Arc<dyn CallPermit>;
}

/// Makes a call. Connections that are opened for it wait until its permit is fresh.
pub(crate) async fn with_permit<T>(permit: Option<&Arc<dyn CallPermit>>, call: impl Future<Output = T>) -> T {
    match permit {
        Some(permit) => PERMIT.scope(Arc::clone(permit), call).await,
        None => call.await,
    }
}

/// Layer of the HTTP client's connector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreshConnections;

impl<S> Layer<S> for FreshConnections {
    type Service = Connector<S>;

    fn layer(&self, inner: S) -> Connector<S> {
        Connector(inner)
    }
}

/// Connector that requests the permit again, if it has become too old before the connection was open.
#[derive(Debug, Clone)]
pub(crate) struct Connector<S>(S);

impl<S, R> Service<R> for Connector<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let (connecting, permit) = (self.0.call(target), PERMIT.try_with(Arc::clone).ok());
        Box::pin(async move {
            let connection = connecting.await?;
            if let Some(permit) = permit
                && !permit.is_fresh()
            {
                permit.granted().await;
            }
            Ok(connection)
        })
    }
}
