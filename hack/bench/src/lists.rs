//! List benchmark: lists of a namespace, whole, compressed, in chunks, by label, as metadata only and as a
//! Table.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};
use crate::latencies::Latencies;
use crate::process::Processes;
use bench_kinds::BenchKind;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    #[command(flatten)]
    processes: Processes,
    /// Kind of the objects
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace of the objects
    #[arg(long)]
    namespace: String,
    /// Number of concurrent readers, each with a connection of its own
    #[arg(long, default_value_t = 1)]
    readers: usize,
    /// Seconds in which a reader starts new lists; each reads at least once
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Forms of the list
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "whole,compressed,chunked,label,metadata,metadata-protobuf,table"
    )]
    forms: Vec<ListForm>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListForm {
    Whole,
    /// Whole, with compression as Go's clients request it
    Compressed,
    Chunked,
    Label,
    Metadata,
    /// Metadata in the format that the garbage collector requests
    MetadataProtobuf,
    Table,
}

const JSON: &str = "application/json";

impl ListForm {
    fn query(self) -> &'static str {
        match self {
            Self::Whole | Self::Compressed | Self::Metadata | Self::MetadataProtobuf | Self::Table => "",
            Self::Chunked => "limit=500",
            Self::Label => "labelSelector=lab.example.com/shard%3D7",
        }
    }

    fn accept(self) -> &'static str {
        match self {
            Self::Whole | Self::Compressed | Self::Chunked | Self::Label => JSON,
            Self::MetadataProtobuf => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Self::Table => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }
}

/// Runs lists in each form, and returns a row for each form.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut clients = Vec::new();
    for _ in 0..arguments.readers {
        clients.push(Client::connect(&arguments.target).await?);
    }
    let mut rows = Vec::new();
    for form in &arguments.forms {
        rows.push(phase(arguments, &mut clients, *form).await?);
    }
    Ok(Value::Array(rows))
}

async fn phase(arguments: &Arguments, clients: &mut [Client], form: ListForm) -> anyhow::Result<Value> {
    arguments.processes.reset_peak();
    let memory = arguments.processes.memory("server")?;
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(arguments.seconds);
    let readers = clients.iter_mut().map(|client| {
        let (arguments, mut client) = (arguments.clone_for_reader(), client.clone());
        async move { tokio::spawn(async move { repeat(&arguments, &mut client, form, end).await }).await? }
    });
    let all = try_join_all(readers).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let (mut latencies, mut bytes) = (Latencies::default(), 0);
    for (each, size) in all {
        latencies.append(each);
        bytes += size;
    }
    let count = latencies.count();
    let name = form.to_possible_value().map(|value| value.get_name().to_owned());
    Ok(json!({
        "form": name, "readers": arguments.readers, "seconds": seconds, "count": count, "bytes": bytes,
        "latency": latencies.summary(), "used": used,
        "memoryBefore": memory, "memory": arguments.processes.memory("server")?}))
}

/// Copy of the arguments that one reader needs.
#[derive(Clone)]
struct ListReader {
    target: LoadTarget,
    path: String,
}

impl Arguments {
    fn clone_for_reader(&self) -> ListReader {
        ListReader { target: self.target.clone(), path: self.kind.collection(&self.namespace) }
    }
}

async fn repeat(
    reader: &ListReader,
    client: &mut Client,
    form: ListForm,
    end: Instant,
) -> anyhow::Result<(Latencies, usize)> {
    let (mut latencies, mut bytes) = (Latencies::default(), 0);
    loop {
        let started = Instant::now();
        bytes += one(reader, client, form).await?;
        latencies.add(started.elapsed());
        if Instant::now() > end {
            return Ok((latencies, bytes));
        }
    }
}

/// Reads one list with all its pages, and returns its number of bytes.
async fn one(reader: &ListReader, client: &mut Client, form: ListForm) -> anyhow::Result<usize> {
    let (mut bytes, mut token) = (0, String::new());
    loop {
        let mut path = format!("{}?{}", reader.path, form.query());
        if !token.is_empty() {
            path = format!("{path}&continue={token}");
        }
        let mut request = request(&reader.target, Method::GET, &path, None, form.accept())?;
        if matches!(form, ListForm::Compressed) {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let response = client.send(request).await?;
        let status = response.status();
        let (mut body, mut first, mut last) = (response.into_body(), Bytes::new(), Bytes::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            bytes += data.len();
            if first.is_empty() {
                first = data.clone();
            }
            last = data;
        }
        ensure!(status.is_success(), "list {path}: {status} {}", String::from_utf8_lossy(&first));
        match form {
            // Typed API servers write the list's metadata first, those of custom resources write it last.
            ListForm::Chunked => match next(&first).or_else(|| next(&last)) {
                Some(next) => token = next,
                None => return Ok(bytes),
            },
            _ => return Ok(bytes),
        }
    }
}

/// Returns the continue token of the next page.
fn next(part: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(part);
    let (_, rest) = text.split_once("\"continue\":\"")?;
    let (token, _) = rest.split_once('"')?;
    (!token.is_empty()).then(|| token.to_owned())
}
