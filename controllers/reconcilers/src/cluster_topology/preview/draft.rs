//! Writes of the next passes, as dry runs.

use std::collections::BTreeMap;

use apiserver_types::Cluster;
use controllers_runtime::ControllerContext;
use serde_json::Value;

use super::super::blueprint::{Blueprint, groups, value};
use super::super::compare::{self, Difference};
use super::super::current::Current;
use super::super::desired::{self, Desired, DesiredGroup, name};
use super::super::external::{self, External};
use super::super::naming;
use super::super::upgrade::order::Order;
use super::super::write::{Writer, renamed};
use super::{ObjectEffect, Owner, Preview, PreviewedObject, Refusal};

/// Field of the topology.
const TOPOLOGY: &str = "spec.topology";

/// Preview in the making.
pub(super) struct Draft<'a> {
    writer: Writer<'a>,
    cluster: &'a Cluster,
    blueprint: &'a Blueprint,
    external: External<'a>,
    current: &'a Current,
    order: &'a Order,
    preview: Preview,
    /// Names of the health checks that are wanted.
    checks: Vec<String>,
}

/// Passes of an order in which an object is written first. An object that waits is not written by the first pass.
struct Turns {
    control_plane: Option<usize>,
    /// By the name of the group in the topology.
    groups: BTreeMap<String, usize>,
}

impl Turns {
    fn of(order: &Order, cluster: &Cluster) -> Self {
        let control_plane = order.control_plane_turn();
        let turn = |group: &str| {
            let is_written =
                |pass: &super::super::upgrade::Upgrade| pass.group(group).is_some_and(|it| it.is_written());
            order.passes.iter().position(is_written)
        };
        let groups = groups(cluster).iter();
        let groups = groups.filter_map(|it| Some((it.name.clone(), turn(&it.name)?))).collect();
        Self { control_plane, groups }
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        context: &'a ControllerContext,
        cluster: &'a Cluster,
        (blueprint, external): (&'a Blueprint, External<'a>),
        current: &'a Current,
        order: &'a Order,
    ) -> Self {
        let writer = Writer::new(context, cluster);
        let (preview, checks) = Default::default();
        Self { writer, cluster, blueprint, external, current, order, preview, checks }
    }

    /// Makes the preview, in the order of a pass.
    pub(super) async fn preview(mut self) -> Result<Preview, Refusal> {
        let turns = Turns::of(self.order, self.cluster);
        let first = Box::pin(self.desired(0)).await?;
        let known = self.current.infrastructure.as_ref();
        let infrastructure = self.object(&first.infrastructure, known).await?;
        self.preview.infrastructure = known.is_none().then_some(infrastructure);
        self.check(first.control_plane_check.as_ref()).await?;
        let written = match turns.control_plane {
            Some(0) => Some(first.clone()),
            Some(pass) => Some(Box::pin(self.desired(pass)).await?),
            None => None,
        };
        self.control_plane(written).await?;
        for topology in groups(self.cluster) {
            let of = |desired: &Desired| {
                desired.groups.iter().find(|it| it.topology_name == topology.name).cloned()
            };
            match turns.groups.get(&topology.name) {
                Some(0) => self.group(of(&first)).await?,
                Some(pass) => {
                    let desired = Box::pin(self.desired(*pass)).await?;
                    self.group(of(&desired)).await?;
                }
                None => self.unwritten_group(of(&first)).await?,
            }
        }
        self.deletions();
        Ok(self.preview)
    }

    /// Returns the objects that a pass wants.
    async fn desired(&self, pass: usize) -> Result<Desired, Refusal> {
        let refused = |message: String| Refusal::Field(TOPOLOGY, message);
        let Some(upgrade) = self.order.passes.get(pass) else {
            return Err(refused("the versions of the topology have no order".to_owned()));
        };
        let parts = desired::parts(self.cluster, self.blueprint, self.current, upgrade).map_err(refused)?;
        let patched = external::patch(&self.external, self.cluster, self.blueprint, &parts).await;
        let patched = patched.map_err(|obstacle| obstacle.of_preview(TOPOLOGY))?;
        desired::desired(self.cluster, self.blueprint, &parts, &patched).map_err(refused)
    }

    fn note(&mut self, effect: ObjectEffect, object: &Value, fields: Vec<String>) {
        self.preview.objects.push(PreviewedObject::of(effect, object, fields));
    }

