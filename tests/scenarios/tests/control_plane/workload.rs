//! Workload cluster and etcd that the test answers for.

use std::sync::{Arc, Mutex};

use apiserver_types::Machine;
use async_trait::async_trait;
use controllers_reconcilers::kubeadm_control_plane::EtcdConnector;
use controllers_workload::etcd::{Alarm, Etcd, EtcdCredentials, Member};
use controllers_workload::{WorkloadConnector, WorkloadError};
use http::{Request, Response};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Workload cluster with Nodes `node-0` to `node-2`, whose static pods run.
#[derive(Debug)]
pub(crate) struct Workload;

#[async_trait]
impl WorkloadConnector for Workload {
    async fn client(&self, _kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        Ok(Client::new(tower::service_fn(respond), "default"))
    }
}

async fn respond(request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
    let path = request.uri().path();
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        return std::future::pending().await;
    }
    let node = |index: usize| {
        json!({"metadata": {
            "name": format!("node-{index}"), "labels": {"node-role.kubernetes.io/control-plane": ""},
        }, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let nodes: Vec<Value> = (0..3).map(node).collect();
    let name = path.rsplit('/').next().unwrap_or_default();
    let body = match path {
        "/" => json!({"paths": []}),
        "/api/v1/nodes" => {
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": nodes})
        }
        _ if path.contains("/configmaps/") => {
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
        }
        _ if path.contains("/clusterrolebindings/") => json!({
            "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        }),
        _ if path.contains("/pods/") => json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
        _ => return Ok(Response::builder().status(404).body(Body::empty()).unwrap()),
    };
    Ok(Response::new(Body::from(serde_json::to_vec(&body).unwrap())))
}

/// Etcd with the members that the test gives it. The first is the leader.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members(Arc<Mutex<Vec<Member>>>, Arc<Mutex<Departure>>);

/// Events at the time when a member leaves.
#[derive(Debug, Clone, Default)]
enum Departure {
    /// Nothing else.
    #[default]
    Quiet,
    /// Another client writes to this Machine, and etcd cannot be reached any more.
    Overtaken(Box<Api<Machine>>, String),
    /// The member has left.
    Silence,
}

impl Members {
    pub(crate) fn add(&self, name: &str) {
        let mut members = self.0.lock().unwrap();
        if !members.iter().any(|member| member.name == name) {
            let id = u64::try_from(members.len()).unwrap() + 1;
            members.push(Member { id, name: name.to_owned(), ..Member::default() });
        }
    }

    /// Lets another client write to a Machine when the next member leaves, and etcd be silent from then on.
    pub(crate) fn overtake(&self, machines: Api<Machine>, name: &str) {
        *self.1.lock().unwrap() = Departure::Overtaken(Box::new(machines), name.to_owned());
    }

    /// Lets etcd respond again.
    pub(crate) fn respond(&self) {
        *self.1.lock().unwrap() = Departure::Quiet;
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|member| member.name.clone()).collect()
    }
}

impl EtcdConnector for Members {
    fn connect(
        &self,
        _: Client,
        _: Vec<String>,
        _: &EtcdCredentials,
    ) -> Result<Arc<dyn Etcd>, WorkloadError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Etcd for Members {
    async fn members(&self) -> Result<Vec<Member>, WorkloadError> {
        if matches!(*self.1.lock().unwrap(), Departure::Silence) {
            return Err(WorkloadError::Etcd("no member answered".to_owned()));
        }
        Ok(self.0.lock().unwrap().clone())
    }

    async fn alarms(&self) -> Result<Vec<Alarm>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn leader(&self) -> Result<u64, WorkloadError> {
        Ok(self.0.lock().unwrap()[0].id)
    }

    async fn move_leader(&self, to: u64) -> Result<(), WorkloadError> {
        let mut members = self.0.lock().unwrap();
        let at = members.iter().position(|member| member.id == to).unwrap();
        members.swap(0, at);
        Ok(())
    }

    async fn add_learner(&self, peer_url: &str) -> Result<(), WorkloadError> {
        let mut members = self.0.lock().unwrap();
        let id = members.iter().map(|member| member.id).max().unwrap_or_default() + 1;
        let peer_urls = vec![peer_url.to_owned()];
        members.push(Member { id, peer_urls, is_learner: true, ..Member::default() });
        Ok(())
    }

    async fn remove_member(&self, id: u64) -> Result<(), WorkloadError> {
        {
            let mut members = self.0.lock().unwrap();
            assert_ne!(members[0].id, id, "the leader must not leave");
            members.retain(|member| member.id != id);
        }
        let departure = std::mem::take(&mut *self.1.lock().unwrap());
        if let Departure::Overtaken(machines, name) = departure {
            let change = json!({"metadata": {"annotations": {"written": "by another client"}}});
            machines.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
            *self.1.lock().unwrap() = Departure::Silence;
        }
        Ok(())
    }
}
