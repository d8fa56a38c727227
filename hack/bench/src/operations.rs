//! Operation benchmark: create, get, status update, merge patch, apply and delete, with a number of requests
//! in flight.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};
use crate::latencies::Latencies;
use crate::process::Processes;
use bench_kinds::BenchKind;

/// Requests in flight on one connection, as many as watchers and writers of one program share.
const PER_CONNECTION: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    #[command(flatten)]
    processes: Processes,
    /// Kind of the objects that are created, read and changed
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace of the objects; it is created if it is absent
    #[arg(long, default_value = "bench")]
    namespace: String,
    /// Part of the objects' names, so that runs do not conflict
    #[arg(long)]
    run: String,
    /// Requests in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Seconds for which each operation is repeated
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only these operations, of create, get, status, patch, apply, delete [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<MeasuredOperation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MeasuredOperation {
    Create,
    Get,
    Status,
    Patch,
    Apply,
    Delete,
}

const ALL: [MeasuredOperation; 6] = [
    MeasuredOperation::Create,
    MeasuredOperation::Get,
    MeasuredOperation::Status,
    MeasuredOperation::Patch,
    MeasuredOperation::Apply,
    MeasuredOperation::Delete,
];

impl MeasuredOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Status => "status",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
        }
    }
}

/// One of the concurrent workers, with the objects that it created.
struct RequestWorker<'a> {
    arguments: &'a Arguments,
    client: Client,
    number: usize,
    /// Names of the objects, and their revisions in the last responses.
    objects: Vec<(String, String)>,
    iteration: u64,
}

/// Runs the operations one after the other, and returns a row for each.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut connections = Vec::new();
    for _ in 0..arguments.in_flight.div_ceil(PER_CONNECTION) {
        connections.push(Client::connect(&arguments.target).await?);
    }
    let Some(first) = connections.first_mut() else { bail!("--in-flight must be at least 1") };
    make_namespace(first, &arguments.target, &arguments.namespace).await?;
    let mut workers: Vec<RequestWorker<'_>> = (0..arguments.in_flight)
        .map(|number| RequestWorker {
            arguments,
            client: connections[number % connections.len()].clone(),
            number,
            objects: Vec::new(),
            iteration: 0,
        })
        .collect();
    let mut rows = Vec::new();
    for operation in ALL {
        let is_selected = arguments.only.is_empty() || arguments.only.contains(&operation);
        // The other operations need objects.
        if is_selected || operation == MeasuredOperation::Create {
            rows.push(phase(arguments, &mut workers, operation).await?);
        }
    }
    clear(&mut workers).await?;
    Ok(Value::Array(rows))
}

/// Creates the namespace, if it is absent.
pub(crate) async fn make_namespace(
    client: &mut Client,
    target: &LoadTarget,
    name: &str,
) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
    let content = Some(("application/json", Bytes::from(body)));
    let create = request(target, Method::POST, "/api/v1/namespaces", content, "application/json")?;
    let (status, body) = client.exchange(create).await?;
    // The Go sample server has no namespaces: its host cluster has them.
    if status.is_success() || matches!(status.as_u16(), 404 | 409) {
        return Ok(());
    }
    bail!("namespace {name}: {status} {}", String::from_utf8_lossy(&body))
}

/// Lets all workers repeat one operation until the time is over.
async fn phase(
    arguments: &Arguments,
    workers: &mut [RequestWorker<'_>],
    operation: MeasuredOperation,
) -> anyhow::Result<Value> {
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(arguments.seconds);
    let all = try_join_all(workers.iter_mut().map(|worker| worker.repeat(operation, end))).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let mut latencies = Latencies::default();
    all.into_iter().for_each(|each| latencies.append(each));
    let count = latencies.count();
    Ok(json!({
        "operation": operation.name(), "inFlight": arguments.in_flight, "seconds": seconds,
        "count": count, "latency": latencies.summary(), "used": used}))
}

/// Deletes the objects that the measured time did not suffice to delete.
async fn clear(workers: &mut [RequestWorker<'_>]) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(600);
    try_join_all(workers.iter_mut().map(|worker| worker.repeat(MeasuredOperation::Delete, end))).await?;
    Ok(())
}

impl RequestWorker<'_> {
    async fn repeat(&mut self, operation: MeasuredOperation, end: Instant) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut next = 0;
        while Instant::now() < end {
            let index = match operation {
                MeasuredOperation::Create => {
                    let Arguments { run, .. } = self.arguments;
                    self.objects
                        .push((format!("{run}-{}-{}", self.number, self.objects.len()), String::new()));
                    self.objects.len() - 1
                }
                MeasuredOperation::Delete if self.objects.is_empty() => break,
                MeasuredOperation::Delete => self.objects.len() - 1,
                _ => next % self.objects.len().max(1),
            };
            next += 1;
            self.iteration += 1;
            let request = self.request(operation, index)?;
            let started = Instant::now();
            let response = self.client.expect(request).await?;
            latencies.add(started.elapsed());
            if operation == MeasuredOperation::Delete {
                self.objects.pop();
            } else if let Some(object) = self.objects.get_mut(index) {
                object.1 = revision(&response).context("a response without resourceVersion")?.to_owned();
            }
        }
        Ok(latencies)
    }

    fn request(
        &self,
        operation: MeasuredOperation,
        index: usize,
    ) -> anyhow::Result<http::Request<http_body_util::Full<Bytes>>> {
        let Arguments { target, kind, namespace, .. } = self.arguments;
        let (name, revision) = self.objects.get(index).context("there are no objects")?;
        let collection = kind.collection(namespace);
        let object = format!("{collection}/{name}");
        let json = "application/json";
        let (method, path, content) = match operation {
            MeasuredOperation::Create => {
                (Method::POST, collection, Some((json, kind.object(namespace, name))))
            }
            MeasuredOperation::Get => (Method::GET, object, None),
            MeasuredOperation::Status => {
                let body = kind.with_status(namespace, name, revision, self.iteration);
                (Method::PUT, kind.status(namespace, name), Some((json, body)))
            }
            MeasuredOperation::Patch => (
                Method::PATCH,
                object,
                Some(("application/merge-patch+json", BenchKind::patch(self.iteration))),
            ),
            MeasuredOperation::Apply => (
                Method::PATCH,
                format!("{object}?fieldManager=delivery&force=true"),
                Some(("application/apply-patch+yaml", kind.configuration(namespace, name, self.iteration))),
            ),
            MeasuredOperation::Delete => (Method::DELETE, object, None),
        };
        request(target, method, &path, content, json)
    }
}

/// Returns the revision in an object's bytes. The first match is the object's own revision, because
/// managedFields contain no values.
pub(crate) fn revision(object: &[u8]) -> Option<&str> {
    let field = b"\"resourceVersion\":\"";
    let start = memchr::memmem::find(object, field)? + field.len();
    let rest = object.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}
