//! CAs in the store: one sealed value for each generation, and one for the state of each CA.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use apiserver_machinery::encryption::{Encryption, EncryptionError};
use apiserver_machinery::resource::ROOT;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage_contract::{KeyRange, ListOptions, Store, StoreError};

use super::rotation::Rotation;
use super::{Authorities, Generations, Purpose};
use crate::certificate_uses::Use;
use crate::pki::{self, Authority};
use crate::sealed_values::{FOLDERS, SealedValues};

/// First part of the keys of the store. No API group has this name.
const FOLDER: &str = FOLDERS[0];

/// Kind of the states of the CAs.
const ROTATION: &str = "rotation";

/// Kind of the records of client certificates.
const ISSUED: &str = "issued";

/// Number of the generation that a data directory had.
const TAKEN_OVER: u64 = 0;

/// Number of the first generation of a CA that the server creates.
const FIRST: u64 = 1;

/// Generation of a CA, as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAuthority {
    /// Certificate in PEM.
    pub(super) certificate: String,
    /// Private key in PEM.
    pub(super) key: String,
}

impl std::fmt::Debug for StoredAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredAuthority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl StoredAuthority {
    fn generate(purpose: Purpose, number: u64) -> anyhow::Result<Self> {
        let (certificate, key) = pki::new_authority(&purpose.common_name(number))?;
        Ok(Self { certificate, key })
    }

    /// Reads the CA of a data directory.
    fn of_directory(data: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| pki::read(&data.join("pki").join(name));
        Ok(Self { certificate: read("ca.crt")?, key: read("ca.key")? })
    }
}

/// CAs and records of certificates in the store.
#[derive(Debug, Clone)]
pub(crate) struct AuthorityStore {
    values: SealedValues,
}

