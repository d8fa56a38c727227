//! Documents for Ignition 2.3.0.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::shell::Shell;
use super::{BootPlan, Metadata, commands};
use crate::json::{flag, list, text};

/// The only version that is read, as Flatcar has it.
const VERSION: &str = "2.3.0";

/// Unit that runs kubeadm.
const UNIT: &str = "kubeadm.service";

/// File with the identity of the server, which the unit of its agent writes.
const METADATA_FILE: &str = "/run/metadata/flatcar";

/// Unit of that agent.
const METADATA_UNIT: &str = "coreos-metadata.service";

/// Reads a document, and runs the commands before kubeadm.
pub(super) fn plan(document: &str, metadata: Metadata<'_>) -> Result<BootPlan, String> {
    let parsed: Value =
        serde_json::from_str(document).map_err(|error| format!("failed to parse config: {error}"))?;
    let version = text(&parsed, "/ignition/version");
    if version != VERSION {
        return Err(format!("failed to parse config: unsupported config version {version:?}"));
    }
    let mut plan = BootPlan::default();
    for file in list(&parsed, "/storage/files") {
        let path = text(file, "/path");
        let content = decode(file).map_err(|error| format!("failed to write file {path:?}: {error}"))?;
        let held = plan.files.entry(path.to_owned()).or_default();
        if !flag(file, "/append") {
            held.clear();
        }
        held.extend(content);
    }
    let units = list(&parsed, "/systemd/units").iter();
    let enabled: Vec<&Value> =
        units.filter(|unit| text(unit, "/name") == UNIT && flag(unit, "/enabled")).collect();
    let mut shell = shell(&enabled, metadata)?;
    let lines = enabled.iter().flat_map(|unit| text(unit, "/contents").lines()).filter_map(executed);
    for line in lines {
        run(&mut plan, &mut shell, line)?;
    }
    Ok(plan)
}

/// Returns the shell of the unit, with the variables of its environment file.
fn shell(units: &[&Value], metadata: Metadata<'_>) -> Result<Shell, String> {
    let additions = units.iter().flat_map(|unit| list(unit, "/dropins")).map(|it| text(it, "/contents"));
    let contents = units.iter().map(|unit| text(unit, "/contents")).chain(additions);
    let lines: Vec<&str> = contents.flat_map(str::lines).map(str::trim).collect();
    let mut shell = Shell::default();
    if lines.contains(&format!("EnvironmentFile={METADATA_FILE}").as_str()) {
        let mut required = lines.iter().filter_map(|line| line.strip_prefix("Requires="));
        if !required.any(|units| units.split_whitespace().any(|unit| unit == METADATA_UNIT)) {
            return Err(format!("{UNIT}: Failed to load environment files: No such file or directory"));
        }
        shell.export("COREOS_OPENSTACK_HOSTNAME", metadata.hostname);
        shell.export("COREOS_OPENSTACK_INSTANCE_UUID", metadata.id);
    }
    Ok(shell)
}

/// Returns the command of a line of a unit.
fn executed(line: &str) -> Option<&str> {
    line.trim().strip_prefix("ExecStart=").map(str::trim)
}

/// Reads the script that a unit runs. The commands before kubeadm may change its configuration.
fn run(plan: &mut BootPlan, shell: &mut Shell, command: &str) -> Result<(), String> {
    let script = command.split_whitespace().find(|word| plan.files.contains_key(*word));
    let script = match script {
        Some(path) => super::text_file(plan, path)?.to_owned(),
        None => command.to_owned(),
    };
    for line in script.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if plan.kubeadm.is_none() {
            plan.kubeadm = commands::kubeadm(line);
        }
        if plan.kubeadm.is_none() {
            shell.run(plan, line)?;
        }
        plan.commands.push(line.to_owned());
    }
    Ok(())
}

