//! Load balancer that behaves as a Service of the host: new connections go to replicas that report ready.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between readiness probes, as a probe with a short period has.
const PERIOD: Duration = Duration::from_millis(500);

/// Load balancer over ready replicas. Open connections stay on their replica. Stops when dropped.
pub(super) struct Balancer {
    is_over: Arc<AtomicBool>,
    port: u16,
    threads: Vec<JoinHandle<()>>,
}

impl Balancer {
    /// Starts a load balancer on `port` for replicas on these ports of loopback.
    pub(super) fn start(port: u16, replicas: &[u16]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(Mutex::new(replicas.to_vec()));
        let probes = {
            let (is_over, ready, replicas) = (is_over.clone(), ready.clone(), replicas.to_vec());
            std::thread::spawn(move || probe(&is_over, &ready, &replicas))
        };
        let accepts = {
            let is_over = is_over.clone();
            std::thread::spawn(move || accept(&listener, &is_over, &ready))
        };
        Ok(Self { is_over, port, threads: vec![probes, accepts] })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A connection wakes the listener, which then returns.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn probe(is_over: &AtomicBool, ready: &Mutex<Vec<u16>>, replicas: &[u16]) {
    while !is_over.load(Ordering::Relaxed) {
        let found = replicas.iter().copied().filter(|port| is_ready(*port)).collect();
        *ready.lock().unwrap_or_else(PoisonError::into_inner) = found;
        std::thread::sleep(PERIOD);
    }
}

fn is_ready(port: u16) -> bool {
    // A kubelet does not verify the certificate of a probed server either.
    let url = format!("https://127.0.0.1:{port}/readyz");
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--fail", "--max-time", "1", "--output", "/dev/null", &url]);
    command.status().is_ok_and(|status| status.success())
}

fn accept(listener: &TcpListener, is_over: &AtomicBool, ready: &Mutex<Vec<u16>>) {
    for (count, connection) in listener.incoming().enumerate() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let replica = ready.get(count % ready.len().max(1)).copied();
        // Without a replica the connection is closed, as a Service without endpoints refuses it.
        if let (Ok(client), Some(port)) = (connection, replica)
            && let Ok(server) = TcpStream::connect(("127.0.0.1", port))
        {
            forward(&client, &server);
            forward(&server, &client);
        }
    }
}

/// Copies one direction until either side closes it.
fn forward(from: &TcpStream, to: &TcpStream) {
    if let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}
