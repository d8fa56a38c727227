//! Objects that own resources in clouds: the ids in their ownership tags, and the credentials that they name.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;

use anyhow::Context;
use apiserver_types::{
    Image, MachineOperation, OpenStackCluster, OpenStackFloatingIPPool, OpenStackIdentityReference,
    OpenStackMachine, OpenStackServer,
};
use controllers_runtime::OwnershipTag;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Objects in one page of a list: the size of kubectl's pages.
const PAGE: u32 = 500;

/// Objects of all kinds that own resources.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Ids in their ownership tags.
    pub(super) ids: HashSet<String>,
    /// Credentials by their name for people, with the namespace of an object that names them.
    pub(super) identities: BTreeMap<String, (String, OpenStackIdentityReference)>,
}

impl Objects {
    /// Reads the objects of all namespaces.
    ///
    /// # Errors
    /// A kind that cannot be listed: each resource of its objects would look like one without an object.
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let mut objects = Self::default();
        objects.add(client, |it: &OpenStackCluster| Some(it.spec.identity_ref.clone())).await?;
        objects.add(client, |it: &OpenStackMachine| it.spec.identity_ref.clone()).await?;
        objects.add(client, |it: &OpenStackServer| Some(it.spec.identity_ref.clone())).await?;
        objects.add(client, |it: &OpenStackFloatingIPPool| Some(it.spec.identity_ref.clone())).await?;
        objects.add(client, |it: &Image| Some(of_image(it))).await?;
        objects.add(client, |_: &MachineOperation| None).await?;
        Ok(objects)
    }

    /// Adds all objects of a kind.
    async fn add<K>(
        &mut self,
        client: &Client,
        identity: impl Fn(&K) -> Option<OpenStackIdentityReference>,
    ) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(client.clone());
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await.with_context(|| format!("cannot list {}", K::plural(&())))?;
            for object in &list.items {
                self.ids.insert(OwnershipTag::id(object));
                if let Some(identity) = identity(object) {
                    self.add_identity(object.namespace().unwrap_or_default(), identity);
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    fn add_identity(&mut self, namespace: String, identity: OpenStackIdentityReference) {
        let OpenStackIdentityReference { name, cloud_name, region, kind } = &identity;
        let kind = kind.as_ref().map(|kind| format!("{kind:?} ")).unwrap_or_default();
        let region = region.as_ref().map(|region| format!(", region {region}")).unwrap_or_default();
        let named = format!("{kind}{namespace}/{name}, cloud {cloud_name}{region}");
        self.identities.insert(named, (namespace, identity));
    }
}

/// Returns the credentials of an image in the form of the other kinds.
fn of_image(image: &Image) -> OpenStackIdentityReference {
    let credentials = &image.spec.cloud_credentials_ref;
    OpenStackIdentityReference {
        cloud_name: credentials.cloud_name.clone(),
        name: credentials.secret_name.clone(),
        region: None,
        kind: None,
    }
}
