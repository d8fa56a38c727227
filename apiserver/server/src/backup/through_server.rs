//! Backup that a running server writes, and this command stores.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use storage_backup::check_complete;

use super::location::{Location, upload, uploads};
use super::{Setup, file, key_file, open_target, service};
use crate::cli::BackupArguments;
use crate::output;

/// Runs `capstan backup` with a kubeconfig.
///
/// # Errors
/// A server that refuses or breaks off; a file that is not complete, or that the key does not open.
pub(super) async fn run(arguments: &BackupArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let settings = &setup.configuration.backup;
    let (place, name) = open_target(arguments.to.as_deref().unwrap_or_default(), settings).await?;
    let url = place.url(&name);
    let size = match &place {
        Location::Directory(directory) => fetch(arguments, &directory.join(&name)).await?,
        Location::Remote(remote) => {
            let work = uploads(&setup.work())?;
            let local = work.path().join(&name);
            let size = fetch(arguments, &local).await?;
            upload(remote, &name, &local).await?;
            size
        }
    };
    Ok(output::print(&format!("wrote {url}: {size} bytes\n"))?)
}

/// Writes a file and checks it: all of it with the key, and otherwise that it goes to its end.
async fn fetch(arguments: &BackupArguments, target: &Path) -> anyhow::Result<u64> {
    let partial = file::Partial::beside(target);
    let named = || partial.path.display().to_string();
    let mut out = BufWriter::new(partial.create().with_context(named)?);
    apiserver_cli::download(&arguments.connection, service::PATH, &mut out).await?;
    out.flush().with_context(named)?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all().with_context(named)?;
    let mut input = BufReader::new(File::open(&partial.path).with_context(named)?);
    let broken = "the server ended the backup before its end; its log has the reason";
    let (_, size) = check_complete(&mut input).context(broken)?;
    if let Some(path) = &arguments.key_file {
        file::verify(&partial.path, &key_file::read(path)?, None)?;
    }
    partial.publish(target).with_context(|| format!("{}: cannot be written", target.display()))?;
    Ok(size)
}
