//! Cloud behind the listener: one lock for the state, and the steps around each call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::context::{Context, Fate};
use crate::faults::{CloudService, FaultEffect, InjectedFault, InjectedFaults};
use crate::http::{HandlerResult, Reply, Request};
use crate::inventory::Inventory;
use crate::log::{Log, LoggedCall};
use crate::nova::model::Attachment;
use crate::options::SimulatorOptions;
use crate::state::CloudState;
use crate::{cinder, glance, keystone, manila, neutron, nova, octavia};

/// A simulated cloud.
#[derive(Debug)]
pub(crate) struct SimulatedCloud {
    pub(crate) options: SimulatorOptions,
    pub(crate) log: Log,
    pub(crate) faults: InjectedFaults,
    state: Mutex<CloudState>,
    /// State at the time of the last injected [`FaultEffect::StaleList`].
    stale: Mutex<Option<CloudState>>,
    latency: Mutex<Duration>,
    changes: Notify,
    revision: AtomicU64,
}

/// Result of a call for the client.
pub(crate) enum CallOutcome {
    Reply(Reply),
    /// The connection is closed without a response.
    Drop,
}

impl SimulatedCloud {
    pub(crate) fn new(options: SimulatorOptions, state: CloudState) -> Self {
        Self {
            latency: Mutex::new(options.latency),
            options,
            log: Log::default(),
            faults: InjectedFaults::default(),
            state: Mutex::new(state),
            stale: Mutex::default(),
            changes: Notify::new(),
            revision: AtomicU64::new(1),
        }
    }

    /// Injects an error.
    pub(crate) fn inject(&self, fault: InjectedFault) {
        if fault.effect == FaultEffect::StaleList {
            let mut state = crate::lock(&self.state);
            state.settle();
            let kept = state.clone();
            drop(state);
            *crate::lock(&self.stale) = Some(kept);
        }
        self.faults.inject(fault);
    }

    /// Waits for a change of the state.
    pub(crate) async fn changed(&self) {
        self.changes.notified().await;
    }

    /// Records that the state has changed.
    fn notify(&self) {
        self.revision.fetch_add(1, Ordering::Release);
        self.changes.notify_one();
    }

