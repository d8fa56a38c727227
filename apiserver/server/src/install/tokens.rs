//! Command `capstan join-token create`.

use std::sync::Arc;

use anyhow::{Context, bail};
use jiff::Timestamp;
use storage_contract::{Form, Store};
use storage_etcd::EtcdStore;

use super::installation::{Installation, StoreKind, is_node_name};
use super::{Layout, run_async};
use crate::authorities::AuthorityStore;
use crate::cli::TokenCreateArguments;
use crate::config::ServerConfiguration;
use crate::etcd_files::EtcdFiles;
use crate::join::{JoinTokens, LIFETIME, Token, hashes_of_cas};
use crate::{encryption, key_rotation, output, pki};

/// Creates a join token, and prints it.
///
/// # Errors
/// A node without an installation, or with the embedded store; an etcd that does not answer.
pub(crate) fn create_token(arguments: &TokenCreateArguments) -> anyhow::Result<()> {
    let layout = Layout::new(&arguments.root)?;
    let installation = Installation::read_file(&layout.record()).map_err(|error| {
        let text = "this node has no installation; run this command on a node of `capstan init` or \
                    `capstan join`";
        pki::if_missing(error, || text.to_owned())
    })?;
    if let Some(name) = arguments.node.as_deref().filter(|name| !is_node_name(name)) {
        bail!("--node: {name:?} is no name of a node");
    }
    let token = create(&layout, &installation, arguments.node.as_deref())?;
    Ok(output::print(&format!("{}\n", token.reveal()))?)
}

/// Creates a join token, for one node or for any.
pub(super) fn create(
    layout: &Layout,
    installation: &Installation,
    node: Option<&str>,
) -> anyhow::Result<Token> {
    if installation.store == StoreKind::Embedded {
        bail!("the store of this installation is a file of its node, so no other node can join");
    }
    let configuration = ServerConfiguration::read(&layout.config())?;
    let data = configuration.data_directory()?;
    let etcd = configuration.storage.etcd.context("storage.etcd: the configuration names no etcd")?;
    let etcd = EtcdFiles::new(etcd, false).read()?;
    let file = encryption::load(configuration.encryption_config_file.as_deref(), &data)?;
    run_async(async {
        let store = EtcdStore::connect(etcd).await;
        let store =
            store.context("the etcd cannot be used; does it run? See `journalctl -u capstan-etcd`")?;
        let store: Arc<dyn Store> = Arc::new(store);
        // The command seals the token as servers do now: with the promoted key, in the committed form.
        key_rotation::apply(store.as_ref(), &file.encryption).await?;
        file.encryption.derive_keys(store.form().writes() >= Form::DERIVED_KEYS);
        let authorities = AuthorityStore::new(Arc::clone(&store), Arc::clone(&file.encryption));
        // The servers' certificates are signed by the CA of the store. Until a server has started, it has none.
        let ca = match authorities.signing_servers().await? {
            Some(ca) => ca,
            None => pki::read(&data.join("pki/ca.crt"))?,
        };
        let hash = hashes_of_cas(&ca)?.into_iter().next().context("the CA has no certificate")?;
        let token = Token::new(hash)?;
        JoinTokens::new(store, file.encryption).add(&token, node, Timestamp::now()).await?;
        Ok(token)
    })?
}

/// Returns the command with which a node joins.
pub(super) fn command(installation: &Installation, token: &Token) -> String {
    let minutes = LIFETIME.as_secs() / 60;
    let address = super::installation::bracketed(&installation.address.to_string());
    format!(
        "capstan join https://{address}:{} --token {}   # for one node, within {minutes} minutes",
        installation.port,
        token.reveal()
    )
}
