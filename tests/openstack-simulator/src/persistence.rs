//! Persistence of the state in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::fs;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use crate::cloud::SimulatedCloud;
use crate::state::CloudState;

/// Interval in which changes are written together: a busy cloud changes hundreds of times per second.
const DEBOUNCE: Duration = Duration::from_millis(200);

fn about(path: &Path, what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} state file {}: {error}", path.display()))
}

/// Reads the state from the file, if the file exists.
pub(crate) async fn load(path: &Path) -> io::Result<Option<CloudState>> {
    let bytes = match fs::read(path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, "cannot read", &error)),
    };
    let state =
        serde_json::from_slice(&bytes).map_err(|error| about(path, "cannot understand", &error.into()))?;
    Ok(Some(state))
}

/// Writes the bytes atomically: the file always has either the old or the new state.
pub(crate) async fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let write = async {
        let mut file = fs::File::create(&temporary).await?;
        file.write_all(bytes).await?;
        file.sync_all().await?;
        fs::rename(&temporary, path).await
    };
    write.await.map_err(|error| about(path, "cannot write", &error))
}

/// Writes the state after changes, and once more when it is stopped.
pub(crate) async fn keep(cloud: Arc<SimulatedCloud>, path: PathBuf, stop: CancellationToken) {
    loop {
        let stopping = tokio::select! {
            () = cloud.changed() => false,
            () = stop.cancelled() => true,
        };
        if !stopping {
            tokio::select! {
                () = tokio::time::sleep(DEBOUNCE) => {}
                () = stop.cancelled() => {}
            }
        }
        let saved = match cloud.snapshot() {
            Ok(bytes) => save(&path, &bytes).await,
            Err(error) => Err(about(&path, "cannot write", &error.into())),
        };
        if let Err(error) = saved {
            tracing::error!(error = %error, "cannot save the state");
        }
        if stopping {
            return;
        }
    }
}
