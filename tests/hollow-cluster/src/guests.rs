//! Servers of the cloud, and what their starts and stops mean for nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tests_openstack_simulator::{GuestCursor, GuestServer};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::boot::{self, Metadata};
use crate::cluster::KubeletState;
use crate::faults::BootStep;
use crate::lab::{BootRecord, BootState, Lab};
use crate::persistence::{SavedServer, StateFile};
use crate::{kubeadm, kubelet, lock};

/// Interval of looks at the cloud.
const TICK: Duration = Duration::from_millis(20);

/// Interval of looks at nodes and pods.
const TEND_INTERVAL: Duration = Duration::from_millis(60);

/// Interval of looks at what has to be saved.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// Pause after work as a multiple of its duration: with hundreds of clusters, looks become rare instead of taking all of
/// the processor.
const PAUSE_FACTOR: u32 = 4;

/// Time of the next execution of regular work.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    fn new(interval: Duration) -> Self {
        Self { interval, next: Instant::now() + interval }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Records that the work was done, which began at this time.
    fn done(&mut self, begun: Instant) {
        let now = Instant::now();
        self.next = now + self.interval.max(now.duration_since(begun) * PAUSE_FACTOR);
    }
}

/// A server as of the last look.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) server: GuestServer,
    /// Ends the boot in progress.
    boot: CancellationToken,
}

/// Follows the servers until the lab stops. Those of an earlier run do not boot from their disks again.
pub(crate) async fn run(lab: Arc<Lab>, earlier: Vec<SavedServer>) {
    let mut guests = resumed(&lab, &earlier);
    let mut file = StateFile::new(&lab);
    let (mut seen, mut cursor) = (0, GuestCursor::default());
    let [mut looks, mut tends, mut saves] = [TICK / 2, TEND_INTERVAL, SAVE_INTERVAL].map(Pace::new);
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = lab.stop.cancelled() => break,
        }
        let begun = Instant::now();
        let revision = lab.hypervisor.revision();
        if revision != seen && looks.is_due() {
            seen = revision;
            follow(&lab, &mut guests, &mut cursor);
            looks.done(begun);
        }
        let begun = Instant::now();
        if tends.is_due() {
            lab.tend().await;
            tends.done(begun);
        }
        let begun = Instant::now();
        if saves.is_due() {
            file.save(&lab, &guests).await;
            saves.done(begun);
        }
    }
    file.save(&lab, &guests).await;
}

/// Returns the servers of an earlier run that still exist, as they were then.
fn resumed(lab: &Lab, earlier: &[SavedServer]) -> BTreeMap<String, Guest> {
    let servers = lab.hypervisor.servers();
    let resumed = earlier.iter().filter_map(|saved| {
        let mut server = servers.iter().find(|server| server.id == saved.id)?.clone();
        (server.boots, server.disks) = (saved.boots, saved.disks);
        Some((saved.id.clone(), Guest { server, boot: lab.stop.child_token() }))
    });
    resumed.collect()
}

/// Compares the servers that have changed with the last look at them.
fn follow(lab: &Arc<Lab>, guests: &mut BTreeMap<String, Guest>, cursor: &mut GuestCursor) {
    let changes = lab.hypervisor.changes(cursor);
    lab.take_over(&changes);
    for id in &changes.gone {
        if let Some(guest) = guests.remove(id) {
            power_off(lab, &guest);
            lock(&lab.boots).remove(id);
        }
    }
    for server in &changes.present {
        match guests.get_mut(&server.id) {
            None if server.running && server.boots > 0 => {
                let boot = first_boot(lab, server);
                guests.insert(server.id.clone(), Guest { server: server.clone(), boot });
            }
            None => {}
            Some(guest) => change(lab, guest, server),
        }
    }
}

fn change(lab: &Arc<Lab>, guest: &mut Guest, server: &GuestServer) {
    if !server.running {
        if guest.server.running {
            power_off(lab, guest);
        }
        // The counters stay: a boot that follows is noticed by them.
        guest.server.running = false;
        return;
    }
    if server.disks > guest.server.disks {
        power_off(lab, guest);
        guest.boot = first_boot(lab, server);
    } else if server.boots > guest.server.boots || !guest.server.running {
        power_off(lab, guest);
        guest.boot = later_boot(lab, server);
    }
    guest.server = server.clone();
}

