//! The controllers as the server runs them, with their watches.

use std::sync::Arc;

use apiserver_access::User;
use apiserver_http::InProcess;
use controllers_infrastructure_openstack::OpenStackConnector;
use controllers_reconcilers::{cluster, machine, openstack_cluster, openstack_machine};
use controllers_runtime::{ApiSecrets, ControllerContext, Queues, Recorder, ServerLists};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::World;

/// Runs the controllers of clusters and machines until `term`.
pub fn run(world: &World, term: &CancellationToken) -> JoinSet<()> {
    let connector = Arc::new(OpenStackConnector::new());
    let servers = Arc::new(ServerLists::default());
    let context = |name: &'static str| {
        let groups = ["system:capstan:controllers".to_owned()];
        let user = User::authenticated(format!("system:capstan:{name}"), groups);
        let client = Client::new(InProcess::new(Arc::clone(&world.server), user), "default");
        ControllerContext {
            connector: connector.clone(),
            secrets: Arc::new(ApiSecrets(client.clone())),
            servers: Arc::clone(&servers),
            events: Recorder::new(client.clone(), name),
            queues: Queues::default(),
            client,
        }
    };
    let mut running = JoinSet::new();
    running.spawn(cluster::run(context("cluster-controller"), term.clone()));
    running.spawn(machine::run(context("machine-controller"), term.clone()));
    running.spawn(openstack_cluster::run(context("openstackcluster-controller"), term.clone()));
    running.spawn(openstack_machine::run(context("openstackmachine-controller"), term.clone()));
    running
}
