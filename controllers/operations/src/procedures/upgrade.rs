//! Upgrade procedure: the choice between a rebuild and a replacement.
//!
//! The way is chosen once and written into the result. From then on the operation follows it
//! ([`crate::procedures::upgrade_rebuild`], [`crate::procedures::upgrade_replace`]). The server is
//! untouched until then, so an upgrade that is not possible is refused here.

use apiserver_types::{Machine, MachineOperation, OperationResult, UpgradeStrategy};
use async_trait::async_trait;
use controllers_infrastructure::{Image, ImageQuery, Server};
use controllers_runtime::{ReconcileError, Requeue};
use kube::ResourceExt;

use crate::core::claim::{IMAGE, UpgradeGoal};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain;
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::rejoin;
use crate::core::target::{Stop, Target};
use crate::procedures::image::{self, Unfound};
use crate::procedures::upgrade_rebuild::Rebuild;
use crate::procedures::upgrade_replace::Replace;

/// First step of every upgrade.
pub(crate) const CHOOSE: &str = "ChooseWay";

/// Reason why a Machine of a control plane is not upgraded in place.
const CONTROL_PLANE: &str = "the Machine belongs to a control plane, and its disk holds a member of etcd, which would be \
    lost. Change spec.version of its KubeadmControlPlane, which replaces its Machines one after another";

/// Way in which a server gets another image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nova's rebuild: the same server.
    Rebuild,
    /// A new server.
    Replace,
}

impl Way {
    /// Returns the name in the result.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Rebuild => "Rebuild",
            Self::Replace => "Replace",
        }
    }
}

/// Upgrade to another version: the choice of a way, then that way.
#[derive(Debug)]
pub(crate) struct Upgrade;

#[async_trait]
impl ActionProcedure for Upgrade {
    fn plan(&self, operation: &MachineOperation, machine: &Machine) -> Vec<&'static str> {
        node_drain::plan(operation, machine, vec![CHOOSE])
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        match way(&target.operation) {
            None => procedure::pass(&Choose, target).await,
            Some(Way::Rebuild) => procedure::pass(&Rebuild, target).await,
            Some(Way::Replace) => procedure::pass(&Replace, target).await,
        }
    }

    fn claims_server(&self) -> bool {
        true
    }
}

/// Returns the chosen way, if one was chosen.
pub(crate) fn way(operation: &MachineOperation) -> Option<Way> {
    let strategy = operation.status.as_ref()?.result.as_ref()?.strategy.as_deref()?;
    [Way::Rebuild, Way::Replace].into_iter().find(|way| way.word() == strategy)
}

/// Returns true if another way may be tried when one fails.
pub(crate) fn is_free(operation: &MachineOperation) -> bool {
    let strategy = operation.spec.upgrade.as_ref().and_then(|upgrade| upgrade.strategy);
    strategy.unwrap_or_default() == UpgradeStrategy::Auto
}

/// Returns the goal of an upgrade whose way was chosen, without the new server.
pub(crate) fn goal(target: &Target) -> UpgradeGoal {
    let result = target.operation.status.as_ref().and_then(|status| status.result.as_ref());
    UpgradeGoal {
        version: target.operation.spec.upgrade.clone().unwrap_or_default().version,
        image: result.and_then(|result| result.image_id.clone()).unwrap_or_default(),
        server: None,
    }
}

/// Describes an upgrade that is done: version, way, and the reason for the way.
pub(crate) fn done(target: &Target, way: Way) -> String {
    let why = target.step(CHOOSE).and_then(|step| step.message.as_deref()).unwrap_or_default();
    format!("upgraded to {} by {}: {why}", goal(target).version, way.word())
}

/// Choice of a way.
#[derive(Debug)]
pub(crate) struct Choose;

/// Everything a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    from: Option<String>,
    to: String,
    /// The image was named, and not derived from the version.
    image_named: bool,
    strategy: UpgradeStrategy,
    found: Result<(ImageQuery, Vec<Image>), Unfound>,
    machine: Machine,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Choose {
    type Observed = Observed;
    /// Choosing has no effect.
    type Effect = std::convert::Infallible;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let upgrade = target.operation.spec.upgrade.clone().unwrap_or_default();
        let server = target.server(target.server_id().unwrap_or_default()).await?;
        let from = target.machine.spec.version.clone();
        let present = match &upgrade.image {
            Some(_) => None,
            None => present_image(target, server.as_ref()).await?,
        };
        let query =
            image::query(upgrade.image.as_ref(), present.as_deref(), from.as_deref(), &upgrade.version);
        let found = match query {
            Ok(query) => Ok((query.clone(), target.cloud.images(&query).await?)),
            Err(unfound) => Err(unfound),
        };
        Ok(Observed {
            server,
            from,
            to: upgrade.version,
            image_named: upgrade.image.is_some(),
            strategy: upgrade.strategy.unwrap_or_default(),
            found,
            machine: target.machine.clone(),
            stop: target.stop(),
        })
    }

    fn decide(&self, observed: &Observed) -> Decision<Self::Effect> {
        choice(observed).map_or_else(
            |outcome| Decision::End(*outcome),
            |(way, image, why)| {
                let image = image.id.clone();
                let result = OperationResult {
                    strategy: Some(way.word().to_owned()),
                    server_id: observed.server.as_ref().map(|server| server.id.clone()),
                    image_id: Some(image),
                    ..OperationResult::default()
                };
                let plan = rejoin::plan(&observed.machine, steps(way));
                Decision::record(Change { plan, ..Change::of([StepUpdate::done(CHOOSE, why)]).with(result) })
            },
        )
    }

    async fn act(&self, _subject: &Target, effect: &Self::Effect) -> Result<Change, ReconcileError> {
        match *effect {}
    }
}

