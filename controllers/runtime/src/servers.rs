//! Server lists: the Nova servers of each project, listed once for all passes that need them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use controllers_infrastructure::{Cloud, CloudResult, Server};

/// Time and result of one list call.
type Listed = Option<(Instant, CloudResult<Arc<HashMap<String, Server>>>)>;

/// Age up to which a failure is shared: callers that waited for the call do not repeat it.
const FAILURE_AGE: Duration = Duration::from_secs(2);

/// List of one project. One caller at a time makes the call, and those that wait share the result.
type Project = Arc<tokio::sync::Mutex<Listed>>;

/// Server lists of all projects.
#[derive(Debug, Default)]
pub struct ServerLists {
    /// By the address of the cloud, which is unique while the cloud lives.
    projects: Mutex<HashMap<usize, Known>>,
}

/// A cloud and its list.
type Known = (Weak<dyn Cloud>, Project);

impl ServerLists {
    /// Returns the servers of a project by id, at most `age` old.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn list(
        &self,
        cloud: &Arc<dyn Cloud>,
        age: Duration,
    ) -> CloudResult<Arc<HashMap<String, Server>>> {
        let project = self.project(cloud);
        let mut listed = project.lock().await;
        match listed.as_ref() {
            Some((at, Ok(servers))) if at.elapsed() <= age => return Ok(Arc::clone(servers)),
            Some((at, Err(error))) if at.elapsed() <= FAILURE_AGE => return Err(error.clone()),
            _ => {}
        }
        // A list is as old as its request; a failure is as old as its response, which may take a minute.
        let requested = Instant::now();
        let servers = cloud.servers().await;
        let servers = servers.map(|servers| {
            Arc::new(servers.into_iter().map(|server| (server.id.clone(), server)).collect::<HashMap<_, _>>())
        });
        let at = if servers.is_ok() { requested } else { Instant::now() };
        *listed = Some((at, servers.clone()));
        servers
    }

    fn project(&self, cloud: &Arc<dyn Cloud>) -> Project {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.retain(|_, (cloud, _)| cloud.strong_count() > 0);
        let key = Arc::as_ptr(cloud).addr();
        let (_, project) = projects.entry(key).or_insert_with(|| (Arc::downgrade(cloud), Project::default()));
        Arc::clone(project)
    }
}