    /// Completes the transitions that are due, and returns the number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        if crate::lock(&self.state).advance(Timestamp::now()) {
            self.notify();
        }
        self.revision.load(Ordering::Acquire)
    }

    /// Reads from the state, with all transitions completed that are due.
    pub(crate) fn read<T>(&self, reader: impl FnOnce(&CloudState) -> T) -> T {
        self.revision();
        reader(&crate::lock(&self.state))
    }

    /// Appends to the console log of a server, if the server exists.
    pub(crate) fn append_console(&self, id: &str, text: &str) {
        if let Some(server) = crate::lock(&self.state).servers.get_mut(id) {
            server.append_console(text);
        }
    }

    /// Returns the whole state as JSON.
    pub(crate) fn snapshot(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&*crate::lock(&self.state))
    }

    pub(crate) fn latency(&self) -> Duration {
        *crate::lock(&self.latency)
    }

    pub(crate) fn set_latency(&self, latency: Duration) {
        *crate::lock(&self.latency) = latency;
    }

    pub(crate) fn inventory(&self, project: &str) -> Inventory {
        self.read(|state| Inventory::of(state, project))
    }

    /// Sets a limit. Returns false if there is no such project.
    pub(crate) fn set_quota(&self, project: &str, resource: &str, limit: i64) -> bool {
        let mut state = crate::lock(&self.state);
        let Some(id) = state.project(project).map(|project| project.id.clone()) else { return false };
        state.quotas.entry(id).or_default().insert(resource.to_owned(), limit);
        drop(state);
        self.notify();
        true
    }

    /// Sets when the application credential of a project's user expires.
    pub(crate) fn set_credential_expiry(&self, project: &str, expires_at: Timestamp) -> bool {
        let mut state = crate::lock(&self.state);
        let held = state.application_credentials.iter_mut().find(|held| held.name == project);
        held.map(|held| held.expires_at = Some(expires_at)).is_some()
    }

    /// Sets the role of a user in its project. Returns false if there is no such user.
    pub(crate) fn set_reader(&self, user: &str, reader: bool) -> bool {
        let mut state = crate::lock(&self.state);
        let found = state.users.iter_mut().find(|held| held.name == user);
        found.map(|found| found.reader = reader).is_some()
    }

    /// Creates a user whose only role in a project is `reader`. Returns false if there is no such project.
    pub(crate) fn add_reader(&self, user: &str, project: &str) -> bool {
        let mut state = crate::lock(&self.state);
        let project = state.projects.iter().find(|held| held.name == project).map(|held| held.id.clone());
        let Some(project_id) = project else { return false };
        state.users.push(keystone::User {
            id: crate::object::new_id().replace('-', ""),
            name: user.to_owned(),
            password: user.to_owned(),
            project_id,
            admin: false,
            reader: true,
        });
        true
    }

    /// Creates a trust. Returns its id, or `None` if there is no such user.
    pub(crate) fn trust(&self, trustor: &str, trustee: &str) -> Option<String> {
        let mut state = crate::lock(&self.state);
        let user = |name: &str| state.users.iter().find(|user| user.name == name);
        let trust = keystone::Trust::new(user(trustor)?, user(trustee)?);
        let id = trust.id.clone();
        state.trusts.push(trust);
        drop(state);
        self.notify();
        Some(id)
    }

    /// Has Nova keep deleted servers.
    pub(crate) fn keep_deleted_servers(&self) {
        crate::lock(&self.state).keeps_deleted_servers = true;
    }

    /// Has Octavia refuse the ports of users.
    pub(crate) fn refuse_vip_ports(&self) {
        crate::lock(&self.state).refuses_vip_ports = true;
    }

    /// Makes the cell with a server unreachable for Nova, or reachable again.
    pub(crate) fn set_cell_reachable(&self, server: &str, reachable: bool) -> bool {
        let mut state = crate::lock(&self.state);
        let found = state.servers.get_mut(server);
        found.map(|found| found.unreachable = !reachable).is_some()
    }

    /// Attaches a volume to a server, as a CSI driver does.
    pub(crate) fn attach_volume(&self, volume: &str, server: &str) -> bool {
        let mut state = crate::lock(&self.state);
        if !state.volumes.contains_key(volume) {
            return false;
        }
        let Some(found) = state.servers.get_mut(server) else { return false };
        let attachment = Attachment::of_driver(volume);
        found.attachments.push(attachment.clone());
        let (id, device) = (attachment.attachment_id, attachment.device);
        cinder::attach(&mut state, volume, server, &id, &device, Timestamp::now());
        true
    }

    /// Locks a server as its owner does, or unlocks it.
    pub(crate) fn set_locked(&self, server: &str, locked: bool) -> bool {
        let mut state = crate::lock(&self.state);
        let found = state.servers.get_mut(server);
        found.map(|found| found.locked = locked).is_some()
    }

    /// Takes a snapshot of a volume, as a CSI driver does.
    pub(crate) fn take_snapshot(&self, volume: &str) -> bool {
        cinder::Snapshot::take(&mut crate::lock(&self.state), volume, Timestamp::now())
    }

    /// Adds a port to a trunk, as a CNI plugin does.
    pub(crate) fn add_subport(&self, trunk: &str, port: &str) -> bool {
        neutron::trunks::carry(&mut crate::lock(&self.state), trunk, port, Timestamp::now())
    }

    /// Creates a share, as a CSI driver does.
    pub(crate) fn create_share(&self, new: &manila::SeededShare) -> Option<String> {
        let id = manila::Share::create(&mut crate::lock(&self.state), new, Timestamp::now())?;
        self.notify();
        Some(id)
    }

    /// Executes one call, with its injected error if one matches.
    pub(crate) async fn call(&self, request: &Request) -> CallOutcome {
        let latency = self.latency();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let cleared = self.faults.cleared();
        let effect = self.faults.take(request);
        if let Some(delay) = effect.as_ref().and_then(FaultEffect::delay) {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = cleared => {}
            }
        }
        match effect {
            Some(FaultEffect::DropBeforeEffect) => {
                self.record(request, None, 0);
                CallOutcome::Drop
            }
            Some(FaultEffect::Hang) => {
                self.record(request, None, 0);
                std::future::pending().await
            }
            Some(effect @ (FaultEffect::Status { .. } | FaultEffect::HtmlPage { .. })) => {
                let reply = effect.reply().unwrap_or_else(|| Reply::empty(StatusCode::INTERNAL_SERVER_ERROR));
                self.record(request, self.project_of(request), reply.status.as_u16());
                CallOutcome::Reply(named(reply, request))
            }
            Some(FaultEffect::DropAfterEffect) => {
                let (_, project) = self.answer(request, Fate::Success);
                self.record(request, project, 0);
                CallOutcome::Drop
            }
            Some(FaultEffect::StaleList) => {
                let (reply, project) = self.answer_of_the_past(request);
                self.record(request, project, reply.status.as_u16());
                CallOutcome::Reply(named(reply, request))
            }
            effect @ (Some(
                FaultEffect::Delay { .. } | FaultEffect::EndInError | FaultEffect::PendingForever,
            )
            | None) => {
                let fate = match effect {
                    Some(FaultEffect::EndInError) => Fate::Error,
                    Some(FaultEffect::PendingForever) => Fate::Pending,
                    _ => Fate::Success,
                };
                let (reply, project) = self.answer(request, fate);
                self.record(request, project, reply.status.as_u16());
                CallOutcome::Reply(named(reply, request))
            }
        }
    }

    fn project_of(&self, request: &Request) -> Option<String> {
        let state = crate::lock(&self.state);
        keystone::project_of(&state, request.header("x-auth-token")?).map(str::to_owned)
    }

    /// Returns the reply to a read from the state that was kept for it, and the name of the caller's project.
    fn answer_of_the_past(&self, request: &Request) -> (Reply, Option<String>) {
        let mut stale = crate::lock(&self.stale);
        let Some(state) = stale.as_mut().filter(|_| request.method.is_safe()) else {
            drop(stale);
            return self.answer(request, Fate::Success);
        };
        state.tokens.clone_from(&crate::lock(&self.state).tokens);
        let answer = dispatch(state, &self.options, request, Timestamp::now(), Fate::Success);
        drop(stale);
        (answer.unwrap_or_else(|refused| refused), self.project_of(request))
    }

    /// Returns the service's reply, and the name of the caller's project.
    fn answer(&self, request: &Request, fate: Fate) -> (Reply, Option<String>) {
        let now = Timestamp::now();
        let mut state = crate::lock(&self.state);
        let has_advanced = state.advance(now);
        let answer = dispatch(&mut state, &self.options, request, now, fate);
        let issued = answer.as_ref().ok().and_then(Reply::issued_token);
        let token = issued.or_else(|| request.header("x-auth-token"));
        let project = token.and_then(|token| keystone::project_of(&state, token)).map(str::to_owned);
        drop(state);
        let changed = answer.is_ok() && !request.method.is_safe();
        if has_advanced || changed {
            self.notify();
        }
        (answer.unwrap_or_else(|refused| refused), project)
    }

    fn record(&self, request: &Request, project: Option<String>, status: u16) {
        self.log.push(LoggedCall {
            time: Timestamp::now(),
            project,
            method: request.method.to_string(),
            path: request.path.clone(),
            query: request.raw_query.clone(),
            action: request.action(),
            status,
            request_id: request.request_id.clone(),
        });
    }
}