/// Returns the steps of a way.
fn steps(way: Way) -> Vec<&'static str> {
    match way {
        Way::Rebuild => crate::procedures::upgrade_rebuild::plan(),
        Way::Replace => crate::procedures::upgrade_replace::plan(),
    }
}

/// Returns the name of the server's present image.
async fn present_image(target: &Target, server: Option<&Server>) -> Result<Option<String>, ReconcileError> {
    let infrastructure = &target.infrastructure;
    let upgraded = infrastructure.annotations().get(IMAGE).cloned();
    let id = server.and_then(|server| server.image_id.clone()).or(upgraded);
    let made_from = &infrastructure.spec.image;
    let Some(id) = id.or_else(|| made_from.id.clone()) else {
        return Ok(made_from.filter.as_ref().and_then(|filter| filter.name.clone()));
    };
    let found = target.cloud.images(&ImageQuery { id: Some(id), ..ImageQuery::default() }).await?;
    Ok(found.into_iter().next().map(|image| image.name))
}

fn choice(observed: &Observed) -> Result<(Way, &Image, String), Box<Outcome>> {
    if let Some(stop) = &observed.stop {
        return Err(Box::new(Outcome::stopped(stop, "the server was not touched")));
    }
    let failed = |reason, message: String| Box::new(Outcome::failed(CHOOSE, reason, message));
    if rejoin::is_control_plane(&observed.machine) {
        return Err(failed("Unsupported", CONTROL_PLANE.to_owned()));
    }
    let Some(server) = &observed.server else {
        return Err(failed("ServerMissing", "Nova does not know the Machine's server (any more)".to_owned()));
    };
    if let Some(why) =
        apiserver_types::version::skew(observed.from.as_deref(), &observed.to, observed.image_named)
    {
        return Err(failed("VersionSkew", why));
    }
    let unfound = |unfound: &Unfound| failed(unfound.reason, unfound.message.clone());
    let (query, found) = observed.found.as_ref().map_err(unfound)?;
    let image = image::pick(query, found).map_err(|error| unfound(&error))?;
    let (way, why) = least_disruptive(observed.strategy, server.image_id.is_some())
        .map_err(|why| failed("RebuildImpossible", why.to_owned()))?;
    Ok((way, image, format!("{why}; the image is {:?}", image.name)))
}

/// Returns the way, and the reason for it.
fn least_disruptive(
    strategy: UpgradeStrategy,
    from_image: bool,
) -> Result<(Way, &'static str), &'static str> {
    match (strategy, from_image) {
        (UpgradeStrategy::Replace, _) => Ok((Way::Replace, "a replacement was requested")),
        (UpgradeStrategy::Rebuild, true) => Ok((Way::Rebuild, "a rebuild was requested")),
        (UpgradeStrategy::Rebuild, false) => {
            Err("the server boots from a volume, which Nova cannot rebuild with another image")
        }
        (UpgradeStrategy::Auto, true) => {
            Ok((Way::Rebuild, "a rebuild keeps the server's id, ports and addresses"))
        }
        (UpgradeStrategy::Auto, false) => {
            Ok((Way::Replace, "the server boots from a volume, which Nova cannot rebuild with another image"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(strategy: UpgradeStrategy, from_image: bool, from: &str) -> Observed {
        let image = Image { id: "i".to_owned(), status: "active".to_owned(), ..Image::default() };
        Observed {
            server: Some(Server { image_id: from_image.then(|| "old".to_owned()), ..Server::default() }),
            from: Some(from.to_owned()),
            to: "v1.30.0".to_owned(),
            image_named: false,
            strategy,
            found: Ok((ImageQuery::default(), vec![image])),
            machine: Machine::default(),
            stop: None,
        }
    }

    #[test]
    fn the_strategy_is_the_requested_or_the_least_disruptive_possible_one() {
        use UpgradeStrategy::{Auto, Rebuild, Replace};
        let stop = Some(Stop { reason: "Requested", why: String::new() });
        let table = [
            (observed(Auto, true, "v1.29.0"), "Rebuild"),
            (observed(Auto, false, "v1.29.0"), "Replace"),
            (observed(Rebuild, true, "v1.29.0"), "Rebuild"),
            (observed(Rebuild, false, "v1.29.0"), "RebuildImpossible"),
            (observed(Replace, true, "v1.29.0"), "Replace"),
            (observed(Auto, true, "v1.28.0"), "VersionSkew"),
            (observed(Auto, true, "v1.30.0"), "VersionSkew"),
            (Observed { image_named: true, ..observed(Auto, true, "v1.30.0") }, "Rebuild"),
            (Observed { server: None, ..observed(Auto, true, "v1.29.0") }, "ServerMissing"),
            (Observed { stop, ..observed(Auto, true, "v1.29.0") }, "Requested"),
            (
                Observed {
                    found: Ok((ImageQuery::default(), Vec::new())),
                    ..observed(Auto, true, "v1.29.0")
                },
                "ImageNotFound",
            ),
        ];
        for (observed, expected) in table {
            let found = match Choose.decide(&observed) {
                Decision::Record(change) => change.result.strategy.unwrap_or_default(),
                Decision::End(outcome) => outcome.reason.to_owned(),
                other => format!("{other:?}"),
            };
            assert_eq!(found, expected, "{observed:?}");
        }
    }
}
