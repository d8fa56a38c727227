//! Stored form of the embedded store. It has one form in each release: one server uses the file, so there is nothing to
//! agree on, and an older release can open it.
//!
//! A restore or a migration from an etcd copies the values as they are. Then the file can have values of a newer form. This
//! release reads them, and writes them in the form of the embedded store when they change. An older release cannot read
//! them, so the downgrade writes all of them anew.

use std::sync::Arc;

use anyhow::{Context, bail};
use storage_contract::{Form, Store};

use super::command::{find, refuse_kms, refuse_newer};
use crate::backup::Setup;
use crate::key_rotation;
use crate::rewrite::{self, Reason, RewriteMetrics, Rewriter};

/// Returns the form, and how many values have a newer one.
///
/// # Errors
/// A store that a server uses, or that cannot be read.
pub(super) async fn describe(setup: &Setup) -> anyhow::Result<String> {
    let store = setup.open().await?;
    let (newer, _) = find(store.as_ref(), |value| Form::needed(value) > Form::OLDEST).await?;
    let form = Form::OLDEST;
    let mut text =
        format!("the embedded store has form {form}: one server uses it, so there is nothing to agree on\n");
    if newer > 0 {
        text.push_str(&format!(
            "{newer} values from an etcd have a newer form. Before you go back to an older release, run `capstan storage \
             downgrade --to {form}`\n"
        ));
    }
    Ok(text)
}

/// Writes all values of newer forms anew. It can be interrupted, and goes on when it is run again.
///
/// # Errors
/// Another form than that of the embedded store; a store that a server uses; values of a KMS plug-in; values that cannot be
/// rewritten; the store's.
pub(super) async fn downgrade(setup: &Setup, to: u64) -> anyhow::Result<String> {
    if to != Form::OLDEST {
        bail!("--to: this release can write the embedded store in form {} only", Form::OLDEST);
    }
    let store: Arc<dyn Store> = setup.open().await?.into();
    refuse_kms(store.as_ref()).await?;
    let (path, encryption) = setup.encryption()?;
    let encryption =
        encryption.with_context(|| format!("{}: there is no encryption configuration", path.display()))?;
    key_rotation::apply(store.as_ref(), &encryption).await?;
    let job = rewrite::begin(store.as_ref(), Reason::Downgrade).await?;
    // No server can have the store open.
    let rewriter = Rewriter::new(Arc::clone(&store), encryption, None, RewriteMetrics::default());
    rewriter.at_full_speed().pass().await?;
    rewrite::follow(store.as_ref(), &job).await?;
    refuse_newer(store.as_ref(), to).await?;
    Ok(format!("all values have form {to}: an older release can use the store\n"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use apiserver_machinery::encryption::Encryption;
    use bytes::Bytes;
    use storage_contract::Key;
    use storage_embedded::EmbeddedStore;

    use super::super::{commit, downgrade, show};
    use super::*;
    use crate::backup::block_on;
    use crate::cli::{DowngradeArguments, StoreArguments};
    use crate::encryption;
    use crate::encryption_keys::EncryptionKeys;

    const SECRET: &str = "/capstan/core/secrets/team/s";
    const DERIVED: &[u8] = b"k8s:enc:aesgcm:v2:";

    fn arguments(data: &Path) -> StoreArguments {
        StoreArguments { config: None, data_dir: Some(data.to_owned()), etcd_endpoints: Vec::new() }
    }

    fn downgrade_to(data: &Path, to: u64) -> anyhow::Result<()> {
        downgrade(&DowngradeArguments { to, store: arguments(data) })
    }

    fn described(data: &Path) -> String {
        show(&arguments(data)).unwrap();
        let setup = Setup::load(&arguments(data)).unwrap();
        block_on(describe(&setup)).unwrap()
    }

    fn store(data: &Path) -> EmbeddedStore {
        EmbeddedStore::open(&data.join("store.redb")).unwrap()
    }

    fn write(data: &Path, key: &str, value: Bytes) {
        let key = Key::new(key).unwrap();
        block_on(async { Ok(store(data).create(&key, value).await?) }).unwrap();
    }

    fn value(data: &Path) -> Bytes {
        let key = Key::new(SECRET).unwrap();
        block_on(async { Ok(store(data).get(&key).await?.unwrap().value) }).unwrap()
    }

    /// Starts a server for a moment, and returns its keys.
    fn served_once(data: &Path) -> Arc<Encryption> {
        let keys = EncryptionKeys::new(encryption::load(None, data).unwrap());
        block_on(keys.agree(&store(data))).unwrap();
        keys.encryption()
    }

    #[test]
    fn hv_22_values_from_an_etcd_get_the_form_that_an_older_release_reads() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let encryption = served_once(data);
        let plain = Bytes::from_static(b"{}");
        encryption.derive_keys(true);
        write(data, SECRET, encryption.seal("secrets", SECRET, plain.clone()).unwrap());
        assert!(value(data).starts_with(DERIVED));
        let text = described(data);
        assert!(text.contains("has form 3") && text.contains("1 values from an etcd"), "{text}");

        let refused = downgrade_to(data, 4).unwrap_err().to_string();
        assert!(refused.contains("in form 3 only"), "{refused}");
        downgrade_to(data, 3).unwrap();
        assert!(value(data).starts_with(b"k8s:enc:aesgcm:v1:"));
        assert_eq!(encryption.open("secrets", SECRET, &value(data)).unwrap(), plain);
        let text = described(data);
        assert!(text.contains("has form 3") && !text.contains("newer form"), "{text}");
        // A second one finds nothing, and the newer form cannot be committed.
        downgrade_to(data, 3).unwrap();
        assert!(commit(&arguments(data)).unwrap_err().to_string().contains("nothing to agree on"));
    }

    #[test]
    fn hv_22_values_of_a_plug_in_prevent_the_downgrade_of_an_embedded_store() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        served_once(data);
        write(data, SECRET, Bytes::from_static(b"k8s:enc:kms:v2:plugin:x"));
        let refused = downgrade_to(data, 3).unwrap_err().to_string();
        assert!(refused.contains("no KMS plug-ins") && refused.contains(SECRET), "{refused}");
    }
}
