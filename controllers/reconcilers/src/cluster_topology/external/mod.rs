//! Extension servers that a class names: for patches of its templates, and for plans of upgrades.

mod patches;
mod plans;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::ClusterClass;
use controllers_extensions::{
    AnswerCache, Cause, ExtensionError, ExtensionServers, Extensions, GenerateUpgradePlanResponse,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use tokio::time::{Instant, timeout_at};

use super::blueprint::FAILED;
use super::preview::Refusal;
pub(super) use patches::patch;
pub(super) use plans::upgrade_plan;

/// Plans that servers have made.
pub(super) type Plans = AnswerCache<GenerateUpgradePlanResponse>;

/// Longest time of all calls of a preview: its client waits.
const PREVIEW: Duration = Duration::from_secs(10);

/// Longest text about an answer that cannot be used. Parts of it are the server's. Unit: characters.
const LONGEST_TEXT: usize = 1000;

/// Extension servers, as a pass or a preview sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct External<'a> {
    extensions: &'a Extensions,
    plans: &'a Plans,
    /// End of all calls of a preview. In a pass, each call has the timeout of its handler alone.
    end: Option<Instant>,
}

/// Reason for which there are no patched templates, or no plan.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The topology does not lead to any: a patch fails, or a server refuses. For people.
    Refused(String),
    /// A server cannot be called, or the API's own failure.
    Unknown(ReconcileError),
}

impl Obstacle {
    /// Returns the obstacle of a preview. `field` is that of the Cluster.
    pub(super) fn of_preview(self, field: &'static str) -> Refusal {
        match self {
            Self::Refused(message) => Refusal::Field(field, message),
            Self::Unknown(error) => Refusal::Failed(error),
        }
    }

    /// Returns the refusal of an answer that cannot be used.
    fn unusable(text: &str) -> Self {
        Self::Refused(text.chars().take(LONGEST_TEXT).collect())
    }
}

impl From<Obstacle> for ReconcileError {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Refused(message) => Self::waiting(FAILED, message),
            Obstacle::Unknown(error) => error,
        }
    }
}

impl<'a> External<'a> {
    /// Returns the servers of a pass.
    pub(super) fn new(extensions: &'a Extensions, plans: &'a Plans) -> Self {
        Self { extensions, plans, end: None }
    }

    /// Waits for the answer of a handler. `of` is what needs it, for people.
    async fn answer<T>(
        &self,
        (of, handler): (&str, &str),
        answer: impl Future<Output = Result<T, ExtensionError>>,
    ) -> Result<T, Obstacle> {
        let unknown = |text: String| Obstacle::Unknown(ReconcileError::waiting(FAILED, text));
        let answer = match self.end {
            None => answer.await,
            Some(end) => match timeout_at(end, answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    let limit = PREVIEW.as_secs();
                    return Err(unknown(format!(
                        "{of}: extension handler {handler} did not answer in time: a preview waits \
                         {limit} seconds for all servers"
                    )));
                }
            },
        };
        answer.map_err(|error| match (error, self.end) {
            (ExtensionError::Api(error), None) => Obstacle::Unknown(error.into()),
            (ExtensionError::Api(error), Some(_)) => {
                unknown(format!("{of}: whether extension handler {handler} is called is not known: {error}"))
            }
            (error, _) if error.cause() == Some(Cause::Refused) => {
                Obstacle::Refused(format!("{of}: {error}"))
            }
            (error, _) => unknown(format!("{of}: {error}")),
        })
    }
}

/// Extension servers of a preview.
#[derive(Debug)]
pub(super) struct Previewed {
    extensions: Extensions,
    plans: Plans,
    end: Instant,
}

impl Previewed {
    /// Reads the servers, if the class names any.
    ///
    /// # Errors
    /// The API's own failure.
    pub(super) async fn read(
        context: &ControllerContext,
        class: &ClusterClass,
    ) -> Result<Self, ReconcileError> {
        let servers = ExtensionServers::default();
        let extensions = match names_servers(class) {
            true => Extensions::read(context, &servers).await?,
            false => Extensions::of(Vec::new(), Arc::clone(&context.secrets), &servers),
        };
        Ok(Self { extensions, plans: Plans::default(), end: Instant::now() + PREVIEW })
    }

    /// Returns the servers, whose calls all end after a time.
    pub(super) fn external(&self) -> External<'_> {
        External { end: Some(self.end), ..External::new(&self.extensions, &self.plans) }
    }
}

/// Returns true if a class names servers that patch templates, or that plan upgrades.
pub(super) fn names_servers(class: &ClusterClass) -> bool {
    has_external_patch(class) || plans::handler(class).is_some()
}

fn has_external_patch(class: &ClusterClass) -> bool {
    class.spec.patches.iter().flatten().any(|patch| patch.external.is_some())
}
