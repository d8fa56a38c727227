//! Preview of a dry run: the plan of the change, as warnings. The verb `plan` answers with the whole of it.
//!
//! A dry run reads no workload cluster: tools make dry runs of all their objects again and again, and each would be a new
//! connection there.

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::admission::{Action, Permissions};
use apiserver_machinery::object;
use apiserver_machinery::preview::{Preview, PreviewedChange, Warnings};
use apiserver_machinery::status::ApiResult;
use apiserver_trace::carried;
use apiserver_types::{Cluster, Described, Descriptor, KubeadmControlPlane, MachineDeployment};
use serde_json::Value;

use crate::rules::plan_lines::{self, Line};
use crate::rules::plan_verb::{NAME, PlanFailure, PlanLimits, Planner, PlannerSlot};
use crate::rules::template_revision;

/// Longest time of the reads in clouds. A cloud usually answers them within a second, and the client of a dry run waits.
/// Without an answer, a warning says so, and the others are complete.
const CLOUDS: Duration = Duration::from_secs(2);

/// Kinds with a preview. For each, those whose verb `plan` the client must be allowed to use: the kind itself, or, for a
/// template, the users of its objects.
const SUBJECTS: [(&str, &[Descriptor]); 5] = [
    (Cluster::DESCRIPTOR.kind, &[Cluster::DESCRIPTOR]),
    (MachineDeployment::DESCRIPTOR.kind, &[MachineDeployment::DESCRIPTOR]),
    (KubeadmControlPlane::DESCRIPTOR.kind, &[KubeadmControlPlane::DESCRIPTOR]),
    ("OpenStackMachineTemplate", &[KubeadmControlPlane::DESCRIPTOR, MachineDeployment::DESCRIPTOR]),
    ("KubeadmConfigTemplate", &[MachineDeployment::DESCRIPTOR]),
];

/// Returns the preview of a kind, if it has one.
pub(crate) fn of(kind: &str, slot: &PlannerSlot) -> Option<Arc<dyn Preview>> {
    let (kind, planned) = *SUBJECTS.iter().find(|(known, _)| *known == kind)?;
    Some(Arc::new(PlanPreview { subject: Subject { kind, planned }, slot: Arc::clone(slot) }))
}

/// Kind of the changed object.
#[derive(Debug, Clone, Copy)]
struct Subject {
    kind: &'static str,
    planned: &'static [Descriptor],
}

impl Subject {
    /// Returns the description of the kind, if it has the verb.
    fn own(self) -> Option<&'static Descriptor> {
        self.planned.iter().find(|it| it.kind == self.kind)
    }

    /// Returns the kinds whose plans the client may see. The warnings have nothing that the verb does not show.
    ///
    /// # Errors
    /// The authorizer does not answer.
    async fn permitted(self, permissions: &dyn Permissions, new: &Value) -> ApiResult<Vec<&'static str>> {
        let mut permitted = Vec::new();
        for &Descriptor { group, version, kind, plural, .. } in self.planned {
            // The users of a template are not known yet, so the permission must be one for all. No object is named `*`.
            let name = if kind == self.kind { object::name(new) } else { "" };
            let namespace = object::namespace(new);
            let shown = if name.is_empty() { "*" } else { name };
            let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{shown}/{NAME}");
            if !permissions.may_send("POST", &path) {
                continue;
            }
            let action = Action {
                verb: "create",
                group,
                version,
                resource: plural,
                subresource: NAME,
                namespace,
                name,
            };
            match permissions.require(action).await {
                Ok(()) => permitted.push(kind),
                Err(error) if error.code == 403 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(permitted)
    }

    /// Returns the last warning, which says where the whole plan is.
    fn more(self, changed: &Value) -> String {
        let (name, namespace) = (object::name(changed), object::namespace(changed));
        match self.own() {
            Some(own) => format!(
                "The whole plan, with all steps: capstan plan {} {name} -n {namespace} -f FILE, or POST to \
                 {}/{name}/{NAME}",
                own.singular, own.plural
            ),
            None => String::new(),
        }
    }
}

/// Preview by the planner of the verb.
#[derive(Debug)]
struct PlanPreview {
    subject: Subject,
    slot: PlannerSlot,
}

impl Preview for PlanPreview {
    fn warnings(&self, change: PreviewedChange) -> Warnings {
        let (subject, slot) = (self.subject, Arc::clone(&self.slot));
        Box::pin(carried(async move { warnings(subject, &slot, change).await }))
    }
}

async fn warnings(subject: Subject, slot: &PlannerSlot, change: PreviewedChange) -> Vec<String> {
    let PreviewedChange { old, new, permissions } = change;
    // An edit of a template that needs no other Machines has no revision.
    if subject.own().is_none() && template_revision::revision(&new) == template_revision::revision(&old) {
        return Vec::new();
    }
    let of_change = format!("{} {}", subject.kind, object::name(&new));
    let permitted = match subject.permitted(permissions.as_ref(), &new).await {
        Ok(permitted) if permitted.is_empty() => return Vec::new(),
        Ok(permitted) => permitted,
        Err(error) => return vec![unknown(&of_change, &error.message)],
    };
    let Some(planner) = slot.get() else {
        return vec![unknown(&of_change, "this server is starting")];
    };
    let more = subject.more(&new);
    match planned(planner.as_ref(), subject, (old, new), &permitted).await {
        Ok(lines) if lines.is_empty() => Vec::new(),
        Ok(lines) => plan_lines::warnings(&lines, &more),
        Err(PlanFailure::Unavailable(text)) => vec![unknown(&of_change, &text)],
        Err(PlanFailure::Invalid(field, text)) => {
            let text = format!("{of_change}: the controllers cannot make this change: {field}: {text}");
            vec![plan_lines::bounded(&text)]
        }
    }
}

fn unknown(of_change: &str, why: &str) -> String {
    plan_lines::bounded(&format!("{of_change}: the effects on Machines are not known: {why}"))
}

/// Returns the lines of the plan; none if the change has no effects on Machines. A rollout that goes on in the same way
/// without the change is no effect of it.
async fn planned(
    planner: &dyn Planner,
    subject: Subject,
    (old, new): (Value, Value),
    permitted: &[&str],
) -> Result<Vec<Line>, PlanFailure> {
    let name = object::name(&new).to_owned();
    let shown = subject.own().is_none().then_some(permitted);
    let lines = |plan: &Value| plan_lines::lines(plan, subject.kind, &name, shown);
    let limits = PlanLimits { clouds: CLOUDS, ..PlanLimits::default() };
    let after = lines(&planner.plan(subject.kind, new, old.clone(), limits).await?);
    if after.is_empty() {
        return Ok(after);
    }
    // Only its effects count, so it reads no cloud. An error of it hides nothing.
    let before = planner.plan(subject.kind, old.clone(), old, PlanLimits::default()).await;
    let before = before.map(|before| lines(&before)).unwrap_or_default();
    let is_same = plan_lines::effects(&before) == plan_lines::effects(&after);
    Ok(if is_same { Vec::new() } else { after })
}

#[cfg(test)]
#[path = "plan_preview_tests.rs"]
mod tests;
