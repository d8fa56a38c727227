//! What one user waits for while others ask for much: the GETs of a third user, alone and beside one who lists
//! everything in a loop and one who creates Machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::client::{Client, Target, request};
use crate::measured::Latencies;
use crate::operations::make_namespace;
use crate::process::Processes;
use bench_kinds::Kind;

const JSON: &str = "application/json";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    processes: Processes,
    /// Of which kind
    #[arg(long, default_value = "machine")]
    kind: Kind,
    /// What is listed and read; it has to be there
    #[arg(long)]
    namespace: String,
    /// How many Machines the second user creates
    #[arg(long, default_value_t = 2000)]
    creates: usize,
    /// Creates in flight: as a controller with some workers has
    #[arg(long, default_value_t = 4)]
    in_flight: usize,
    /// How long the third user is measured alone
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Measures the third user alone, then beside the others.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut client = Client::connect(&arguments.target).await?;
    let crowd = format!("crowd-{}", std::process::id());
    make_namespace(&mut client, &arguments.target, &crowd).await?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let mut alone = reader(arguments, move || Instant::now() < end).await?;

    let over = Arc::new(AtomicBool::new(false));
    let reading = Arc::clone(&over);
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let (created, lists, beside) = tokio::join!(
        async {
            let created = creates(arguments, &crowd).await;
            over.store(true, Ordering::SeqCst);
            created
        },
        lists(arguments, &over),
        reader(arguments, move || !reading.load(Ordering::SeqCst)),
    );
    let (mut created, lists, mut beside) = (created?, lists?, beside?);
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let all = arguments.kind.collection(&crowd);
    client.expect(of("creator", request(&arguments.target, Method::DELETE, &all, None, JSON)?)?).await?;
    Ok(json!({
        "seconds": seconds, "used": used, "alone": alone.summary(), "beside": beside.summary(),
        "created": created.summary(), "lists": lists}))
}

/// The same request from another user. All have every permission: who may what is not measured here.
fn of(user: &'static str, mut request: Request<Full<Bytes>>) -> anyhow::Result<Request<Full<Bytes>>> {
    let headers = request.headers_mut();
    headers.insert("impersonate-user", HeaderValue::from_static(user));
    headers.insert("impersonate-group", HeaderValue::from_static("system:masters"));
    Ok(request)
}

/// The third user, on a thread of its own: else it would wait here for the others' bytes to be decrypted.
async fn reader(
    arguments: &Arguments,
    goes_on: impl Fn() -> bool + Send + 'static,
) -> anyhow::Result<Latencies> {
    let target = arguments.target.clone();
    let path = format!("{}/machine-0", arguments.kind.collection(&arguments.namespace));
    let reading = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(reads(&target, &path, goes_on))
    });
    reading.await?
}

async fn reads(target: &Target, path: &str, goes_on: impl Fn() -> bool) -> anyhow::Result<Latencies> {
    let mut client = Client::connect(target).await?;
    let mut latencies = Latencies::default();
    while goes_on() {
        let read = of("reader", request(target, Method::GET, path, None, JSON)?)?;
        let started = Instant::now();
        client.expect(read).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

/// After how many frames of a list, of 16 KiB at most, who reads it lets another thread go on. The kernel would else
/// have it decrypt until the next tick, 4 ms, and the third user wait for that instead of for the server.
const TURN: usize = 8;

/// Lists everything again and again; how often. The lister would be another machine's: its reading must keep no
/// processor from who is measured.
async fn lists(arguments: &Arguments, over: &AtomicBool) -> anyhow::Result<usize> {
    let mut client = Client::connect(&arguments.target).await?;
    let path = arguments.kind.collection(&arguments.namespace);
    let mut count = 0;
    while !over.load(Ordering::SeqCst) {
        let list = of("lister", request(&arguments.target, Method::GET, &path, None, JSON)?)?;
        let mut body = client.send(list).await?.into_body();
        let mut frames = 0_usize;
        while let Some(frame) = body.frame().await {
            frame?;
            frames += 1;
            if frames.is_multiple_of(TURN) {
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
                let create = of("creator", request(&arguments.target, Method::POST, &path, content, JSON)?)?;
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