fn decode(file: &Value) -> Result<Vec<u8>, String> {
    let source = text(file, "/contents/source");
    if source.is_empty() {
        return Ok(Vec::new());
    }
    if source.starts_with("https://") || source.starts_with("http://") {
        // A hollow node has no network, and needs no programs.
        return Ok(Vec::new());
    }
    let data = source
        .strip_prefix("data:")
        .ok_or_else(|| format!("source {source:?} is neither a data URL nor a web address"))?;
    let (kind, content) = data.split_once(',').ok_or("the data URL has no comma")?;
    let decoded: Vec<u8> = percent_decode_str(content).collect();
    let bytes = if kind.ends_with(";base64") {
        STANDARD.decode(decoded).map_err(|error| error.to_string())?
    } else {
        decoded
    };
    match text(file, "/contents/compression") {
        "" => Ok(bytes),
        "gzip" => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_end(&mut decoder, &mut plain).map_err(|error| error.to_string())?;
            Ok(plain)
        }
        other => Err(format!("unsupported compression {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METADATA: Metadata<'static> = Metadata { id: "1-2", hostname: "node-0.novalocal" };

    fn document(script: &str, units: &Value) -> String {
        let script = percent_encoding::utf8_percent_encode(script, percent_encoding::NON_ALPHANUMERIC);
        let document = json!({
            "ignition": {"version": "2.3.0"},
            "storage": {"files": [
                {"filesystem": "root", "path": "/etc/kubeadm.sh", "mode": 448, "contents":
                    {"source": format!("data:,{script}")}},
                {"filesystem": "root", "path": "/etc/kubeadm.yml", "contents":
                    {"source": "data:,a%3A%20%24%7BCOREOS_OPENSTACK_HOSTNAME%7D"}},
                {"filesystem": "root", "path": "/opt/k.raw", "contents": {"source": "https://example.com/k.raw"}},
            ]},
            "systemd": {"units": units},
        });
        document.to_string()
    }

    #[test]
    fn the_script_of_the_unit_runs_kubeadm() {
        let unit =
            "[Unit]\nConditionPathExists=/etc/kubeadm.yml\n[Service]\nExecStart=/bin/bash /etc/kubeadm.sh\n";
        let units = json!([{"name": "kubeadm.service", "enabled": true, "contents": unit}]);
        let script =
            "#!/bin/bash\nset -e\nkubeadm init --config /etc/kubeadm.yml\nmv /etc/kubeadm.yml /tmp/\n";
        let plan = plan(&document(script, &units), METADATA).unwrap();
        assert_eq!(plan.files["/etc/kubeadm.yml"], b"a: ${COREOS_OPENSTACK_HOSTNAME}");
        assert_eq!(plan.kubeadm.unwrap().config, "/etc/kubeadm.yml");
        assert_eq!(plan.commands.len(), 3);
        assert!(super::plan("{\"ignition\": {\"version\": \"3.1.0\"}}", METADATA).is_err());
    }

    #[test]
    fn the_script_reads_the_identity_of_the_server_if_its_agent_has_run() {
        let script = "export COREOS_OPENSTACK_HOSTNAME=${COREOS_OPENSTACK_HOSTNAME%.*}\n\
            envsubst < /etc/kubeadm.yml > /etc/kubeadm.yml.tmp\nmv /etc/kubeadm.yml.tmp /etc/kubeadm.yml\n\
            kubeadm join --config /etc/kubeadm.yml\n";
        let units = |dropin: &str| {
            let unit = "[Service]\nExecStart=/bin/bash /etc/kubeadm.sh\n";
            json!([{"name": "kubeadm.service", "enabled": true, "contents": unit},
                {"name": "kubeadm.service", "enabled": true, "dropins": [{"name": "a.conf", "contents": dropin}]}])
        };
        let dropin = "[Unit]\nRequires=containerd.service coreos-metadata.service\n[Service]\n\
            EnvironmentFile=/run/metadata/flatcar\n";
        let found = plan(&document(script, &units(dropin)), METADATA).unwrap();
        assert_eq!(found.files["/etc/kubeadm.yml"], b"a: node-0");
        let dropin = "[Service]\nEnvironmentFile=/run/metadata/flatcar\n";
        assert!(plan(&document(script, &units(dropin)), METADATA).is_err());
    }
}