    /// Examines an object. Returns it as it would be.
    async fn object(&mut self, intent: &Value, current: Option<&Value>) -> Result<Value, Refusal> {
        let Some(current) = current else {
            let made = self.writer.create_dry(intent).await?;
            self.note(ObjectEffect::Create, intent, Vec::new());
            return Ok(made);
        };
        let compared = self.writer.compare(intent, current).await?;
        let dry = compared.dry.map_or_else(|| intent.clone(), compare::unmarked);
        let fields = compare::fields(current, &dry);
        if compared.difference != Difference::None && !fields.is_empty() {
            self.note(ObjectEffect::Change, current, fields);
        }
        Ok(dry)
    }

    /// Examines a template. Returns its name.
    async fn template(&mut self, intent: &Value, current: Option<&Value>) -> Result<String, Refusal> {
        let Some(current) = current else {
            let made = self.writer.create_dry(intent).await?;
            self.note(ObjectEffect::Create, intent, Vec::new());
            self.preview.templates.push(made);
            return Ok(name(intent));
        };
        let compared = self.writer.compare_template(intent, current).await?;
        let fields = match &compared.dry {
            Some(dry) => compare::fields(current, &compare::unmarked(dry.clone())),
            None => vec!["kind".to_owned()],
        };
        if compared.difference == Difference::Spec {
            let intent = renamed(intent, &naming::prefix_of(intent));
            let made = self.writer.create_dry(&intent).await?;
            self.note(ObjectEffect::Rotate, current, fields);
            self.preview.templates.push(made);
            return Ok(name(&intent));
        }
        if compared.difference == Difference::Metadata && !fields.is_empty() {
            self.note(ObjectEffect::Change, current, fields);
        }
        Ok(name(current))
    }

    async fn check(&mut self, intent: Option<&Value>) -> Result<(), Refusal> {
        let Some(intent) = intent else { return Ok(()) };
        self.checks.push(name(intent));
        let current = self.current.health_check(&name(intent)).map(value);
        self.object(intent, current.as_ref()).await.map(drop)
    }

    /// Examines the control plane with its template. `None` if no pass writes it.
    async fn control_plane(&mut self, desired: Option<Desired>) -> Result<(), Refusal> {
        let current = self.current.control_plane.as_ref();
        let Some(desired) = desired else {
            self.preview.control_plane = current.cloned().map(Owner::unchanged);
            return Ok(());
        };
        let mut intent = desired.control_plane;
        if let Some(template) = &desired.control_plane_machine {
            let known = self.current.control_plane_machine.as_ref();
            let name = self.template(template, known).await?;
            desired::refer_to_machine_template(&mut intent, &name);
        }
        let planned = self.object(&intent, current).await?;
        self.preview.control_plane = Some(Owner { stored: current.cloned(), planned });
        Ok(())
    }

    /// Examines a worker group with its templates.
    async fn group(&mut self, desired: Option<DesiredGroup>) -> Result<(), Refusal> {
        let Some(group) = desired else { return Ok(()) };
        self.check(group.check.as_ref()).await?;
        let current = self.current.group(&group.topology_name);
        let templates = [
            (&group.bootstrap, current.and_then(|it| it.bootstrap.as_ref()), desired::BOOTSTRAP),
            (
                &group.infrastructure,
                current.and_then(|it| it.infrastructure.as_ref()),
                desired::INFRASTRUCTURE,
            ),
        ];
        let mut intent = group.object.clone();
        for (template, known, field) in templates {
            let name = self.template(template, known).await?;
            desired::refer_to_template(&mut intent, field, &name);
        }
        let stored = current.map(|it| value(&it.object));
        let planned = self.object(&intent, stored.as_ref()).await?;
        self.preview.deployments.push(Owner { stored, planned });
        Ok(())
    }

    /// Examines the health check of a worker group that no pass writes.
    async fn unwritten_group(&mut self, desired: Option<DesiredGroup>) -> Result<(), Refusal> {
        let Some(group) = desired else { return Ok(()) };
        self.check(group.check.as_ref()).await?;
        let current = self.current.group(&group.topology_name).map(|it| value(&it.object));
        self.preview.deployments.extend(current.map(Owner::unchanged));
        Ok(())
    }

    /// Notes what left the topology.
    fn deletions(&mut self) {
        for gone in self.current.unwanted_groups(self.cluster) {
            if gone.object.metadata.deletion_timestamp.is_none() {
                self.note(ObjectEffect::Delete, &value(&gone.object), Vec::new());
                self.preview.deleted.push(gone.object.clone());
            }
        }
        let checks = std::mem::take(&mut self.checks);
        for check in self.current.unwanted_checks(&checks) {
            if check.metadata.deletion_timestamp.is_none() {
                self.note(ObjectEffect::Delete, &value(check), Vec::new());
            }
        }
    }
}
