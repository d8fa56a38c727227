//! Runner of the measured paths.

use anyhow::Context;
use apiserver_http::ResponseBody;
use bench_kinds::BenchKind;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};

use crate::paths::RequestPath;
use crate::server::InProcessServer;

/// Number of repetitions while a path is counted: so rare work has its share, too.
pub(crate) const REPETITIONS: usize = 40;

/// Number of objects in the namespace that is listed.
const LISTED_OBJECTS: usize = 200;

/// Page size of lists: a longer list is encoded on another thread, whose instructions are not counted.
const PAGE: usize = 50;

/// Number of watches while an object is changed.
const WATCHERS: usize = 20;

/// Namespace in which objects are created and changed.
const CHANGED_NAMESPACE: &str = "changed";

/// Namespace in which objects are listed.
const LISTED_NAMESPACE: &str = "shown";

const JSON: &str = "application/json";

/// Server with the objects created so far.
#[derive(Debug)]
pub(crate) struct PathRunner {
    runtime: Runtime,
    server: InProcessServer,
    /// Names of the objects, and their revisions in the last responses.
    objects: Vec<(String, String)>,
    watches: Vec<ResponseBody>,
    iteration: u64,
}

impl PathRunner {
    /// Starts a server with objects to list. All of it except the store's own thread runs on one thread, so
    /// that the order of events is nearly the same in each run.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let server = runtime.block_on(async {
            let server = InProcessServer::start().await?;
            for namespace in [CHANGED_NAMESPACE, LISTED_NAMESPACE] {
                let body =
                    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                let body = Bytes::from(body.to_string());
                server.send(Method::POST, "/api/v1/namespaces", ("content-type", JSON), body).await?;
            }
            for number in 0..LISTED_OBJECTS {
                let name = format!("m-{number}");
                create(&server, LISTED_NAMESPACE, &name).await?;
            }
            anyhow::Ok(server)
        })?;
        Ok(Self { runtime, server, objects: Vec::new(), watches: Vec::new(), iteration: 0 })
    }

    /// Runs a path with the number of repetitions that is counted.
    pub(crate) fn repeat(&mut self, path: RequestPath) -> anyhow::Result<()> {
        for _ in 0..REPETITIONS {
            self.once(path)?;
        }
        Ok(())
    }

    /// Runs a path once.
    pub(crate) fn once(&mut self, path: RequestPath) -> anyhow::Result<()> {
        self.iteration += 1;
        let Self { runtime, server, objects, watches, iteration } = self;
        if path == RequestPath::Create {
            let name = format!("m-{iteration}");
            let revision = runtime.block_on(create(server, CHANGED_NAMESPACE, &name))?;
            objects.push((name, revision));
            return Ok(());
        }
        if path == RequestPath::Delete {
            let (name, _) = objects.pop().context("there is nothing to delete")?;
            let path = object(&name);
            return runtime
                .block_on(server.send(Method::DELETE, &path, ("accept", JSON), Bytes::new()))
                .map(|_| ());
        }
        let index = usize::try_from(*iteration)? % objects.len().max(1);
        let (name, revision) = objects.get_mut(index).context("there are no objects")?;
        runtime.block_on(async {
            match path {
                RequestPath::Status | RequestPath::Patch | RequestPath::Apply => {
                    write(server, path, (name, revision), *iteration).await
                }
                RequestPath::Watch => watch(server, watches, (name, revision), *iteration).await,
                _ => read(server, path, name).await,
            }
        })
    }
}

fn object(name: &str) -> String {
    format!("{}/{name}", BenchKind::Machine.collection(CHANGED_NAMESPACE))
}

/// Creates an object, and returns its revision.
async fn create(server: &InProcessServer, namespace: &str, name: &str) -> anyhow::Result<String> {
    let body = BenchKind::Machine.object(namespace, name);
    let collection = BenchKind::Machine.collection(namespace);
    let response = server.send(Method::POST, &collection, ("content-type", JSON), body).await?;
    let revision = revision(&response)?;
    server.wait_for(namespace, name, revision.parse()?).await?;
    Ok(revision)
}

async fn write(
    server: &InProcessServer,
    path: RequestPath,
    (name, last): (&str, &mut String),
    iteration: u64,
) -> anyhow::Result<()> {
    let kind = BenchKind::Machine;
    let (method, path, form, body) = match path {
        RequestPath::Status => {
            let body = kind.with_status(CHANGED_NAMESPACE, name, last, iteration);
            (Method::PUT, kind.status(CHANGED_NAMESPACE, name), JSON, body)
        }
        RequestPath::Apply => {
            let path = format!("{}?fieldManager=delivery&force=true", object(name));
            (
                Method::PATCH,
                path,
                "application/apply-patch+yaml",
                kind.configuration(CHANGED_NAMESPACE, name, iteration),
            )
        }
        _ => (Method::PATCH, object(name), "application/merge-patch+json", BenchKind::patch(iteration)),
    };
    let response = server.send(method, &path, ("content-type", form), body).await?;
    *last = revision(&response)?;
    server.wait_for(CHANGED_NAMESPACE, name, last.parse()?).await
}

/// Changes an object, and reads one event of each watch. The first call opens the watches.
async fn watch(
    server: &InProcessServer,
    watches: &mut Vec<ResponseBody>,
    (name, last): (&str, &mut String),
    iteration: u64,
) -> anyhow::Result<()> {
    while watches.len() < WATCHERS {
        let path =
            format!("{}?watch=true&resourceVersion={last}", BenchKind::Machine.collection(CHANGED_NAMESPACE));
        let response = server.open(Method::GET, &path, ("accept", JSON), Bytes::new()).await?;
        watches.push(response.into_body());
    }
    write(server, RequestPath::Patch, (name, last), iteration).await?;
    for body in watches {
        let frame = body.frame().await.context("a watch has ended")??;
        anyhow::ensure!(frame.is_data(), "a watch ends with trailers");
    }
    Ok(())
}

async fn read(server: &InProcessServer, path: RequestPath, name: &str) -> anyhow::Result<()> {
    let all = format!("{}?limit={PAGE}", BenchKind::Machine.collection(LISTED_NAMESPACE));
    let (path, accept) = match path {
        RequestPath::Get => (object(name), JSON),
        RequestPath::Metadata => (all, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        RequestPath::Table => (all, "application/json;as=Table;g=meta.k8s.io;v=v1"),
        _ => (all, JSON),
    };
    server.send(Method::GET, &path, ("accept", accept), Bytes::new()).await.map(|_| ())
}

/// Returns the revision of the object in a response.
fn revision(response: &[u8]) -> anyhow::Result<String> {
    // The response is not decoded, because the decoder's instructions would be counted. The first match is
    // the object's own revision.
    let field = b"\"resourceVersion\":\"";
    let at = response.windows(field.len()).position(|window| window == field);
    let rest =
        at.and_then(|at| response.get(at + field.len()..)).context("a response without resourceVersion")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte));
    Ok(digits.collect())
}
