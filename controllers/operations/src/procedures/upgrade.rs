//! Upgrade: where to, and in which way.
//!
//! The way is chosen once and written into the result; from then on the operation is that way's
//! ([`crate::procedures::upgrade_rebuild`], [`crate::procedures::upgrade_replace`]). Nothing has been touched until then,
//! so whatever cannot be done is refused here.

use apiserver_types::{MachineOperation, OperationResult, UpgradeStrategy};
use async_trait::async_trait;
use controllers_infrastructure::{Image, ImageQuery, Server};
use controllers_runtime::{ReconcileError, Requeue};
use kube::ResourceExt;

use crate::core::claim::{IMAGE, UpgradeTarget};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target};
use crate::procedures::image::{self, Unfound};
use crate::procedures::upgrade_rebuild::Rebuild;
use crate::procedures::upgrade_replace::Replace;

/// The one step that every upgrade begins with.
pub(crate) const CHOOSE: &str = "ChooseWay";

/// How a server gets another image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nova's rebuild: the same server.
    Rebuild,
    /// A new server.
    Replace,
}

impl Way {
    /// Its word in the result.
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
    fn plan(&self, _operation: &MachineOperation) -> Vec<&'static str> {
        vec![CHOOSE]
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

/// The way that was chosen, if one was.
pub(crate) fn way(operation: &MachineOperation) -> Option<Way> {
    let strategy = operation.status.as_ref()?.result.as_ref()?.strategy.as_deref()?;
    [Way::Rebuild, Way::Replace].into_iter().find(|way| way.word() == strategy)
}

/// Whether another way may be taken when one does not work.
pub(crate) fn is_free(operation: &MachineOperation) -> bool {
    let strategy = operation.spec.upgrade.as_ref().and_then(|upgrade| upgrade.strategy);
    strategy.unwrap_or_default() == UpgradeStrategy::Auto
}

/// Where an upgrade whose way was chosen goes, without the new server.
pub(crate) fn target(subject: &Target) -> UpgradeTarget {
    let result = subject.operation.status.as_ref().and_then(|status| status.result.as_ref());
    UpgradeTarget {
        version: subject.operation.spec.upgrade.clone().unwrap_or_default().version,
        image: result.and_then(|result| result.image_id.clone()).unwrap_or_default(),
        server: None,
    }
}

/// What is said of an upgrade that is done: where it went, in which way, and why in that one.
pub(crate) fn done(subject: &Target, way: Way) -> String {
    let why = subject.step(CHOOSE).and_then(|step| step.message.as_deref()).unwrap_or_default();
    format!("upgraded to {} by {}: {why}", target(subject).version, way.word())
}

/// The choice of a way.
#[derive(Debug)]
pub(crate) struct Choose;

/// What a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    from: Option<String>,
    to: String,
    /// Whether the image was named, and not derived from the version.
    image_named: bool,
    strategy: UpgradeStrategy,
    found: Result<(ImageQuery, Vec<Image>), Unfound>,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Choose {
    type Observed = Observed;
    /// There is nothing to do in choosing.
    type Effect = std::convert::Infallible;

    async fn observe(&self, subject: &Target) -> Result<Observed, ReconcileError> {
        let upgrade = subject.operation.spec.upgrade.clone().unwrap_or_default();
        let server = subject.server(subject.server_id().unwrap_or_default()).await?;
        let from = subject.machine.spec.version.clone();
        let present = match &upgrade.image {
            Some(_) => None,
            None => present_image(subject, server.as_ref()).await?,
        };
        let query =
            image::query(upgrade.image.as_ref(), present.as_deref(), from.as_deref(), &upgrade.version);
        let found = match query {
            Ok(query) => Ok((query.clone(), subject.cloud.images(&query).await?)),
            Err(unfound) => Err(unfound),
        };
        Ok(Observed {
            server,
            from,
            to: upgrade.version,
            image_named: upgrade.image.is_some(),
            strategy: upgrade.strategy.unwrap_or_default(),
            found,
            stop: subject.stop(),
        })
    }

    fn decide(&self, seen: &Observed) -> Decision<Self::Effect> {
        choice(seen).map_or_else(
            |outcome| Decision::End(*outcome),
            |(way, image, why)| {
                let image = image.id.clone();
                let result = OperationResult {
                    strategy: Some(way.word().to_owned()),
                    server_id: seen.server.as_ref().map(|server| server.id.clone()),
                    image_id: Some(image),
                    ..OperationResult::default()
                };
                let plan = steps(way);
                Decision::record(Change { plan, ..Change::of([StepUpdate::done(CHOOSE, why)]).with(result) })
            },
        )
    }

    async fn act(&self, _subject: &Target, effect: &Self::Effect) -> Result<Change, ReconcileError> {
        match *effect {}
    }
}

/// The steps of a way.
fn steps(way: Way) -> Vec<&'static str> {
    match way {
        Way::Rebuild => crate::procedures::upgrade_rebuild::plan(),
        Way::Replace => crate::procedures::upgrade_replace::plan(),
    }
}

