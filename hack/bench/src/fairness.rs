//! Fairness benchmark: latency of one user's GETs, first alone, then beside a user who lists all objects in a
//! loop and a user who creates Machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};
use crate::latencies::Latencies;
use crate::operations::make_namespace;
use crate::process::Processes;
use bench_kinds::BenchKind;

const JSON: &str = "application/json";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    #[command(flatten)]
    processes: Processes,
    /// Kind of the objects
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace that is listed and read; it must exist
    #[arg(long)]
    namespace: String,
    /// Number of Machines that the second user creates
    #[arg(long, default_value_t = 2000)]
    creates: usize,
    /// Creates in flight, as of a controller with several workers
    #[arg(long, default_value_t = 4)]
    in_flight: usize,
    /// Seconds for which the third user is measured alone
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Measures the third user alone, and then beside the others.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut client = Client::connect(&arguments.target).await?;
    let crowd = format!("crowd-{}", std::process::id());
    make_namespace(&mut client, &arguments.target, &crowd).await?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let mut alone = reader(arguments, move || Instant::now() < end).await?;

    let is_over = Arc::new(AtomicBool::new(false));
    let reading = Arc::clone(&is_over);
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let (created, lists, beside) = tokio::join!(
        async {
            let created = creates(arguments, &crowd).await;
            is_over.store(true, Ordering::SeqCst);
            created
        },
        lists(arguments, &is_over),
        reader(arguments, move || !reading.load(Ordering::SeqCst)),
    );
    let (mut created, lists, mut beside) = (created?, lists?, beside?);
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let all = arguments.kind.collection(&crowd);
    client.expect(as_user("creator", request(&arguments.target, Method::DELETE, &all, None, JSON)?)?).await?;
    Ok(json!({
        "seconds": seconds, "used": used, "alone": alone.summary(), "beside": beside.summary(),
        "created": created.summary(), "lists": lists}))
}

/// Sends the request as another user. All users have every permission, because authorization is not measured
/// here.
fn as_user(user: &'static str, mut request: Request<Full<Bytes>>) -> anyhow::Result<Request<Full<Bytes>>> {
    let headers = request.headers_mut();
    headers.insert("impersonate-user", HeaderValue::from_static(user));
    headers.insert("impersonate-group", HeaderValue::from_static("system:masters"));
    Ok(request)
}

/// Measures the third user's reads on a thread of its own: otherwise they would wait for the decryption of
/// the others' bytes.
async fn reader(
    arguments: &Arguments,
    continues: impl Fn() -> bool + Send + 'static,
) -> anyhow::Result<Latencies> {
    let target = arguments.target.clone();
    let path = format!("{}/machine-0", arguments.kind.collection(&arguments.namespace));
    let reading = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(reads(&target, &path, continues))
    });
    reading.await?
}

async fn reads(target: &LoadTarget, path: &str, continues: impl Fn() -> bool) -> anyhow::Result<Latencies> {
    let mut client = Client::connect(target).await?;
    let mut latencies = Latencies::default();
    while continues() {
        let read = as_user("reader", request(target, Method::GET, path, None, JSON)?)?;
        let started = Instant::now();
        client.expect(read).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

/// Number of frames of a list, of 16 KiB at most, after which the lister yields to other threads.
///
/// Otherwise the kernel would let it decrypt until the next tick, after 4 ms, and the third user would wait
/// for that instead of for the server.
const FRAMES_PER_YIELD: usize = 8;

/// Lists all objects in a loop, and returns the number of lists. In reality the lister runs on another
/// machine: its reads must not take the processor from the measured user.
async fn lists(arguments: &Arguments, is_over: &AtomicBool) -> anyhow::Result<usize> {
    let mut client = Client::connect(&arguments.target).await?;
    let path = arguments.kind.collection(&arguments.namespace);
    let mut count = 0;
    while !is_over.load(Ordering::SeqCst) {
        let list = as_user("lister", request(&arguments.target, Method::GET, &path, None, JSON)?)?;
        let mut body = client.send(list).await?.into_body();
        let mut frames = 0_usize;
        while let Some(frame) = body.frame().await {
            frame?;
            frames += 1;
            if frames.is_multiple_of(FRAMES_PER_YIELD) {
                std::thread::yield_now();
            }
        }
        count += 1;
    }
    Ok(count)
}

async fn creates(arguments: &Arguments, namespace: &str) -> anyhow::Result<Latencies> {
    let client = Client::connect(&arguments.target).await?;
    let next = AtomicUsize::new(0);
    let writers = (0..arguments.in_flight).map(|_| {
        let (mut client, next) = (client.clone(), &next);
        async move {
            let mut latencies = Latencies::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= arguments.creates {
                    return anyhow::Ok(latencies);
                }
                let object = arguments.kind.object(namespace, &format!("crowd-{number}"));
                let content = Some((JSON, object));
                let path = arguments.kind.collection(namespace);
                let create =
                    as_user("creator", request(&arguments.target, Method::POST, &path, content, JSON)?)?;
                let started = Instant::now();
                client.expect(create).await?;
                latencies.add(started.elapsed());
            }
        }
    });
    let mut latencies = Latencies::default();
    try_join_all(writers).await?.into_iter().for_each(|each| latencies.append(each));
    Ok(latencies)
}
