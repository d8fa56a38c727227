//! Report of a failed bootstrap: a script that writes to the machine's console, where the cloud's users can read it.

use crate::setup::SENTINEL;

/// Start of the lines that name machine, phase and exit code.
const PREFIX: &str = "capstan-bootstrap:";

/// Command that prints the last output of cloud-init, which runs kubeadm.
pub(crate) const CLOUD_INIT: &str = "tail -n 40 /var/log/cloud-init-output.log";

/// Command that prints the last output of the unit which runs kubeadm on machines with Ignition.
pub(crate) const UNIT: &str = "journalctl -u kubeadm -n 40 -o cat --no-pager";

/// Returns the script. Its arguments are a phase and an exit code, with which it ends. `output` prints the last output of
/// the bootstrap.
///
/// At the phase `end`, a missing sentinel counts as a failure. What it writes contains no tokens, keys or PEM.
pub(crate) fn script(machine: &str, output: &str) -> String {
    format!(
        r#"#!/bin/sh
phase="$1"
code="$2"
if [ "$phase" = end ] && [ "$code" = 0 ] && [ ! -e {SENTINEL} ]; then
  code=1
fi
if [ "$code" = 0 ]; then
  exit 0
fi
clean() {{
  sed -e '/-----BEGIN/,/-----END/d' -e 's/[a-z0-9]\{{6\}}\.[a-z0-9]\{{16\}}/<token>/g' -e 's/[0-9a-f]\{{64\}}/<key>/g'
}}
(
  echo "{PREFIX} {machine} $phase $code"
  {output} 2>&1 | clean
  journalctl -u kubelet -n 40 --no-pager 2>&1 | clean
) > /dev/console
exit "$code"
"#
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(script: &str, arguments: [&str; 2]) -> (i32, String) {
        let output = Command::new("sh").args(["-c", script, "report"]).args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn a_failure_is_written_without_secrets_and_its_code_is_kept() {
        let directory = std::env::temp_dir().join(format!("capstan-report-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let log = directory.join("log");
        let text =
            "error a\ntoken k3v9qz.1x5w8m2c7r4t6y0p\n-----BEGIN KEY-----\nAAAA\n-----END KEY-----\nend\n";
        std::fs::write(&log, text).unwrap();
        let sentinel = directory.join("sentinel");
        let script = script("m", CLOUD_INIT)
            .replace("/var/log/cloud-init-output.log", log.to_str().unwrap())
            .replace(SENTINEL, sentinel.to_str().unwrap())
            .replace("journalctl -u kubelet -n 40 --no-pager", "true")
            .replace(" > /dev/console", "");
        assert_eq!(run(&script, ["kubeadm", "0"]), (0, String::new()));
        let expected = "capstan-bootstrap: m kubeadm 3\nerror a\ntoken <token>\nend\n";
        assert_eq!(run(&script, ["kubeadm", "3"]), (3, expected.to_owned()));
        assert_eq!(run(&script, ["end", "0"]).0, 1, "the sentinel is missing");
        std::fs::write(&sentinel, "success").unwrap();
        assert_eq!(run(&script, ["end", "0"]), (0, String::new()));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn jinja_does_not_change_the_script() {
        let script = script("m", CLOUD_INIT);
        assert!(!["{{", "{%", "{#"].iter().any(|start| script.contains(start)), "{script}");
    }
}
