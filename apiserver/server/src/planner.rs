//! Planner of rollouts: the decisions of the controllers, for the verb `plan`. Every replica has it.

use std::fmt;
use std::sync::{Arc, Weak};

use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use apiserver_registry::{PlanFailure, PlanLimits, Planner};
use async_trait::async_trait;
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::OpenStackConnector;
use controllers_reconcilers::planner::{self, Limits, PlanError};
use controllers_runtime::{ApiSecrets, ControllerContext, SecretSource};
use controllers_workload::{KubeconfigConnector, RequestRate};
use kube::Client;
use serde_json::Value;

use crate::controllers::{self, CloudParts};
use crate::host::Host;

/// Planner that reads this process's own API.
pub(crate) struct OwnPlanner {
    /// Not owned: the server owns the planner.
    server: Weak<ApiServer>,
    /// Clouds and workload clusters that a plan reads; `None` in a process without controllers.
    clouds: Option<PlannedClouds>,
}

impl fmt::Debug for OwnPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnPlanner").finish_non_exhaustive()
    }
}

/// Clouds whose quotas a plan reads, and workload clusters whose budgets it reads. The connections are not those of the
/// controllers, which end with a term. Those to workload clusters end with the plan.
pub(crate) struct PlannedClouds {
    connector: Arc<dyn CloudConnector>,
    host: Option<Arc<Host>>,
    rate: RequestRate,
}

impl PlannedClouds {
    /// Creates the connections. None is open before the first plan. `rate`: that of the requests of one plan to a workload
    /// cluster.
    pub(crate) fn new(parts: &CloudParts, host: Option<Arc<Host>>, rate: RequestRate) -> Self {
        let connector = OpenStackConnector::new(parts.allowed.clone()).with_metrics(parts.metrics.clone());
        Self { connector: Arc::new(connector), host, rate }
    }

    fn open(&self, context: ControllerContext) -> ControllerContext {
        let own = context.client.clone();
        let secrets: Arc<dyn SecretSource> = match &self.host {
            Some(host) => controllers::secrets_of_host(host.secrets_without_copies(own)),
            None => Arc::new(ApiSecrets(own)),
        };
        let context = planner::with_clouds(context, Arc::clone(&self.connector), secrets);
        planner::with_workloads(context, Arc::new(KubeconfigConnector { rate: self.rate }))
    }
}

impl OwnPlanner {
    /// Creates the planner of a server.
    pub(crate) fn new(server: &Arc<ApiServer>, clouds: Option<PlannedClouds>) -> Self {
        Self { server: Arc::downgrade(server), clouds }
    }
}

#[async_trait]
impl Planner for OwnPlanner {
    async fn plan(
        &self,
        kind: &str,
        changed: Value,
        stored: Value,
        limits: PlanLimits,
    ) -> Result<Value, PlanFailure> {
        let ending = || PlanFailure::Unavailable("this server is ending".to_owned());
        let server = self.server.upgrade().ok_or_else(ending)?;
        let own = InProcess::new(Arc::clone(&server), User::controller(planner::IDENTITY));
        let context = planner::context(Client::new(own, "default"), controllers::kinds(&server));
        let context = match &self.clouds {
            Some(clouds) => clouds.open(context),
            None => context,
        };
        let limits = Limits { clouds: limits.clouds, workloads: limits.workloads };
        planner::plan(&context, kind, changed, stored, limits).await.map_err(|error| match error {
            PlanError::Invalid(field, message) => PlanFailure::Invalid(field, message),
            PlanError::Unavailable(message) => PlanFailure::Unavailable(message),
        })
    }
}
