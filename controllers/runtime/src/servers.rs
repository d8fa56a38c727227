//! The servers of each project, listed once for all who ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use controllers_infrastructure::{Cloud, CloudResult, Server};

/// What one list said.
type Listed = Option<(Instant, CloudResult<Arc<HashMap<String, Server>>>)>;

/// How long a failure is the answer for all: those who waited for the call need not repeat it.
const FAILURE_AGE: Duration = Duration::from_secs(2);

/// A project's list; asked for by one at a time, so that all who wait share one answer.
type Project = Arc<tokio::sync::Mutex<Listed>>;

/// The server lists of all projects.
#[derive(Debug, Default)]
pub struct ServerLists {
    /// By the address of the cloud, which nobody else has while it lives.
    projects: Mutex<HashMap<usize, Known>>,
}

/// A cloud and its list.
type Known = (Weak<dyn Cloud>, Project);

impl ServerLists {
    /// The servers of a project by id, as of at most `age` ago.
    ///
    /// # Errors
    /// As the cloud's.
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
        // A list is as old as its question; a failure as its answer, which may have taken a minute.
        let asked = Instant::now();
        let servers = cloud.servers().await;
        let servers = servers.map(|servers| {
            Arc::new(servers.into_iter().map(|server| (server.id.clone(), server)).collect::<HashMap<_, _>>())
        });
        let at = if servers.is_ok() { asked } else { Instant::now() };
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
