//! Running simulator, as tests control it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::address::Network;
use crate::cloud::SimulatedCloud;
use crate::faults::InjectedFault;
use crate::hypervisor::Hypervisor;
use crate::inventory::Inventory;
use crate::log::LoggedCall;
use crate::manila::SeededShare;
use crate::options::SimulatorOptions;
use crate::state::CloudState;
use crate::{persistence, seeds, server};

/// Simulated cloud with its listener. Dropping it stops both.
#[derive(Debug)]
pub struct Simulator {
    cloud: Arc<SimulatedCloud>,
    address: SocketAddr,
    state_file: Option<PathBuf>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl Simulator {
    /// Starts a cloud, with the state of the file if it exists, and with the initial state if not.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be listened on, the external range is invalid, or the state file
    /// cannot be read, parsed or written.
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {}: {error}", options.listen))
        };
        let listener = TcpListener::bind(options.listen).await.map_err(about)?;
        let address = listener.local_addr()?;
        let loaded = match &options.state_file {
            Some(path) => persistence::load(path).await?,
            None => None,
        };
        let state = match loaded {
            Some(state) => state,
            None => initial_state(&options.external_cidr)?,
        };
        let state_file = options.state_file.clone();
        let cloud = Arc::new(SimulatedCloud::new(options, state));
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        if let Some(path) = &state_file {
            // The first write is immediate, so that an invalid path is reported before the first call.
            persistence::save(path, &cloud.snapshot()?).await?;
            tasks.spawn(persistence::keep(Arc::clone(&cloud), path.clone(), stop.clone()));
        }
        tasks.spawn(server::run(listener, Arc::clone(&cloud), stop.clone()));
        tasks.close();
        Ok(Self { cloud, address, state_file, tasks, stop: stop.drop_guard() })
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of Keystone.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("http://{}/v3", self.address)
    }

    /// Returns a `clouds.yaml` for the project, in which the cloud is called `openstack`.
    #[must_use]
    pub fn clouds_yaml(&self, project: &str) -> String {
        format!(
            "clouds:\n  openstack:\n    auth:\n      auth_url: {}\n      username: {project}\n      \
             password: {project}\n      project_name: {project}\n      user_domain_name: Default\n      \
             project_domain_name: Default\n    region_name: RegionOne\n    interface: public\n    \
             identity_api_version: 3\n",
            self.auth_url()
        )
    }

    /// Returns all resources that the project has created and not deleted.
    #[must_use]
    pub fn inventory(&self, project: &str) -> Inventory {
        self.cloud.inventory(project)
    }

    /// Returns the servers of all projects as their hypervisors see them.
    #[must_use]
    pub fn hypervisor(&self) -> Hypervisor {
        Hypervisor::new(Arc::clone(&self.cloud))
    }

    /// Returns all calls so far, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<LoggedCall> {
        self.cloud.log.all()
    }

    /// Clears the log of calls.
    pub fn clear_log(&self) {
        self.cloud.log.clear();
    }

    /// Injects an error into calls from now on. If several injected errors match a call, the oldest applies.
    pub fn inject(&self, fault: InjectedFault) {
        self.cloud.inject(fault);
    }

    /// Returns the injected errors that still affect calls. One that is used up is not among them, also while its call
    /// is delayed.
    pub fn faults(&self) -> Vec<InjectedFault> {
        self.cloud.faults.all()
    }

    /// Removes all injected errors.
    pub fn clear_faults(&self) {
        self.cloud.faults.clear();
    }

    /// Sets a limit of a project: `cores`, `port`, `volumes` and so on; -1 is unlimited. Returns false if
    /// there is no such project.
    pub fn set_quota(&self, project: &str, resource: &str, limit: i64) -> bool {
        self.cloud.set_quota(project, resource, limit)
    }

    /// Sets when the application credential of a project's user expires. Returns false if there is no such project.
    pub fn set_credential_expiry(&self, project: &str, expires_at: Timestamp) -> bool {
        self.cloud.set_credential_expiry(project, expires_at)
    }

    /// Returns the names of the application credentials of all users.
    #[must_use]
    pub fn application_credentials(&self) -> Vec<String> {
        self.cloud.read(|state| state.application_credentials.iter().map(|held| held.name.clone()).collect())
    }

    /// Gives a user the role `reader` only, or `member` again. Returns false if there is no such user.
    pub fn set_reader(&self, user: &str, reader: bool) -> bool {
        self.cloud.set_reader(user, reader)
    }

    /// Creates a user whose only role in a project is `reader`. Its password is its name. Returns false if there is no such
    /// project.
    pub fn add_reader(&self, user: &str, project: &str) -> bool {
        self.cloud.add_reader(user, project)
    }

    /// Creates a trust: the trustor delegates the role `member` in its project. Returns the id of the trust, or `None` if
    /// there is no such user.
    pub fn trust(&self, trustor: &str, trustee: &str) -> Option<String> {
        self.cloud.trust(trustor, trustee)
    }

    /// Has Nova keep deleted servers, with their ports and volumes, as its option `reclaim_instance_interval` does.
    pub fn keep_deleted_servers(&self) {
        self.cloud.keep_deleted_servers();
    }

    /// Has Octavia refuse load balancers on the ports of users, as its option `allow_vip_port_id` does.
    pub fn refuse_vip_ports(&self) {
        self.cloud.refuse_vip_ports();
    }

    /// Makes the cell with a server unreachable for Nova, or reachable again. Returns false if there is no such server.
    pub fn set_cell_reachable(&self, server: &str, reachable: bool) -> bool {
        self.cloud.set_cell_reachable(server, reachable)
    }

    /// Attaches a volume to a server, as a CSI driver does. Returns false if one of them does not exist.
    pub fn attach_volume(&self, volume: &str, server: &str) -> bool {
        self.cloud.attach_volume(volume, server)
    }

    /// Locks a server as its owner does, or unlocks it. Returns false if there is no such server.
    pub fn set_locked(&self, server: &str, locked: bool) -> bool {
        self.cloud.set_locked(server, locked)
    }

    /// Takes a snapshot of a volume, as a CSI driver does. Returns false if there is no such volume.
    pub fn take_snapshot(&self, volume: &str) -> bool {
        self.cloud.take_snapshot(volume)
    }

    /// Adds a port to a trunk, as a CNI plugin does. Returns false if one of them does not exist.
    pub fn add_subport(&self, trunk: &str, port: &str) -> bool {
        self.cloud.add_subport(trunk, port)
    }

    /// Creates a share, as a CSI driver does. Returns its id, or `None` if there is no such project.
    pub fn create_share(&self, new: &SeededShare) -> Option<String> {
        self.cloud.create_share(new)
    }

    /// Sets the duration of each call before its effect.
    pub fn set_latency(&self, latency: Duration) {
        self.cloud.set_latency(latency);
    }

    /// Stops listening, cuts all connections and saves the state.
    ///
    /// # Errors
    ///
    /// Returns an error if the state file cannot be written.
    pub async fn shutdown(self) -> io::Result<()> {
        let Self { cloud, state_file, tasks, stop, .. } = self;
        stop.disarm().cancel();
        tasks.wait().await;
        match state_file {
            Some(path) => persistence::save(&path, &cloud.snapshot()?).await,
            None => Ok(()),
        }
    }
}

fn initial_state(external_cidr: &str) -> io::Result<CloudState> {
    let range = Network::parse(external_cidr).filter(Network::has_room_for_gateways).ok_or_else(|| {
        let words = format!("the external range {external_cidr} is not an IPv4 range of at least /28");
        io::Error::new(io::ErrorKind::InvalidInput, words)
    })?;
    let mut state = CloudState::default();
    seeds::seed(&mut state, external_cidr, &range, Timestamp::now());
    Ok(state)
}
