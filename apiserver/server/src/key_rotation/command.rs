//! Commands `capstan encryption status|add|promote|reencrypt|finish`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use storage_contract::Store;

use super::scan::{Found, scan};
use super::{checks, edit, record};
use crate::backup::{self, Setup};
use crate::cli::{EncryptionPromoteArguments, StoreArguments};
use crate::encryption_keys::records;
use crate::replicas::{Replica, live};
use crate::rewrite::{self, Reason, RewriteMetrics, Rewriter};
use crate::{encryption, output, pki};

/// Parts of the store that all steps need.
struct Opened {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    /// Path of the configuration, for people.
    path: String,
    /// Live replicas. The embedded store has none while a command has it open.
    live: Vec<Replica>,
    is_embedded: bool,
}

impl Opened {
    async fn new(arguments: &StoreArguments) -> anyhow::Result<Self> {
        let setup = Setup::load(arguments)?;
        let is_embedded = setup.configuration.storage.etcd.is_none();
        let (path, encryption) = setup.encryption()?;
        let path = path.display().to_string();
        let encryption =
            encryption.with_context(|| format!("{path}: there is no encryption configuration"))?;
        let store: Arc<dyn Store> = setup.open().await?.into();
        record::apply(store.as_ref(), &encryption).await?;
        encryption.derive_keys(store.form().writes() >= storage_contract::Form::DERIVED_KEYS);
        let live = if is_embedded { Vec::new() } else { live(store.as_ref()).await? };
        Ok(Self { store, encryption, path, live, is_embedded })
    }

    /// Returns the key that is promoted.
    async fn promoted(&self) -> anyhow::Result<String> {
        let promoted = record::load(self.store.as_ref()).await?.promoted;
        promoted.context(
            "no key was promoted yet: run `capstan encryption add` and `capstan encryption promote` first",
        )
    }
}

/// Runs `capstan encryption status`.
///
/// # Errors
/// The store or the configuration cannot be read.
pub(crate) fn status(arguments: &StoreArguments) -> anyhow::Result<()> {
    let text = backup::block_on(async {
        let opened = Opened::new(arguments).await?;
        let store = opened.store.as_ref();
        let recorded = records::names(store).await?;
        let found = scan(store, &opened.encryption).await?;
        let job = rewrite::load(store).await?.map(|stored| stored.job);
        let job = job.filter(|job| job.reason == Reason::Reencrypt);
        Ok(describe(&opened, &recorded, &found, job.as_ref()))
    })?;
    Ok(output::print(&text)?)
}

fn describe(opened: &Opened, recorded: &[String], found: &Found, job: Option<&rewrite::Job>) -> String {
    let Opened { encryption, live, path, .. } = opened;
    let (configured, sealing) = (encryption.opening_keys(), encryption.sealing_keys());
    let keys: BTreeSet<&String> = configured.iter().chain(recorded).collect();
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut text =
        format!("{:<20} {:<8} {:<8} {:<7} REPLICAS THAT HAVE IT\n", "KEY", "IN FILE", "IN STORE", "SEALS");
    for key in keys {
        let have = live.iter().filter(|replica| replica.keys.contains(key)).count();
        let _ = writeln!(
            text,
            "{key:<20} {:<8} {:<8} {:<7} {have} of {}",
            yes(configured.contains(key)),
            yes(recorded.contains(key)),
            yes(sealing.contains(key)),
            live.len()
        );
    }
    let _ = writeln!(text, "file: {path}");
    let _ = writeln!(
        text,
        "values: {} sealed as new ones are, {} with another key, in an older form, or plain",
        found.current, found.others
    );
    if let Some(job) = job {
        let total = job.total();
        let state = if job.ended.is_some() { "ended" } else { "running" };
        let _ = writeln!(text, "reencrypt: {state}, {} read, {} rewritten", total.read, total.rewritten);
    }
    text
}

