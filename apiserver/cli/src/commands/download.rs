//! File that a server writes while it sends it.

use std::io::Write;

use futures::AsyncReadExt;
use kube::Error;

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure, chain};

/// Bytes that are read at a time.
const PART: usize = 64 * 1024;

/// Reads a file by `POST` on a nonresource path. The caller checks that it is complete.
///
/// # Errors
/// The server's refusal; a connection that breaks; an output that cannot be written.
pub async fn download(
    connection: &ConnectionArguments,
    path: &str,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let Connection { client, .. } = connection.connect().await?;
    let request = http::Request::post(path).body(Vec::new());
    let request = request.map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    let stream = client.request_stream(request).await.map_err(|error| refused(path, &error))?;
    let (mut stream, mut part) = (Box::pin(stream), vec![0; PART]);
    loop {
        let broken = |error: std::io::Error| {
            let text = format!("the file of {path} broke off");
            Failure::new(ExitCode::Unreachable, text).detail("cause", chain(&error))
        };
        let size = stream.read(&mut part).await.map_err(broken)?;
        if size == 0 {
            return Ok(());
        }
        out.write_all(&part[..size]).map_err(|error| {
            Failure::new(ExitCode::Failed, "cannot write the file").detail("cause", error.to_string())
        })?;
    }
}

fn refused(path: &str, error: &Error) -> Failure {
    let Error::Api(status) = error else { return Failure::api("read", path, "", "", error) };
    let failure = Failure::new(ExitCode::Failed, format!("cannot read {path}: {}", status.message.trim()));
    match status.code {
        403 => failure.next(format!("bind a ClusterRole with verb post on nonResourceURLs {path}")),
        404 => failure.next("use the kubeconfig of Capstan's direct endpoint, and a server of this release"),
        _ => failure,
    }
}
