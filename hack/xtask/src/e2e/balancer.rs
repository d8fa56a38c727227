//! Load balancer that behaves as a Service of the host: new connections go to replicas that report ready.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between readiness probes, as a probe with a short period has.
const PERIOD: Duration = Duration::from_millis(500);

/// Longest time of a connection to a replica.
const PATIENCE: Duration = Duration::from_secs(1);

/// Load balancer over ready replicas. Open connections stay on their replica. Stops when dropped.
pub(super) struct Balancer {
    is_over: Arc<AtomicBool>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Balancer {
    /// Starts a load balancer at an address for replicas at these addresses.
    pub(super) fn start(address: SocketAddr, replicas: &[SocketAddr]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)?;
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
        Ok(Self { is_over, address, threads: vec![probes, accepts] })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A connection wakes the listener, which then returns.
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn probe(is_over: &AtomicBool, ready: &Mutex<Vec<SocketAddr>>, replicas: &[SocketAddr]) {
    while !is_over.load(Ordering::Relaxed) {
        let found: Vec<SocketAddr> = replicas.iter().copied().filter(|replica| is_ready(*replica)).collect();
        // If no probe ends in time, the machine is busy, and the last ones count.
        if !found.is_empty() {
            *ready.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        std::thread::sleep(PERIOD);
    }
}

fn is_ready(replica: SocketAddr) -> bool {
    // A kubelet does not verify the certificate of a probed server either.
    let url = format!("https://{replica}/readyz");
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--fail", "--max-time", "1", "--output", "/dev/null", &url]);
    command.status().is_ok_and(|status| status.success())
}

fn accept(listener: &TcpListener, is_over: &AtomicBool, ready: &Mutex<Vec<SocketAddr>>) {
    for (count, connection) in listener.incoming().enumerate() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A replica that has just died refuses the connection, and the next one takes it. If all refuse it, the connection is
        // closed, as a Service without endpoints refuses it.
        let mut replicas = ready.iter().cycle().skip(count % ready.len().max(1)).take(ready.len());
        let server = replicas.find_map(|replica| TcpStream::connect_timeout(replica, PATIENCE).ok());
        if let (Ok(client), Some(server)) = (connection, server) {
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
