//! Planner of rollouts that reads the world's own API.

use std::sync::{Arc, Weak};

use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use apiserver_registry::{PlanFailure, PlanLimits, Planner};
use async_trait::async_trait;
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use controllers_reconcilers::planner::{self, Limits, PlanError};
use controllers_runtime::ApiSecrets;
use controllers_workload::KubeconfigConnector;
use kube::Client;
use serde_json::Value;

/// Planner of a world.
#[derive(Debug)]
pub(crate) struct OwnPlanner(Weak<ApiServer>, Arc<dyn CloudConnector>);

impl OwnPlanner {
    /// Creates the planner of a server.
    pub(crate) fn new(server: &Arc<ApiServer>) -> Self {
        let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
        Self(Arc::downgrade(server), Arc::new(connector))
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
        let ending = || PlanFailure::Unavailable("the server is ending".to_owned());
        let server = self.0.upgrade().ok_or_else(ending)?;
        let own = InProcess::new(Arc::clone(&server), User::controller(planner::IDENTITY));
        let context = planner::context(Client::new(own, "default"), crate::running::kinds(&server));
        let secrets = Arc::new(ApiSecrets(context.client.clone()));
        let context = planner::with_clouds(context, Arc::clone(&self.1), secrets);
        let context = planner::with_workloads(context, Arc::new(KubeconfigConnector::default()));
        let limits = Limits { clouds: limits.clouds, workloads: limits.workloads };
        planner::plan(&context, kind, changed, stored, limits).await.map_err(|error| match error {
            PlanError::Invalid(field, message) => PlanFailure::Invalid(field, message),
            PlanError::Unavailable(message) => PlanFailure::Unavailable(message),
        })
    }
}
