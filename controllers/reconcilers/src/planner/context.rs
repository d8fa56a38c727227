//! Context of a plan: it reads, and writes nothing. It connects to clouds that refuse changes and to workload clusters, or
//! to none.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use controllers_infrastructure::{
    Cloud, CloudConnector, CloudError, CloudResult, Connection, Credentials, ErrorClass,
};
use controllers_runtime::{
    ApiSecrets, ControllerContext, NoEventHolds, Queues, Recorder, SecretSource, ServedKind, ServerLists,
    TermStart,
};
use controllers_workload::{WorkloadClusters, WorkloadConnector, WorkloadError};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::IDENTITY;
use crate::templates;

/// Refusal of a connection.
const NO_CONNECTION: &str = "this process makes no such connection for a plan";

/// Returns the context of a plan. `client` has the identity [`IDENTITY`], and `kinds` are all that the API serves.
///
/// Writes are refused unless they are dry runs. Without [`with_clouds`], so are connections to clouds, and reads of Secrets,
/// which may be those of a host cluster. Without [`with_workloads`], so are connections to workload clusters.
pub fn context(client: Client, kinds: Arc<[ServedKind]>) -> ControllerContext {
    let client = without_writes(client);
    ControllerContext {
        connector: Arc::new(NoCloud),
        secrets: Arc::new(ApiSecrets(without_requests())),
        servers: Arc::new(ServerLists::default()),
        workloads: Arc::new(WorkloadClusters::new(Arc::new(NoWorkloads))),
        events: Recorder::new(client.clone(), IDENTITY),
        event_holds: Arc::new(NoEventHolds),
        queues: Queues::default(),
        kinds,
        settings: Arc::default(),
        term: TermStart::default(),
        client,
    }
}

/// Returns the same context with the clouds of this connector, for the forecasts of quotas. `secrets` is the source of
/// their credentials. The clouds refuse changes, and a new context reads all anew.
#[must_use]
pub fn with_clouds(
    context: ControllerContext,
    connector: Arc<dyn CloudConnector>,
    secrets: Arc<dyn SecretSource>,
) -> ControllerContext {
    let servers = Arc::clone(&context.servers);
    ControllerContext { connector: Arc::new(ReadingConnector { connector, servers }), secrets, ..context }
}

/// Returns the same context with the workload clusters of this connector, for the budgets that drains meet. Their
/// kubeconfigs are in the Secrets of the context. No connection outlives the plan.
#[must_use]
pub fn with_workloads(
    context: ControllerContext,
    connector: Arc<dyn WorkloadConnector>,
) -> ControllerContext {
    ControllerContext { workloads: Arc::new(WorkloadClusters::new(connector)), ..context }
}

/// Returns a context in which these objects exist, whatever is stored. Reads of a single object see them, lists do not.
pub(super) fn with_objects<'a>(
    context: &ControllerContext,
    objects: impl IntoIterator<Item = &'a Value>,
) -> ControllerContext {
    let path = |object: &Value| path(context, object);
    let known = objects.into_iter().filter_map(|object| Some((path(object)?, object.to_string())));
    let known: Arc<BTreeMap<String, String>> = Arc::new(known.collect());
    let client = context.client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let found = known.get(request.uri().path()).filter(|_| request.method() == Method::GET).cloned();
        async move {
            match found {
                Some(object) => Ok(response(StatusCode::OK, object)),
                None => client.send(request).await,
            }
        }
    });
    ControllerContext { client: Client::new(service, "default"), ..context.clone() }
}

/// Returns the path of an object in the stored version of its kind.
fn path(context: &ControllerContext, object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (group, _) = text("/apiVersion")?.split_once('/')?;
    let resource = templates::resource(context, group, text("/kind")?)?;
    let (namespace, name) = (text("/metadata/namespace")?, text("/metadata/name")?);
    Some(format!("/apis/{}/namespaces/{namespace}/{}/{name}", resource.api_version, resource.plural))
}

/// Returns a client that passes on reads and dry runs alone.
fn without_writes(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            match writes_nothing(&request) {
                true => client.send(request).await,
                false => Ok(refusal("a plan writes nothing")),
            }
        }
    });
    Client::new(service, "default")
}

/// Returns a client that passes on nothing.
fn without_requests() -> Client {
    let service =
        tower::service_fn(|_: Request<Body>| async { Ok::<_, kube::Error>(refusal(NO_CONNECTION)) });
    Client::new(service, "default")
}

