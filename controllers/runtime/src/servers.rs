//! Lists of each project: its Nova servers, listed once for all passes, and what looks at rest share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use controllers_infrastructure::{Cloud, CloudResult, Server};

use crate::SteadyClock;
use crate::rest::{Kept, ProjectReads, ReadingCloud};

/// Servers by id.
type Servers = HashMap<String, Server>;

/// Lists of one project.
#[derive(Debug, Default)]
struct Project {
    servers: Kept<Servers>,
    reads: Arc<ProjectReads>,
}

/// Owner of the lists of a project: its credentials, or a cloud without any.
#[derive(Debug)]
enum Owner {
    Line(Weak<()>),
    Cloud(Weak<dyn Cloud>),
}

impl Owner {
    fn exists(&self) -> bool {
        match self {
            Self::Line(line) => line.strong_count() > 0,
            Self::Cloud(cloud) => cloud.strong_count() > 0,
        }
    }
}

/// Lists by the address of their owner, which is unique while the owner lives, and the id of the project.
type Projects = HashMap<(usize, String), (Owner, Arc<Project>)>;

/// Lists of all projects: servers, and what looks at rest share. Users of other credentials share nothing, even in the
/// same project.
#[derive(Debug, Default)]
pub struct ServerLists {
    clock: SteadyClock,
    projects: Mutex<Projects>,
}

impl ServerLists {
    /// Creates lists whose ages this clock measures.
    pub fn with_clock(clock: SteadyClock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Returns the clock of the ages.
    pub fn clock(&self) -> &SteadyClock {
        &self.clock
    }

    /// Returns the servers of a project by id, at most `age` old.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn list(&self, cloud: &Arc<dyn Cloud>, age: Duration) -> CloudResult<Arc<Servers>> {
        let project = self.project(cloud);
        let reads = &project.reads;
        let read = async {
            let servers = cloud.servers().await?;
            reads.count(servers.iter());
            Ok(servers.into_iter().map(|server| (server.id.clone(), server)).collect())
        };
        project.servers.get(&self.clock, "", age, read).await
    }

    /// Returns the servers of a project by id for a look at rest: five to ten minutes old at most, the older the fewer
    /// Machines the project has.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn list_at_rest(&self, cloud: &Arc<dyn Cloud>) -> CloudResult<Arc<Servers>> {
        let age = self.project(cloud).reads.age_of_servers();
        self.list(cloud, age).await
    }

    /// Returns a cloud that reads directly, refuses changes, and keeps the results for looks at rest.
    pub fn direct(&self, cloud: &Arc<dyn Cloud>) -> Arc<dyn Cloud> {
        self.reading(cloud, false)
    }

    /// Returns a cloud for a look at rest: it refuses changes. Its results are ten minutes old at most where they decide who
    /// may connect, and up to an hour otherwise, the older the fewer Machines the project has.
    pub fn at_rest(&self, cloud: &Arc<dyn Cloud>) -> Arc<dyn Cloud> {
        self.reading(cloud, true)
    }

    fn reading(&self, cloud: &Arc<dyn Cloud>, is_at_rest: bool) -> Arc<dyn Cloud> {
        let reads = Arc::clone(&self.project(cloud).reads);
        Arc::new(ReadingCloud { cloud: Arc::clone(cloud), reads, clock: self.clock.clone(), is_at_rest })
    }

    fn project(&self, cloud: &Arc<dyn Cloud>) -> Arc<Project> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.retain(|_, (owner, _)| owner.exists());
        let (address, owner) = match cloud.line() {
            Some(line) => (Arc::as_ptr(&line).addr(), Owner::Line(Arc::downgrade(&line))),
            None => (Arc::as_ptr(cloud).addr(), Owner::Cloud(Arc::downgrade(cloud))),
        };
        let key = (address, cloud.project().to_owned());
        let (_, project) = projects.entry(key).or_insert_with(|| (owner, Arc::default()));
        Arc::clone(project)
    }
}