/// Runs `capstan encryption add`.
///
/// # Errors
/// A configuration that cannot be read, has no place for a key, or cannot be written.
pub(crate) fn add(arguments: &StoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(arguments)?;
    let given = setup.configuration.encryption_config_file.as_deref();
    let path = given.map_or_else(|| setup.data.join("encryption.yaml"), std::path::Path::to_owned);
    let text = pki::read(&path)?;
    let key = encryption::new_key()?;
    let name = apiserver_machinery::encryption::fingerprint(&key);
    let edited = edit::with_key(&text, &name, &key).with_context(|| format!("{}", path.display()))?;
    encryption::check(&edited).with_context(|| format!("{}", path.display()))?;
    pki::write_private(&path, &edited)?;
    Ok(output::print(&format!(
        "added encryption key {name} to {}: it opens values, and seals none yet. Copy the file to every replica, and back \
         it up. When `capstan encryption status` shows that all replicas have the key, run `capstan encryption promote`\n",
        path.display()
    ))?)
}

/// Runs `capstan encryption promote`.
///
/// # Errors
/// A live replica that lacks the key; no key to promote; the store's.
pub(crate) fn promote(arguments: &EncryptionPromoteArguments) -> anyhow::Result<()> {
    let text = backup::block_on(async {
        let opened = Opened::new(&arguments.store).await?;
        let store = opened.store.as_ref();
        let recorded = records::names(store).await?;
        let key = checks::select(arguments.key.as_deref(), &opened.encryption.opening_keys(), &recorded)?;
        checks::all_open(&opened.live, &key)?;
        // First the record of the keys: a server that lacks the key must not open the store from then on.
        records::add(store, &opened.encryption, &key).await?;
        record::save(store, &key).await?;
        Ok(format!(
            "encryption key {key} is promoted: all replicas seal new values with it within 40 seconds, whatever the order \
             of keys in their files. Then run `capstan encryption reencrypt`\n"
        ))
    })?;
    Ok(output::print(&text)?)
}

/// Runs `capstan encryption reencrypt`.
///
/// # Errors
/// A live replica that seals with another key; no promoted key; values that cannot be rewritten; the store's.
pub(crate) fn reencrypt(arguments: &StoreArguments) -> anyhow::Result<()> {
    backup::block_on(async {
        let opened = Opened::new(arguments).await?;
        checks::all_seal(&opened.live, &opened.promoted().await?)?;
        let (store, encryption) = (Arc::clone(&opened.store), Arc::clone(&opened.encryption));
        let job = rewrite::begin(store.as_ref(), Reason::Reencrypt).await?;
        if opened.is_embedded {
            // No server can have the store open.
            let rewriter = Rewriter::new(Arc::clone(&store), encryption, None, RewriteMetrics::default());
            rewriter.at_full_speed().pass().await?;
        }
        rewrite::follow(store.as_ref(), &job).await
    })
}

/// Runs `capstan encryption finish`.
///
/// # Errors
/// One value that the promoted key has not sealed; a live replica that seals with another key; the store's.
pub(crate) fn finish(arguments: &StoreArguments) -> anyhow::Result<()> {
    let text = backup::block_on(async {
        let opened = Opened::new(arguments).await?;
        finish_rotation(&opened).await
    })?;
    Ok(output::print(&text)?)
}

async fn finish_rotation(opened: &Opened) -> anyhow::Result<String> {
    let Opened { store, encryption, live, path, .. } = opened;
    let promoted = opened.promoted().await?;
    checks::all_seal(live, &promoted)?;
    let found = scan(store.as_ref(), encryption).await?;
    if let Some(first) = &found.first {
        bail!(
            "{} values are not sealed as new ones are, the first one is {first}. Run `capstan encryption reencrypt`; the \
             old key stays",
            found.others
        );
    }
    let kept = encryption.sealing_keys();
    records::retain(store.as_ref(), &kept).await?;
    let old: Vec<String> = encryption.opening_keys().difference(&kept).cloned().collect();
    if old.is_empty() {
        return Ok(format!(
            "all {} values are sealed with {promoted}, and {path} has no other key\n",
            found.current
        ));
    }
    Ok(format!(
        "all {} values are sealed with {promoted}. No value needs {} any more: remove it from {path} and from the copies of \
         all replicas. Keep it as long as you keep backups from before\n",
        found.current,
        old.join(", ")
    ))
}
