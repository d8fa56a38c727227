//! Start of the audit log, with or without links between its lines.

use std::path::Path;
use std::sync::Arc;

use apiserver_http::{AuditChain, AuditLog, ChainLink};
use storage_contract::Store;

use super::checkpoints::Checkpoints;
use super::key::AuditKey;
use crate::config::ServerConfiguration;

/// Opens the audit log, and the keeper of its checkpoints if its lines have links. Returns no log if it is disabled.
///
/// # Errors
/// A file that cannot be used; no thread can be started.
pub(crate) async fn open(
    configuration: &ServerConfiguration,
    data: &Path,
    store: &Arc<dyn Store>,
) -> anyhow::Result<(Option<AuditLog>, Option<Checkpoints>)> {
    let settings = &configuration.audit;
    if !settings.chain.enabled {
        return Ok((settings.open(data)?, None));
    }
    let (file, tail) = settings.open_chained_file(data)?.unzip();
    let (is_stdout, tail) = (file.is_none(), tail.flatten());
    let key = AuditKey::open(settings.chain.key_file.as_deref(), data, tail.is_none())?;
    let chain = key.chain().clone();
    let checkpoints = Checkpoints::new(Arc::clone(store), key);
    // The lines of an earlier process on standard output cannot be read, so that each process begins a chain.
    let last = if is_stdout {
        None
    } else {
        newest(tail, checkpoints.newest_after(tail.map_or(0, |link| link.number)).await)
    };
    let log = settings.start_chained(file, AuditChain::new(chain, last, checkpoints.sink()))?;
    Ok((Some(log), Some(checkpoints)))
}

/// Returns the link after which the chain goes on: that of the last line of the files, or of a checkpoint after it. Then
/// lines are missing in the files, and the numbers in them show it.
fn newest(tail: Option<ChainLink>, checkpoint: Option<ChainLink>) -> Option<ChainLink> {
    let checkpoint = checkpoint.filter(|checkpoint| tail.is_none_or(|tail| checkpoint.number > tail.number));
    if let Some(checkpoint) = checkpoint {
        tracing::warn!(
            line = checkpoint.number,
            "lines of the audit log are missing at the end of its file: they were lost in a crash, or removed"
        );
    }
    checkpoint.or(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn am_12_the_chain_goes_on_after_the_last_line_or_after_a_checkpoint_of_a_later_one() {
        let link = |number| Some(ChainLink { number, code: [0; 32] });
        assert_eq!(newest(None, None), None);
        assert_eq!(newest(link(5), None), link(5));
        assert_eq!(newest(link(5), link(7)), link(7));
        assert_eq!(newest(link(7), link(5)), link(7));
        assert_eq!(newest(None, link(5)), link(5));
    }
}
