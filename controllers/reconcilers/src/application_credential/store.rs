//! Record of the credentials in a Secret.

use apiserver_types::OpenStackCluster;
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::record::Record;
use crate::cluster_certificates::SECRET_TYPE;
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Key of the record in the Secret.
const KEY: &str = "record.json";

/// Annotation of the Secret with what the controller does or waits for. For people.
const STATE: &str = "capstan.dev/application-credential-state";

/// Record as it is stored. Its revision guards each write.
pub(super) struct Stored {
    secret: Option<Secret>,
    pub record: Record,
}

impl Stored {
    /// Reads the record. There is an empty one until the first write.
    pub(super) async fn read(
        context: &ControllerContext,
        object: &OpenStackCluster,
    ) -> Result<Self, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let secret = context.secrets.secret(&namespace, &name(object)).await?;
        let bytes = secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(KEY));
        let record = match bytes {
            None => Record::default(),
            // An empty record in its place would lose credentials.
            Some(bytes) => serde_json::from_slice(&bytes.0).map_err(|_| {
                let name = name(object);
                let message = format!(
                    "Secret {namespace}/{name} has no readable {KEY}. Delete the Secret: new credentials are made, and \
                     the old ones are revoked"
                );
                ReconcileError::waiting("RecordUnreadable", message)
            })?,
        };
        Ok(Self { secret, record })
    }

    /// Writes the record, and what the controller does.
    pub(super) async fn write(
        &mut self,
        context: &ControllerContext,
        object: &OpenStackCluster,
        state: &str,
    ) -> Result<(), ReconcileError> {
        let bytes = serde_json::to_vec(&self.record).map_err(kube::Error::SerdeError)?;
        let mut secret = self.secret.clone().unwrap_or_else(|| new(object));
        secret.data.get_or_insert_default().insert(KEY.to_owned(), ByteString(bytes));
        secret.annotations_mut().insert(STATE.to_owned(), state.to_owned());
        if self.secret.as_ref() == Some(&secret) {
            return Ok(());
        }
        let written = match self.secret {
            Some(_) => context.secrets.replace(&secret).await?,
            None => context.secrets.create(&secret).await?,
        };
        self.secret = Some(written);
        Ok(())
    }
}

fn name(object: &OpenStackCluster) -> String {
    format!("{}-application-credential", object.name_any())
}

fn new(object: &OpenStackCluster) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name(object));
    secret.metadata.namespace = object.namespace();
    secret.metadata.owner_references = Some(vec![ownership::reference(object, true)]);
    let cluster = object.labels().get(CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
    secret.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), cluster);
    secret.type_ = Some(SECRET_TYPE.to_owned());
    secret
}
