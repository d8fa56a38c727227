//! Commands `capstan storage form|commit|downgrade`, and `capstan storage migrate` within one store.

use std::sync::Arc;

use anyhow::bail;
use apiserver_machinery::resource::ROOT;
use jiff::Timestamp;
use storage_contract::{Form, KeyRange, ListOptions, Store};

use super::decide::{Decision, decide};
use super::embedded;
use crate::backup::{self, Setup};
use crate::cli::{DowngradeArguments, StoreArguments};
use crate::output;
use crate::replicas::{Replica, live};
use crate::rewrite::{self, Reason};

/// Values that a scan reads at a time.
const PAGE: usize = 500;

/// Keys that an error names.
const NAMED: usize = 10;

/// Start of values that a KMS plug-in has sealed. Releases of form 3 have no plug-ins.
const KMS: &[u8] = b"k8s:enc:kms:";

/// Returns the configuration, if its server uses the embedded store.
fn of_embedded(arguments: &StoreArguments) -> anyhow::Result<Option<Setup>> {
    let setup = Setup::load(arguments)?;
    Ok(setup.configuration.storage.etcd.is_none().then_some(setup))
}

/// Opens the store in etcd, with its live replicas.
async fn open(arguments: &StoreArguments) -> anyhow::Result<(Arc<dyn Store>, Vec<Replica>)> {
    let setup = Setup::load(arguments)?;
    if setup.configuration.storage.etcd.is_none() {
        bail!(
            "the embedded store has form {} in this release, and only one server: there is nothing to agree on",
            Form::OLDEST
        );
    }
    let store: Arc<dyn Store> = setup.open().await?.into();
    let live = live(store.as_ref()).await?;
    Ok((store, live))
}

/// Runs `capstan storage form`.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn show(arguments: &StoreArguments) -> anyhow::Result<()> {
    let text = backup::block_on(async {
        if let Some(setup) = of_embedded(arguments)? {
            return embedded::describe(&setup).await;
        }
        let (store, live) = open(arguments).await?;
        let form = store.form();
        let mut text = format!("committed {}, oldest value {}", form.committed, form.least);
        if let Some(to) = form.to {
            text.push_str(&format!(
                ", downgrade to {to} begun: run `capstan storage downgrade --to {to}` until it ends"
            ));
        }
        if let Decision::Wait(why) = decide(form, &live, Timestamp::now(), None) {
            text.push_str(&format!("\nform {} cannot be committed: {why}", Form::NEWEST));
        }
        Ok(text + "\n")
    })?;
    Ok(output::print(&text)?)
}

/// Runs `capstan storage commit`.
///
/// # Errors
/// A live replica that cannot read the newest form; the store's.
pub(crate) fn commit(arguments: &StoreArguments) -> anyhow::Result<()> {
    let text = backup::block_on(async {
        let (store, live) = open(arguments).await?;
        let form = store.form();
        match decide(form, &live, Timestamp::now(), None) {
            Decision::Commit(new) => {
                store.change_form(form, new).await?;
                Ok(format!(
                    "committed form {}: servers write it from now on, and releases that cannot read it no longer serve\n",
                    new.committed
                ))
            }
            Decision::Nothing if form.to.is_none() => {
                Ok(format!("the store has form {} already\n", form.committed))
            }
            Decision::Nothing => {
                bail!("a downgrade has begun: run `capstan storage downgrade` until it ends")
            }
            Decision::Wait(why) => bail!("form {} cannot be committed: {why}", Form::NEWEST),
        }
    })?;
    Ok(output::print(&text)?)
}

/// Runs `capstan storage downgrade`. It can be interrupted, and goes on when it is run again.
///
/// # Errors
/// Values that the older form cannot have, by name; values that cannot be rewritten; the store's.
pub(crate) fn downgrade(arguments: &DowngradeArguments) -> anyhow::Result<()> {
    backup::block_on(async {
        if let Some(setup) = of_embedded(&arguments.store)? {
            return Ok(output::print(&embedded::downgrade(&setup, arguments.to).await?)?);
        }
        let (store, _) = open(&arguments.store).await?;
        let (store, to) = (store.as_ref(), arguments.to);
        let form = store.form();
        if form == Form::of(to) {
            return Ok(output::print(&format!("the store has form {to} already\n"))?);
        }
        if !Form::READ.contains(&to) || to >= form.committed {
            bail!(
                "--to: this release can go back from form {} to form {} only",
                form.committed,
                Form::OLDEST
            );
        }
        refuse_kms(store).await?;
        if form.to != Some(to) {
            // No server writes the newer form from here on: each write compares the form.
            store.change_form(form, Form { to: Some(to), ..form }).await?;
        }
        let job = rewrite::begin(store, Reason::Downgrade).await?;
        rewrite::follow(store, &job).await?;
        refuse_newer(store, to).await?;
        store.change_form(store.form(), Form::of(to)).await?;
        Ok(output::print(&format!(
            "committed form {to}: replace the servers by the older release within the delay of the next commit \
             (storage.formDelay)\n"
        ))?)
    })
}

/// Runs `capstan storage migrate` within one store.
///
/// # Errors
/// Values that cannot be rewritten; the store's.
pub(crate) fn migrate(arguments: &StoreArguments) -> anyhow::Result<()> {
    backup::block_on(async {
        let (store, _) = open(arguments).await?;
        let (form, store) = (store.form(), store.as_ref());
        let job = rewrite::begin(store, Reason::Migrate).await?;
        rewrite::follow(store, &job).await?;
        if form.to.is_none() && form.least < form.committed && store.form() == form {
            store.change_form(form, Form::of(form.committed)).await?;
        }
        Ok(())
    })
}

/// Refuses to go on while a KMS plug-in has sealed values.
pub(super) async fn refuse_kms(store: &dyn Store) -> anyhow::Result<()> {
    refuse(store, "the older release has no KMS plug-ins", |value| value.starts_with(KMS)).await
}

/// Refuses to go on while there are values of a newer form than this one.
pub(super) async fn refuse_newer(store: &dyn Store, form: u64) -> anyhow::Result<()> {
    let why = "it was written during the rewrite; run the command again";
    refuse(store, why, |value| Form::needed(value) > form).await
}

/// Refuses to go on while there are such values. The error names the first ones.
async fn refuse(store: &dyn Store, why: &str, is_refused: impl Fn(&[u8]) -> bool) -> anyhow::Result<()> {
    let (count, found) = find(store, is_refused).await?;
    if count > 0 {
        bail!("{count} values prevent the downgrade ({why}), the first ones are {}", found.join(", "));
    }
    Ok(())
}

/// Returns the number of such values, and the first keys.
pub(super) async fn find(
    store: &dyn Store,
    is_it: impl Fn(&[u8]) -> bool,
) -> anyhow::Result<(u64, Vec<String>)> {
    let (mut found, mut count, mut range) = (Vec::new(), 0_u64, KeyRange::prefix(ROOT));
    loop {
        let page = store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
        for entry in page.entries.iter().filter(|entry| is_it(&entry.value)) {
            count += 1;
            if found.len() < NAMED {
                found.push(entry.key.as_str().to_owned());
            }
        }
        match page.entries.last().filter(|_| page.remaining > 0) {
            Some(last) => range = range.after(last.key.as_bytes()),
            None => return Ok((count, found)),
        }
    }
}