fn named(reply: Reply, request: &Request) -> Reply {
    reply.with_header(HeaderName::from_static("x-openstack-request-id"), &request.request_id)
}

/// Passes the request to its service.
fn dispatch(
    state: &mut CloudState,
    options: &SimulatorOptions,
    request: &Request,
    now: Timestamp,
    fate: Fate,
) -> HandlerResult {
    let service = CloudService::of(&request.path);
    let public = match service {
        CloudService::Identity => return keystone::handle(state, options, request, now),
        CloudService::Compute => nova::public(request),
        CloudService::Network => neutron::public(request),
        CloudService::Image => glance::public(request),
        CloudService::Volume => cinder::public(request),
        CloudService::LoadBalancer => octavia::public(request, options),
        CloudService::Share => manila::public(request, options),
    };
    if let Some(reply) = public {
        return Ok(reply);
    }
    let Some(caller) = keystone::caller(state, request, now) else {
        return Err(match (service, request.header("x-auth-token")) {
            // Only Glance passes calls without a token to its own, older error handling.
            (CloudService::Image, None) => Reply::html(StatusCode::UNAUTHORIZED, GLANCE_UNAUTHORIZED)
                .with_header(
                    http::header::WWW_AUTHENTICATE,
                    &format!("Keystone uri=\"{}/v3\"", request.base_url),
                ),
            _ => keystone::unauthorized(request),
        });
    };
    let microversion = if service == CloudService::Compute { nova::microversion(request)? } else { 1 };
    let context = Context { request, options, now, caller, microversion, fate };
    match service {
        CloudService::Compute => {
            let stamp = |reply| nova::stamp(reply, microversion, &request.request_id);
            nova::handle(state, &context).map(stamp).map_err(stamp)
        }
        CloudService::Network => neutron::handle(state, &context),
        CloudService::Image => glance::handle(state, &context),
        CloudService::LoadBalancer => octavia::handle(state, &context),
        CloudService::Share => manila::handle(state, &context),
        CloudService::Volume | CloudService::Identity => {
            let stamp = |reply| cinder::stamp(reply, request);
            cinder::handle(state, &context).map(stamp).map_err(stamp)
        }
    }
}

const GLANCE_UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the document you \
    requested. Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand \
    how to supply the credentials required.";