/// The name of the image that the server has now.
async fn present_image(subject: &Target, server: Option<&Server>) -> Result<Option<String>, ReconcileError> {
    let infrastructure = &subject.infrastructure;
    let upgraded = infrastructure.annotations().get(IMAGE).cloned();
    let id = server.and_then(|server| server.image_id.clone()).or(upgraded);
    let made_from = &infrastructure.spec.image;
    let Some(id) = id.or_else(|| made_from.id.clone()) else {
        return Ok(made_from.filter.as_ref().and_then(|filter| filter.name.clone()));
    };
    let found = subject.cloud.images(&ImageQuery { id: Some(id), ..ImageQuery::default() }).await?;
    Ok(found.into_iter().next().map(|image| image.name))
}

fn choice(seen: &Observed) -> Result<(Way, &Image, String), Box<Outcome>> {
    if let Some(stop) = &seen.stop {
        return Err(Box::new(Outcome::stopped(stop, "the server was not touched")));
    }
    let failed = |reason, message: String| Box::new(Outcome::failed(CHOOSE, reason, message));
    let Some(server) = &seen.server else {
        return Err(failed("ServerMissing", "Nova does not know the Machine's server (any more)".to_owned()));
    };
    if let Some(why) = apiserver_types::version::skew(seen.from.as_deref(), &seen.to, seen.image_named) {
        return Err(failed("VersionSkew", why));
    }
    let unfound = |unfound: &Unfound| failed(unfound.reason, unfound.message.clone());
    let (query, found) = seen.found.as_ref().map_err(unfound)?;
    let image = image::pick(query, found).map_err(|error| unfound(&error))?;
    let (way, why) = least_disruptive(seen.strategy, server.image_id.is_some())
        .map_err(|why| failed("RebuildImpossible", why.to_owned()))?;
    Ok((way, image, format!("{why}; the image is {:?}", image.name)))
}

/// The way, and why that one.
fn least_disruptive(
    strategy: UpgradeStrategy,
    from_image: bool,
) -> Result<(Way, &'static str), &'static str> {
    match (strategy, from_image) {
        (UpgradeStrategy::Replace, _) => Ok((Way::Replace, "a replacement was asked for")),
        (UpgradeStrategy::Rebuild, true) => Ok((Way::Rebuild, "a rebuild was asked for")),
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

    fn seen(strategy: UpgradeStrategy, from_image: bool, from: &str) -> Observed {
        let image = Image { id: "i".to_owned(), status: "active".to_owned(), ..Image::default() };
        Observed {
            server: Some(Server { image_id: from_image.then(|| "old".to_owned()), ..Server::default() }),
            from: Some(from.to_owned()),
            to: "v1.30.0".to_owned(),
            image_named: false,
            strategy,
            found: Ok((ImageQuery::default(), vec![image])),
            stop: None,
        }
    }

    #[test]
    fn the_least_disruptive_way_that_works_or_the_one_that_was_insisted_on() {
        use UpgradeStrategy::{Auto, Rebuild, Replace};
        let stop = Some(Stop { reason: "Requested", why: String::new() });
        let table = [
            (seen(Auto, true, "v1.29.0"), "Rebuild"),
            (seen(Auto, false, "v1.29.0"), "Replace"),
            (seen(Rebuild, true, "v1.29.0"), "Rebuild"),
            (seen(Rebuild, false, "v1.29.0"), "RebuildImpossible"),
            (seen(Replace, true, "v1.29.0"), "Replace"),
            (seen(Auto, true, "v1.28.0"), "VersionSkew"),
            (seen(Auto, true, "v1.30.0"), "VersionSkew"),
            (Observed { image_named: true, ..seen(Auto, true, "v1.30.0") }, "Rebuild"),
            (Observed { server: None, ..seen(Auto, true, "v1.29.0") }, "ServerMissing"),
            (Observed { stop, ..seen(Auto, true, "v1.29.0") }, "Requested"),
            (
                Observed { found: Ok((ImageQuery::default(), Vec::new())), ..seen(Auto, true, "v1.29.0") },
                "ImageNotFound",
            ),
        ];
        for (seen, expected) in table {
            let found = match Choose.decide(&seen) {
                Decision::Record(change) => change.result.strategy.unwrap_or_default(),
                Decision::End(outcome) => outcome.reason.to_owned(),
                other => format!("{other:?}"),
            };
            assert_eq!(found, expected, "{seen:?}");
        }
    }
}