impl AuthorityStore {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        Self { values: SealedValues::new(store, encryption, FOLDER) }
    }

    /// Returns all CAs; `None` if the store has none yet.
    ///
    /// # Errors
    /// The store does not answer, or a CA in it is missing or cannot be opened.
    pub(super) async fn load(&self) -> anyhow::Result<Option<Authorities>> {
        let [serving, client, machine] = [
            self.generations(Purpose::Serving).await?,
            self.generations(Purpose::Client).await?,
            self.generations(Purpose::Machine).await?,
        ];
        match (serving, client, machine) {
            (Some(serving), Some(client), Some(machine)) => {
                Ok(Some(Authorities { serving, client, machine }))
            }
            _ => Ok(None),
        }
    }

    /// Returns the certificate of the CA that signs the certificates of servers, in PEM; `None` if the store has none yet.
    ///
    /// # Errors
    /// The store does not answer, or a CA in it is missing or cannot be opened.
    pub(crate) async fn signing_servers(&self) -> anyhow::Result<Option<String>> {
        let Some(found) = self.load().await? else { return Ok(None) };
        Ok(Some(found.signing(Purpose::Serving)?.certificate.clone()))
    }

    async fn generations(&self, purpose: Purpose) -> anyhow::Result<Option<Generations>> {
        let Some(rotation) = self.required::<Rotation>(ROTATION, purpose.name()).await? else {
            return Ok(None);
        };
        let mut trusted = Vec::new();
        for number in &rotation.trusted {
            let found = self.required(purpose.name(), &name(*number)).await?;
            let found = found.with_context(|| {
                format!(
                    "generation {number} of the {} CA is missing in the store; restore a backup",
                    purpose.name()
                )
            })?;
            trusted.push((*number, found));
        }
        Ok(Some(Generations { rotation, trusted }))
    }

    /// Returns a value. One that exists and cannot be opened is an error: it must not be made anew.
    async fn required<T: DeserializeOwned>(&self, kind: &str, name: &str) -> anyhow::Result<Option<T>> {
        let exists = self.values.store.get(&self.values.key(kind, name)?).await?.is_some();
        let found = self.values.read(kind, name).await?;
        if exists && found.is_none() {
            bail!(
                "{ROOT}{FOLDER}/{kind}/{name} cannot be opened; compare the encryption files of the servers"
            );
        }
        Ok(found)
    }

    /// Seals all values with the encryption key of this time. An old key can be removed afterwards.
    pub(super) async fn reseal(&self) -> anyhow::Result<()> {
        for kind in Purpose::ALL.map(Purpose::name).into_iter().chain([ROTATION]) {
            self.values.reseal(kind).await?;
        }
        // Another machine may have sealed such a record with a key that no server has any more.
        if let Err(error) = self.values.reseal(ISSUED).await {
            tracing::warn!("records of certificates keep their old encryption key: {error:#}");
        }
        Ok(())
    }

    /// Creates the CAs of a store that has none yet, and nothing if it has lost them: the follower reports that.
    ///
    /// # Errors
    /// The store, or a KMS plug-in, does not answer. The store must not be used before it does.
    pub(crate) async fn begin_empty(&self, data: &Path) -> anyhow::Result<()> {
        let beginning = async {
            match self.load().await? {
                Some(_) => Ok(()),
                None => self.begin(data).await,
            }
        };
        beginning.await.or_else(|error| if is_temporary(&error) { Err(error) } else { Ok(()) })
    }

    /// Creates the CAs that the store does not have. The CA of the data directory becomes that of serving certificates and
    /// of clients. Without one, a store with objects has lost its CA: then nothing is created.
    pub(super) async fn begin(&self, data: &Path) -> anyhow::Result<()> {
        let is_missing = Authority::is_missing(data);
        let own = if is_missing {
            let has_begun = self.required::<Rotation>(ROTATION, Purpose::Serving.name()).await?.is_some();
            if !has_begun && !self.is_first_start().await? {
                bail!(
                    "neither the store nor {0}/pki has a CA. Restore ca.crt and ca.key there from a backup, or create a \
                     new CA with `capstan ca create --data-dir {0}`: kubeconfigs of the lost one then stop working",
                    data.display()
                );
            }
            let (certificate, key) = pki::new_authority("capstan-ca")?;
            StoredAuthority { certificate, key }
        } else {
            Authority::read(data)?;
            StoredAuthority::of_directory(data)?
        };
        self.add(Purpose::Serving, TAKEN_OVER, &own).await?;
        // Another replica may have been faster.
        let taken: StoredAuthority = self
            .required(Purpose::Serving.name(), &name(TAKEN_OVER))
            .await?
            .context("the CA that was just created is missing")?;
        if is_missing
            && taken == own
            && let Err(error) = Authority::save(data, &own.certificate, &own.key)
        {
            // The store has it.
            tracing::warn!("{error:#}");
        }
        self.add(Purpose::Client, TAKEN_OVER, &taken).await?;
        self.add(Purpose::Machine, FIRST, &StoredAuthority::generate(Purpose::Machine, FIRST)?).await
    }

    /// Adds the first generation of a CA. Another replica may be faster: its CA is as good.
    async fn add(&self, purpose: Purpose, number: u64, first: &StoredAuthority) -> anyhow::Result<()> {
        if self.required::<Rotation>(ROTATION, purpose.name()).await?.is_some() {
            return Ok(());
        }
        self.values.create(purpose.name(), &name(number), first).await?;
        self.values.create(ROTATION, purpose.name(), &Rotation::of(number)).await?;
        Ok(())
    }

    /// Returns true if the store has no objects: every server creates namespaces when it starts.
    async fn is_first_start(&self) -> anyhow::Result<bool> {
        let range = KeyRange::prefix(&format!("{ROOT}core/namespaces/"));
        let page = self.values.store.list(&range, &ListOptions { limit: 1, revision: None }).await?;
        Ok(page.entries.is_empty())
    }

    /// Writes the new state of a CA, with its new generation if there is one, and removes the old generations of one that
    /// has ended.
    pub(super) async fn change(
        &self,
        purpose: Purpose,
        from: &Rotation,
        to: &Rotation,
    ) -> anyhow::Result<()> {
        for number in to.trusted.iter().filter(|number| !from.trusted.contains(number)) {
            // An attempt that was interrupted may have left one, which is as good.
            self.values
                .create(purpose.name(), &name(*number), &StoredAuthority::generate(purpose, *number)?)
                .await?;
        }
        self.values.write(ROTATION, purpose.name(), to).await?;
        for number in from.trusted.iter().filter(|number| !to.trusted.contains(number)) {
            self.values.remove(purpose.name(), &name(*number)).await?;
        }
        Ok(())
    }

    /// Returns the records of client certificates.
    pub(crate) async fn uses(&self) -> anyhow::Result<Vec<Use>> {
        let mut all: Vec<Use> = self.values.list(ISSUED).await?.into_values().collect();
        all.sort_by(|a, b| (&a.user, a.until).cmp(&(&b.user, b.until)));
        Ok(all)
    }

    /// Writes the record of a client certificate.
    pub(crate) async fn record(&self, used: &Use) -> anyhow::Result<()> {
        self.values.write(ISSUED, &used.fingerprint, used).await.map(|_| ())
    }

    /// Returns the record of a client certificate.
    pub(crate) async fn recorded(&self, fingerprint: &str) -> anyhow::Result<Option<Use>> {
        self.values.read(ISSUED, fingerprint).await
    }

    /// Removes the record of a client certificate.
    pub(crate) async fn forget(&self, fingerprint: &str) -> anyhow::Result<()> {
        self.values.remove(ISSUED, fingerprint).await
    }
}

/// Reports whether the store or a KMS plug-in did not answer, so that nothing is known about the CAs.
pub(super) fn is_temporary(error: &anyhow::Error) -> bool {
    error.is::<StoreError>()
        || error.downcast_ref::<EncryptionError>().is_some_and(EncryptionError::is_temporary)
}

/// Returns the name of a generation in the store; the order of the names is that of the numbers.
fn name(number: u64) -> String {
    format!("{number:08}")
}
