//! Kubeconfig that runs `capstan login`.

use std::path::Path;

use serde_json::{Value, json};

use super::{file_failure, servers};
use crate::error::Failure;
use crate::output;

/// Name of the cluster, the user and the context.
const NAME: &str = "capstan";

/// Advice of kubectl if the program is not installed.
const HINT: &str = "Install capstan: kubectl runs it to log in.";

/// Writes the kubeconfig with one of these servers. It has no secret: `login` are the arguments of the command that gets one.
pub(super) fn write(
    file: &Path,
    urls: &[String],
    ca: Option<&Path>,
    login: &[String],
) -> Result<(), Failure> {
    let server = crate::commands::block_on(servers::choose(urls, ca))?;
    let ca =
        ca.map(|path| std::fs::read(path).map_err(|error| file_failure("read", path, &error))).transpose()?;
    let text = serde_saphyr::to_string(&kubeconfig(&server, ca.as_deref(), login))
        .map_err(|error| file_failure("write", file, &error))?;
    output::write_private(file, text.as_bytes()).map_err(|error| file_failure("write", file, &error))
}

fn kubeconfig(server: &str, ca: Option<&[u8]>, args: &[String]) -> Value {
    let mut cluster = json!({"server": server});
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = json!(k8s_openapi::ByteString(ca.to_vec()));
    }
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "capstan", "args": args,
        "interactiveMode": "IfAvailable", "provideClusterInfo": true, "installHint": HINT});
    json!({"apiVersion": "v1", "kind": "Config", "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"exec": exec}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_runs_the_command_with_its_arguments() {
        let directory = tempfile::tempdir().unwrap();
        let [file, ca] = ["kubeconfig", "ca.crt"].map(|name| directory.path().join(name));
        std::fs::write(&ca, "PEM").unwrap();
        let args = ["login", "keystone", "--cloud", "blue"].map(str::to_owned);
        let server = "https://capstan:7443".to_owned();
        write(&file, &[server], Some(&ca), &args).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let found: Value = serde_saphyr::from_str(&text).unwrap();
        let cluster = &found["clusters"][0]["cluster"];
        assert_eq!(
            (&cluster["server"], &cluster["certificate-authority-data"]),
            (&json!("https://capstan:7443"), &json!("UEVN"))
        );
        let exec = &found["users"][0]["user"]["exec"];
        assert_eq!(exec["args"], json!(args));
        assert_eq!((&exec["command"], &exec["interactiveMode"]), (&json!("capstan"), &json!("IfAvailable")));
        let server = "http://capstan".to_owned();
        let failure = write(&file, &[server], None, &args).unwrap_err().to_string();
        assert!(failure.contains("https://"), "{failure}");
    }
}