fn writes_nothing(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET || query.split('&').any(|pair| pair == "dryRun=All")
}

fn refusal(message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": message,
    });
    response(StatusCode::FORBIDDEN, status.to_string())
}

fn response(code: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body.into_bytes()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Connector to no cloud.
#[derive(Debug)]
struct NoCloud;

#[async_trait]
impl CloudConnector for NoCloud {
    async fn connect(&self, _: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        Err(CloudError::new(ErrorClass::Forbidden, "connect", NO_CONNECTION))
    }
}

/// Connector to clouds that refuse changes.
#[derive(Debug)]
struct ReadingConnector {
    connector: Arc<dyn CloudConnector>,
    servers: Arc<ServerLists>,
}

#[async_trait]
impl CloudConnector for ReadingConnector {
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        Ok(self.servers.at_rest(&self.connector.connect(credentials).await?))
    }

    async fn connect_from(&self, source: &str, credentials: &Credentials) -> CloudResult<Connection> {
        let Connection { cloud, refused } = self.connector.connect_from(source, credentials).await?;
        Ok(Connection { cloud: self.servers.at_rest(&cloud), refused })
    }
}

/// Connector to no workload cluster.
#[derive(Debug)]
struct NoWorkloads;

#[async_trait]
impl WorkloadConnector for NoWorkloads {
    async fn client(&self, _: &[u8]) -> Result<Client, WorkloadError> {
        Err(WorkloadError::NotConnected(NO_CONNECTION.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Cluster, ClusterSpec};
    use kube::Api;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};

    use super::*;

    /// Returns a client of an API that has a Cluster of any name, with the method and the query as annotations.
    fn echo() -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let annotations = json!({"method": request.method().as_str(), "query": query});
            let mut cluster = json!(Cluster::new("stored", ClusterSpec::default()));
            cluster["metadata"]["annotations"] = annotations;
            Ok::<_, kube::Error>(response(StatusCode::OK, cluster.to_string()))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_plan_reads_and_makes_dry_runs_and_all_else_is_refused() {
        let context = context(echo(), Arc::default());
        let api: Api<Cluster> = Api::namespaced(context.client.clone(), "team");
        api.get("c").await.unwrap();
        let dry = PatchParams { dry_run: true, ..PatchParams::apply("m") };
        let patch = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": {}});
        api.patch("c", &dry, &Patch::Apply(&patch)).await.unwrap();
        let cluster = Cluster::new("c", ClusterSpec::default());
        let refused = [
            api.patch("c", &PatchParams::apply("m"), &Patch::Apply(&patch)).await.unwrap_err(),
            api.create(&PostParams::default(), &cluster).await.unwrap_err(),
            api.delete("c", &DeleteParams::default()).await.unwrap_err(),
        ];
        for error in refused {
            assert!(error.to_string().contains("a plan writes nothing"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_plan_connects_to_no_cloud_and_to_no_workload_cluster_by_itself() {
        let credentials = Credentials {
            clouds_yaml: String::new(),
            cloud_name: "prod".to_owned(),
            ca_certificate: None,
            region: None,
            identity: None,
        };
        let error = NoCloud.connect(&credentials).await.unwrap_err();
        assert!(error.to_string().contains(NO_CONNECTION), "{error}");
        let error = NoWorkloads.client(b"kubeconfig").await.err().unwrap();
        assert!(error.to_string().contains(NO_CONNECTION), "{error}");
        let error = context(echo(), Arc::default()).secrets.secret("team", "openrc").await.unwrap_err();
        assert!(error.to_string().contains(NO_CONNECTION), "{error}");
    }

    #[tokio::test]
    async fn planned_objects_exist_for_the_reads_of_a_plan() {
        let resource = kube::api::ApiResource::erase::<Cluster>(&());
        let kinds = vec![ServedKind { versions: vec![resource.version.clone()], resource, namespaced: true }];
        let context = context(echo(), kinds.into());
        let mut planned = json!(Cluster::new("planned", ClusterSpec::default()));
        planned["metadata"]["namespace"] = json!("team");
        let api: Api<Cluster> = Api::namespaced(with_objects(&context, [&planned]).client, "team");
        assert_eq!(api.get("planned").await.unwrap().metadata.name.as_deref(), Some("planned"));
        assert_eq!(api.get("other").await.unwrap().metadata.name.as_deref(), Some("stored"));
    }
}
