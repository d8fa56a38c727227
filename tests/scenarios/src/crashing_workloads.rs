//! Workload clusters during whose calls a process can crash.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use controllers_workload::{KubeconfigConnector, RequestRate, WorkloadConnector, WorkloadError};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::Service;

use crate::CrashPoint;

/// Twenty times the usual rate: the scenarios make retries and probes that much faster, too.
const RATE: RequestRate = RequestRate { qps: 400.0, burst: 600 };

/// Connector to workload clusters whose changes count as effects.
#[derive(Debug)]
pub(crate) struct CrashingWorkloads {
    pub(crate) crash_point: Arc<CrashPoint>,
}

#[async_trait]
impl WorkloadConnector for CrashingWorkloads {
    async fn client(&self, kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        let client = KubeconfigConnector { rate: RATE }.client(kubeconfig).await?;
        let calls = CrashingCalls { client, crash_point: Arc::clone(&self.crash_point) };
        Ok(Client::new(calls, "default"))
    }
}

/// Calls whose writes count as effects. A forwarded port counts, too: etcd is changed through one.
#[derive(Clone)]
struct CrashingCalls {
    client: Client,
    crash_point: Arc<CrashPoint>,
}

impl Service<Request<Body>> for CrashingCalls {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, crash_point } = self.clone();
        Box::pin(async move {
            let path = request.uri().path();
            if request.method() == Method::GET && !path.ends_with("/portforward") {
                crash_point.alive().await;
                return client.send(request).await;
            }
            let effect = format!("workload {} {path}", request.method());
            crash_point.perform(effect, async move { client.send(request).await }).await
        })
    }
}
