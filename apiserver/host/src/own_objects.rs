//! Writer of Capstan's own objects in the host cluster: the CA bundles of its APIServices, and the metadata in its CRD
//! objects. It changes objects that exist. It creates none and deletes none.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::ca_bundles::{self, ApiServices};
use crate::definitions::{self, Definitions};
use crate::write_limit::WriteLimit;

/// Field manager of the writes.
const MANAGER: &str = "capstan";

/// Step for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is right, or not needed.
    Keep,
    /// It differs. The value is a merge patch.
    Write(Value),
    /// It is not Capstan's.
    Refuse,
}

/// Objects of one kind, as the host should have them.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// APIServices with these certificates of the serving CA, in PEM.
    Bundles(&'a ApiServices, &'a str),
    /// CRD objects as metadata.
    Definitions(&'a Definitions),
}

impl<'a> Wanted<'a> {
    fn kind(self) -> ApiResource {
        match self {
            Self::Bundles(..) => ca_bundles::kind(),
            Self::Definitions(_) => definitions::kind(),
        }
    }

    fn names(self) -> Vec<&'a str> {
        match self {
            Self::Bundles(services, _) => services.names(),
            Self::Definitions(definitions) => definitions.names(),
        }
    }

    /// Returns the step for an object. Pure.
    fn step(self, found: &DynamicObject) -> Step {
        match self {
            Self::Bundles(services, trusted) => services.step(&found.data, trusted),
            Self::Definitions(definitions) => definitions.step(found),
        }
    }
}

/// Result of a pass over all objects of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnPass {
    /// Names of those that were written.
    pub written: Vec<String>,
    /// Names of those that are not Capstan's. They stay as they are.
    pub foreign: Vec<String>,
    /// First error, with the kind and the name of the object.
    pub failure: Option<String>,
}

/// Writer of one term of the leader.
pub struct OwnObjects {
    client: Client,
    limit: WriteLimit,
}

impl std::fmt::Debug for OwnObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnObjects").finish_non_exhaustive()
    }
}

impl OwnObjects {
    /// Creates a writer. `client` is one of the host cluster.
    pub fn new(client: Client, limit: WriteLimit) -> Self {
        Self { client, limit }
    }

    /// Compares each object with the wanted one, and writes those that differ. An error stops no other.
    pub async fn pass(&self, wanted: Wanted<'_>) -> OwnPass {
        let mut pass = OwnPass::default();
        for name in wanted.names() {
            match self.update(wanted, name).await {
                Ok(Step::Keep) => {}
                Ok(Step::Write(_)) => pass.written.push(name.to_owned()),
                Ok(Step::Refuse) => pass.foreign.push(name.to_owned()),
                Err(error) => {
                    let kind = wanted.kind().kind;
                    pass.failure.get_or_insert_with(|| format!("{kind} {name}: {}", words(&error)));
                }
            }
        }
        pass
    }

    /// Returns the step that was made. The host itself writes the status of these objects, so a conflict is no error yet.
    async fn update(&self, wanted: Wanted<'_>, name: &str) -> Result<Step, kube::Error> {
        match self.attempt(wanted, name).await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.attempt(wanted, name).await,
            made => made,
        }
    }

    async fn attempt(&self, wanted: Wanted<'_>, name: &str) -> Result<Step, kube::Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &wanted.kind());
        let Some(found) = self.limit.read(api.get_opt(name)).await? else { return Ok(Step::Keep) };
        let step = wanted.step(&found);
        if let Step::Write(patch) = &step {
            let mut patch = patch.clone();
            // The host refuses the write if the object has changed since.
            patch["metadata"]["resourceVersion"] = json!(found.metadata.resource_version);
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            self.limit.write(api.patch(name, &params, &Patch::Merge(&patch))).await?;
        }
        Ok(step)
    }
}

/// Returns the host's own words.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
