//! Walks the paths.

use anyhow::Context;
use apiserver_http::ResponseBody;
use bench_kinds::Kind;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};

use crate::paths::Path;
use crate::server::Server;

/// How often a path is walked while it is counted: what happens now and then has its share.
pub(crate) const TIMES: usize = 40;

/// Objects in the namespace that is listed.
const LISTED: usize = 200;

/// As many of them as are listed at a time: a list of more has a thread of its own, of which nothing is counted.
const PAGE: usize = 50;

/// Those who watch while an object is changed.
const WATCHERS: usize = 20;

/// Where objects are made and changed.
const CHANGED: &str = "changed";

/// Where objects are listed.
const SHOWN: &str = "shown";

const JSON: &str = "application/json";

/// A server with what has been made in it.
#[derive(Debug)]
pub(crate) struct World {
    runtime: Runtime,
    server: Server,
    /// Names, and revisions of the last answers.
    objects: Vec<(String, String)>,
    watches: Vec<ResponseBody>,
    turn: u64,
}

impl World {
    /// A server with objects to list. Everything but the store's own thread runs on one thread, so that the order of
    /// things is nearly the same every time.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let server = runtime.block_on(async {
            let server = Server::start().await?;
            for namespace in [CHANGED, SHOWN] {
                let body =
                    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                let body = Bytes::from(body.to_string());
                server.ask(Method::POST, "/api/v1/namespaces", ("content-type", JSON), body).await?;
            }
            for number in 0..LISTED {
                let name = format!("m-{number}");
                create(&server, SHOWN, &name).await?;
            }
            anyhow::Ok(server)
        })?;
        Ok(Self { runtime, server, objects: Vec::new(), watches: Vec::new(), turn: 0 })
    }

    /// Walks a path as often as it is counted.
    pub(crate) fn walk(&mut self, path: Path) -> anyhow::Result<()> {
        for _ in 0..TIMES {
            self.once(path)?;
        }
        Ok(())
    }

    /// Walks a path once.
    pub(crate) fn once(&mut self, path: Path) -> anyhow::Result<()> {
        self.turn += 1;
        let Self { runtime, server, objects, watches, turn } = self;
        if path == Path::Create {
            let name = format!("m-{turn}");
            let revision = runtime.block_on(create(server, CHANGED, &name))?;
            objects.push((name, revision));
            return Ok(());
        }
        if path == Path::Delete {
            let (name, _) = objects.pop().context("there is nothing to delete")?;
            let path = object(&name);
            return runtime
                .block_on(server.ask(Method::DELETE, &path, ("accept", JSON), Bytes::new()))
                .map(|_| ());
        }
        let place = usize::try_from(*turn)? % objects.len().max(1);
        let (name, revision) = objects.get_mut(place).context("there are no objects")?;
        runtime.block_on(async {
            match path {
                Path::Status | Path::Patch | Path::Apply => {
                    write(server, path, (name, revision), *turn).await
                }
                Path::Watch => watch(server, watches, (name, revision), *turn).await,
                _ => read(server, path, name).await,
            }
        })
    }
}

fn object(name: &str) -> String {
    format!("{}/{name}", Kind::Machine.collection(CHANGED))
}

/// Creates an object; its revision.
async fn create(server: &Server, namespace: &str, name: &str) -> anyhow::Result<String> {
    let body = Kind::Machine.object(namespace, name);
    let collection = Kind::Machine.collection(namespace);
    let answer = server.ask(Method::POST, &collection, ("content-type", JSON), body).await?;
    let revision = revision(&answer)?;
    server.shown(namespace, name, revision.parse()?).await?;
    Ok(revision)
}

async fn write(
    server: &Server,
    path: Path,
    (name, last): (&str, &mut String),
    turn: u64,
) -> anyhow::Result<()> {
    let kind = Kind::Machine;
    let (method, path, form, body) = match path {
        Path::Status => {
            let body = kind.with_status(CHANGED, name, last, turn);
            (Method::PUT, kind.status(CHANGED, name), JSON, body)
        }
        Path::Apply => {
            let path = format!("{}?fieldManager=delivery&force=true", object(name));
            (Method::PATCH, path, "application/apply-patch+yaml", kind.configuration(CHANGED, name, turn))
        }
        _ => (Method::PATCH, object(name), "application/merge-patch+json", Kind::patch(turn)),
    };
    let answer = server.ask(method, &path, ("content-type", form), body).await?;
    *last = revision(&answer)?;
    server.shown(CHANGED, name, last.parse()?).await
}

/// Changes an object, and reads the event of each who watches. The first time they begin to.
async fn watch(
    server: &Server,
    watches: &mut Vec<ResponseBody>,
    (name, last): (&str, &mut String),
    turn: u64,
) -> anyhow::Result<()> {
    while watches.len() < WATCHERS {
        let path = format!("{}?watch=true&resourceVersion={last}", Kind::Machine.collection(CHANGED));
        let answer = server.open(Method::GET, &path, ("accept", JSON), Bytes::new()).await?;
        watches.push(answer.into_body());
    }
    write(server, Path::Patch, (name, last), turn).await?;
    for body in watches {
        let frame = body.frame().await.context("a watch has ended")??;
        anyhow::ensure!(frame.is_data(), "a watch ends with trailers");
    }
    Ok(())
}

async fn read(server: &Server, path: Path, name: &str) -> anyhow::Result<()> {
    let all = format!("{}?limit={PAGE}", Kind::Machine.collection(SHOWN));
    let (path, accept) = match path {
        Path::Get => (object(name), JSON),
        Path::Metadata => (all, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        Path::Table => (all, "application/json;as=Table;g=meta.k8s.io;v=v1"),
        _ => (all, JSON),
    };
    server.ask(Method::GET, &path, ("accept", accept), Bytes::new()).await.map(|_| ())
}

/// The revision of the object in an answer.
fn revision(answer: &[u8]) -> anyhow::Result<String> {
    // It is not decoded: that would be counted with the rest. The first is the object's own.
    let mark = b"\"resourceVersion\":\"";
    let at = answer.windows(mark.len()).position(|window| window == mark);
    let rest =
        at.and_then(|at| answer.get(at + mark.len()..)).context("an answer without resourceVersion")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte));
    Ok(digits.collect())
}
