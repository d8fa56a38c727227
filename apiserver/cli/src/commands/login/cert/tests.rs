//! Arguments, and the kubeconfig with whose login a certificate is requested.

use clap::Parser;
use kube::config::ExecConfig;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    arguments: CertArguments,
}

fn parse(words: &[&str]) -> Result<CertArguments, clap::Error> {
    Command::try_parse_from([&["capstan"][..], words].concat()).map(|command| command.arguments)
}

#[test]
fn a_kubeconfig_repeats_the_arguments() {
    let plain = ["--kubeconfig", "/k", "--server", "https://a,https://b"];
    let expected = ["login", "cert", "--kubeconfig", "/k", "--server", "https://a,https://b"];
    assert_eq!(parse(&plain).unwrap().of_kubeconfig(), expected);
    let more = ["--before-outage", "7d", "--timeout", "1h", "--keep"];
    let found = parse(&[&plain[..], &more].concat()).unwrap();
    assert_eq!(found.servers, ["https://a", "https://b"]);
    assert_eq!(found.of_kubeconfig(), [&expected[..], &more].concat());
    let found = parse(&["--kubeconfig", "k", "--write-kubeconfig", "o", "--server", "https://a"]).unwrap();
    let here = std::env::current_dir().unwrap().join("k").display().to_string();
    assert!(found.of_kubeconfig().contains(&here), "kubectl runs in any directory");
}

#[test]
fn a_login_stays_that_of_the_present_context() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig").display().to_string();
    std::fs::write(&file, "current-context: blue\n").unwrap();
    let words = ["--kubeconfig", file.as_str(), "--server", "https://a"];
    let found = parse(&words).unwrap().of_kubeconfig();
    assert!(found.join(" ").contains("--context blue"), "{found:?}");
    let found = parse(&[&words[..], &["--context", "green"]].concat()).unwrap();
    assert_eq!(found.context().as_deref(), Some("green"));
    std::fs::write(&file, "current-context: red\n").unwrap();
    assert_eq!(parse(&words).unwrap().context().as_deref(), Some("red"));
}

#[test]
fn a_lifetime_is_one_that_the_signer_gives() {
    assert_eq!(parse(&[]).unwrap().lifetime(), LIFETIME);
    for (text, days) in [("7d", 7), ("365d", 365)] {
        let found = parse(&["--before-outage", text]).unwrap();
        assert_eq!(found.lifetime(), Duration::from_hours(days * 24));
    }
    for bad in ["9m", "366d", "7", ""] {
        assert!(parse(&["--before-outage", bad]).is_err(), "{bad}");
    }
    let without_login = ["--write-kubeconfig", "o", "--server", "https://a"];
    assert!(parse(&without_login).is_err(), "the kubeconfig would run itself");
    assert!(parse(&["--certificate-authority", "ca.crt"]).is_err(), "it would be ignored");
}

#[test]
fn a_kubeconfig_that_runs_this_command_is_found() {
    let config = |args: &[&str]| {
        let mut config = Config::new("https://capstan".parse().unwrap());
        let args = Some(args.iter().map(|word| (*word).to_owned()).collect());
        config.auth_info.exec = Some(ExecConfig { args, ..ExecConfig::default() });
        config
    };
    assert!(runs_itself(&config(&["login", "cert", "--keep"])));
    for other in [&["login", "oidc"][..], &["login"], &[]] {
        assert!(!runs_itself(&config(other)), "{other:?}");
    }
    assert!(!runs_itself(&Config::new("https://capstan".parse().unwrap())));
}

#[test]
fn another_server_is_verified_as_if_the_kubeconfig_said_nothing_about_tls() {
    let mut config = Config::new("https://host".parse().unwrap());
    config.accept_invalid_certs = true;
    config.tls_server_name = Some("host".to_owned());
    config.root_cert = Some(vec![vec![0]]);
    direct(&mut config, "https://capstan:7443", None).unwrap();
    assert_eq!(config.cluster_url.host(), Some("capstan"));
    assert!(!config.accept_invalid_certs);
    assert_eq!((config.tls_server_name.take(), config.root_cert.take()), (None, None));
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.crt");
    let block = |label: &str| format!("-----BEGIN {label}-----\nAQID\n-----END {label}-----\n");
    std::fs::write(&ca, [block("CERTIFICATE"), block("PRIVATE KEY"), block("CERTIFICATE")].concat()).unwrap();
    direct(&mut config, "https://capstan:7443", Some(&ca)).unwrap();
    assert_eq!(config.root_cert, Some(vec![vec![1, 2, 3]; 2]));
    std::fs::write(&ca, "nothing").unwrap();
    let failure = direct(&mut config, "https://capstan:7443", Some(&ca)).unwrap_err().to_string();
    assert!(failure.contains("ca.crt: holds no certificate in PEM"), "{failure}");
}