/// Stops everything on a server.
fn power_off(lab: &Lab, guest: &Guest) {
    guest.boot.cancel();
    let Some(cluster) = lab.cluster_of(&guest.server.id) else { return };
    let mut nodes = lock(&cluster.nodes);
    let Some(node) = nodes.get_mut(&guest.server.id).filter(|node| node.running) else { return };
    node.running = false;
    if matches!(node.kubelet, KubeletState::Starting(_) | KubeletState::Ready(_)) {
        node.kubelet = KubeletState::Lost(Instant::now());
    }
    if node.control_plane {
        lock(&cluster.etcd).set_alive(&node.name, false);
    }
}

/// Waits for the delay of a boot. A test may change it in between.
async fn boot_delay(lab: &Lab) {
    let begun = Instant::now();
    loop {
        let delay = lock(&lab.faults).boot_delay.unwrap_or(lab.options.boot_delay);
        let left = delay.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(TICK)).await;
    }
}

/// Runs a task until it ends, is replaced by the next boot, or the lab stops.
fn spawn(lab: &Arc<Lab>, work: impl Future<Output = ()> + Send + 'static) -> CancellationToken {
    let token = lab.stop.child_token();
    let cancelled = token.clone();
    lab.tasks.spawn(async move {
        tokio::select! {
            () = work => {}
            () = cancelled.cancelled() => {}
        }
    });
    token
}

/// Boots a server from a new disk.
fn first_boot(lab: &Arc<Lab>, server: &GuestServer) -> CancellationToken {
    let record = BootRecord { name: server.name.clone(), state: BootState::Running };
    lock(&lab.boots).insert(server.id.clone(), record);
    let (own, server) = (Arc::clone(lab), server.clone());
    spawn(lab, async move {
        boot_delay(&own).await;
        let result = configure(&own, &server).await;
        if let Err(error) = &result {
            own.console(&server, error);
            own.console(&server, "To see the stack trace of this error execute with --v=5 or higher");
        }
        own.console(&server, "Cloud-init v. 25.1 finished. Datasource DataSourceOpenStackLocal [net,ver=2].");
        let state = result.map_or_else(BootState::Failed, |()| BootState::Done);
        if let Some(record) = lock(&own.boots).get_mut(&server.id) {
            record.state = state;
        }
    })
}

/// Executes the user data of a server.
async fn configure(lab: &Arc<Lab>, server: &GuestServer) -> Result<(), String> {
    lab.console(server, "Cloud-init v. 25.1 running 'init'");
    lab.check_fault(server, BootStep::CloudInit)?;
    let Some(user_data) = lab.hypervisor.user_data(&server.id) else { return Ok(()) };
    let metadata = Metadata { id: &server.id, hostname: &server.hostname };
    let Some(plan) = boot::plan(&user_data, metadata) else { return Ok(()) };
    let plan = plan?;
    lab.console(server, "Cloud-init v. 25.1 running 'modules:final'");
    for command in &plan.commands {
        lab.console(server, &format!("+ {command}"));
    }
    kubeadm::run(lab, server, &plan).await
}

/// Boots a server from its old disk: only the kubelet starts.
fn later_boot(lab: &Arc<Lab>, server: &GuestServer) -> CancellationToken {
    interrupted(lab, server);
    let (own, server) = (Arc::clone(lab), server.clone());
    spawn(lab, async move {
        boot_delay(&own).await;
        own.console(&server, "Cloud-init v. 25.1 running 'init'");
        let Some(cluster) = own.cluster_of(&server.id) else { return };
        let mut nodes = lock(&cluster.nodes);
        let Some(node) = nodes.get_mut(&server.id) else { return };
        node.running = true;
        node.boot = server.boots;
        node.kubelet = KubeletState::Starting(Instant::now());
        if node.control_plane {
            lock(&cluster.etcd).set_alive(&node.name, true);
        }
        if !own.is_kubelet_dead(&server.id) {
            kubelet::start(&cluster, node);
        }
    })
}

/// Records that a boot did not end before the next one. cloud-init runs the commands only once.
fn interrupted(lab: &Lab, server: &GuestServer) {
    if let Some(record) = lock(&lab.boots).get_mut(&server.id)
        && record.state == BootState::Running
    {
        record.state =
            BootState::Failed("the server was rebooted before its first boot had ended".to_owned());
    }
}
