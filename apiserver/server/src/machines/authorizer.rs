//! Authorizer of machines.

use std::sync::Arc;

use apiserver_access::{Answers, Attributes, Authorizer, Decision, Realm, Rules, User, Verdict};
use apiserver_machinery::store::ObjectStore;
use async_trait::async_trait;
use serde_json::Value;

use super::graph::{self, Answer, Question};
use super::{BootstrapReads, MachineObjects, get};

/// Field selector of one object.
const BY_NAME: &str = "metadata.name=";

/// Authorizer that decides about all requests of machines for objects with a namespace, and for certificates. About other
/// users and requests it has no opinion: a machine may use the discovery, as everybody may.
#[derive(Debug)]
pub(crate) struct MachineAuthorizer {
    machines: MachineObjects,
    objects: Arc<ObjectStore>,
    reads: BootstrapReads,
}

impl MachineAuthorizer {
    pub(crate) fn new(objects: Arc<ObjectStore>, reads: BootstrapReads) -> Self {
        Self { machines: MachineObjects::new(Arc::clone(&objects)), objects, reads }
    }

    async fn decide(&self, attributes: &Attributes) -> Decision {
        if attributes.user.realm != Realm::Machine {
            return Decision::NoOpinion(String::new());
        }
        self.decide_about_machine(attributes).await.unwrap_or_else(Decision::Error)
    }

    async fn decide_about_machine(&self, attributes: &Attributes) -> Result<Decision, String> {
        let user = &attributes.user;
        let kind = self.objects.kind_of(&attributes.group, &attributes.resource);
        let is_request = (attributes.group.as_str(), attributes.resource.as_str()) == graph::REQUESTS;
        let is_namespaced =
            kind.is_some_and(|kind| kind.stored.namespaced) || !attributes.namespace.is_empty();
        if !attributes.is_resource() || !(is_namespaced || is_request) {
            return Ok(Decision::NoOpinion(String::new()));
        }
        let deny = |why: &str| Ok(Decision::Deny(why.to_owned()));
        let (Some((namespace, name)), Some(uid)) = (user.machine(), &user.uid) else {
            return deny("the certificate names no Machine");
        };
        if is_namespaced && attributes.namespace != namespace {
            return deny("the Machine is in another namespace");
        }
        let Some(machine) = self.machines.find(namespace, name, uid).await? else {
            return deny("the Machine does not exist any more");
        };
        let question = question(attributes, kind.map_or("", |kind| kind.stored.kind.as_str()));
        match graph::decide(&machine, &question) {
            Answer::Yes => Ok(Decision::Allow),
            Answer::No(why) => deny(why),
            Answer::IfItsOwn if self.is_own(&question, &attributes.namespace, user, &machine).await? => {
                Ok(Decision::Allow)
            }
            Answer::IfItsOwn => deny("it is no object of this Machine"),
        }
    }

    async fn is_own(
        &self,
        question: &Question<'_>,
        namespace: &str,
        user: &User,
        machine: &Value,
    ) -> Result<bool, String> {
        let is_own = |found: &Value| graph::is_own(found, question.plural, &user.name, machine);
        let kind = (question.group, question.plural);
        Ok(get(&self.objects, kind, namespace, question.name, is_own).await?.is_some())
    }
}

fn question<'a>(attributes: &'a Attributes, kind: &'a str) -> Question<'a> {
    let selected = attributes.field_selector.strip_prefix(BY_NAME).filter(|name| !name.contains(','));
    let name = if attributes.name.is_empty() { selected.unwrap_or_default() } else { &attributes.name };
    Question {
        verb: &attributes.verb,
        group: &attributes.group,
        plural: &attributes.resource,
        kind,
        subresource: &attributes.subresource,
        name,
    }
}

#[async_trait]
impl Authorizer for MachineAuthorizer {
    /// Counts the requests for bootstrap Secrets, which [`Authorizer::answers`] does not.
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let decision = self.decide(attributes).await;
        if (attributes.group.as_str(), attributes.resource.as_str()) == graph::SECRETS {
            self.reads.count(&decision);
        }
        Verdict::of(decision, self.name())
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let verdict = Verdict::of(self.decide(attributes).await, self.name());
        let why = match attributes.user.realm {
            Realm::Machine => "it decides about objects with a namespace and about certificates",
            _ => "it decides about users of the realm machine",
        };
        Answers::one(verdict).or_because(why)
    }

    fn name(&self) -> &str {
        "Machine"
    }

    async fn rules(&self, user: &User, _namespace: &str) -> Rules {
        let unknown = match user.realm {
            Realm::Machine => "a machine may read the objects of its Machine".to_owned(),
            _ => String::new(),
        };
        Rules { rules: Vec::new(), unknown }
    }
}
