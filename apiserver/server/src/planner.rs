//! Planner of rollouts: the decisions of the controllers, for the verb `plan`. Every replica has it.

use std::sync::{Arc, Weak};

use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use apiserver_registry::{PlanFailure, Planner};
use async_trait::async_trait;
use controllers_reconcilers::planner::{self, PlanError};
use kube::Client;
use serde_json::Value;

use crate::controllers;

/// Planner that reads this process's own API.
#[derive(Debug)]
pub(crate) struct OwnPlanner {
    /// Not owned: the server owns the planner.
    server: Weak<ApiServer>,
}

impl OwnPlanner {
    /// Creates the planner of a server.
    pub(crate) fn new(server: &Arc<ApiServer>) -> Self {
        Self { server: Arc::downgrade(server) }
    }
}

#[async_trait]
impl Planner for OwnPlanner {
    async fn plan(&self, kind: &str, changed: Value, stored: Value) -> Result<Value, PlanFailure> {
        let ending = || PlanFailure::Unavailable("this server is ending".to_owned());
        let server = self.server.upgrade().ok_or_else(ending)?;
        let own = InProcess::new(Arc::clone(&server), User::controller(planner::IDENTITY));
        let context = planner::context(Client::new(own, "default"), controllers::kinds(&server));
        planner::plan(&context, kind, changed, stored).await.map_err(|error| match error {
            PlanError::Invalid(field, message) => PlanFailure::Invalid(field, message),
            PlanError::Unavailable(message) => PlanFailure::Unavailable(message),
        })
    }
}
