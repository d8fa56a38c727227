//! Commands of a document, and the call of kubeadm among them.

/// Subcommand of kubeadm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KubeadmVerb {
    Init,
    Join,
}

/// A call of kubeadm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubeadmCall {
    pub(crate) verb: KubeadmVerb,
    /// Path of the configuration.
    pub(crate) config: String,
}

/// Finds a call of kubeadm in a command of the shell.
pub(super) fn kubeadm(command: &str) -> Option<KubeadmCall> {
    // Operators of the shell end a command even without blanks around them.
    let spaced = command.replace("&&", " && ").replace(';', " ; ").replace('|', " | ");
    let words: Vec<&str> = spaced.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let start = words.iter().position(|word| *word == "kubeadm" || word.ends_with("/kubeadm"))?;
    let rest = words.get(start + 1..)?;
    let verb = match *rest.first()? {
        "init" => KubeadmVerb::Init,
        "join" => KubeadmVerb::Join,
        _ => return None,
    };
    let mut arguments = rest.iter().skip(1).take_while(|word| !["&&", ";", "|", "||"].contains(word));
    while let Some(argument) = arguments.next() {
        if *argument == "--config" {
            return Some(KubeadmCall { verb, config: (*arguments.next()?).to_owned() });
        }
        if let Some(config) = argument.strip_prefix("--config=") {
            return Some(KubeadmCall { verb, config: config.to_owned() });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_of_kubeadm_is_found_with_its_configuration() {
        let call = |verb, config: &str| Some(KubeadmCall { verb, config: config.to_owned() });
        let line = "kubeadm init --config /run/kubeadm/kubeadm.yaml --v 4 && echo success > /run/x";
        assert_eq!(kubeadm(line), call(KubeadmVerb::Init, "/run/kubeadm/kubeadm.yaml"));
        let line = "sleep 1;/usr/bin/kubeadm join --v=2 --config=/run/j.yaml&&true";
        assert_eq!(kubeadm(line), call(KubeadmVerb::Join, "/run/j.yaml"));
        assert_eq!(kubeadm("kubeadm version"), None);
        assert_eq!(kubeadm("kubeadm init && echo --config x"), None);
    }
}
