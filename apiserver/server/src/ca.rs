//! Commands `capstan ca`.

use anyhow::bail;

use crate::cli::CaCreateArguments;
use crate::pki::{self, Authority};
use crate::{config, output};

/// Creates the CA of a data directory that has none.
///
/// # Errors
/// A directory that holds a certificate or a key of a CA, or that cannot be written.
pub(crate) fn create(arguments: &CaCreateArguments) -> anyhow::Result<()> {
    let data = config::data_directory(arguments.data_dir.as_deref())?;
    if !Authority::is_missing(&data) {
        bail!("{}/pki holds ca.crt or ca.key already; this command replaces no CA", data.display());
    }
    pki::private_directory(&data)?;
    Authority::open(&data)?;
    let text = format!("created {0}/pki/ca.crt and {0}/pki/ca.key\n", data.display());
    Ok(output::print(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_is_created_once() {
        let data = tempfile::tempdir().unwrap();
        let arguments = CaCreateArguments { data_dir: Some(data.path().to_owned()) };
        create(&arguments).unwrap();
        assert!(create(&arguments).unwrap_err().to_string().contains("replaces no CA"));
        std::fs::remove_file(data.path().join("pki/ca.crt")).unwrap();
        assert!(create(&arguments).is_err(), "a key without its certificate is half a CA");
    }
}
