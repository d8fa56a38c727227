//! Real Swift of one node: Debian's servers, with a ring of one device in a temporary directory.
//!
//! Two proxies serve it. The first has Swift's own protocol and the users of a Keystone. The second has the S3 protocol
//! and one user of its own, because the Keystone has no EC2 credentials.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusty_s3::{S3Action, UrlStyle};
use serde_json::{Value, json};

use crate::moto::{free_port, listens};

/// Servers, with the names of their programs.
const SERVERS: [(&str, &str); 5] = [
    ("proxy", "proxy"),
    ("s3", "proxy"),
    ("account", "account"),
    ("container", "container"),
    ("object", "object"),
];

/// Running servers.
pub(crate) struct Swift {
    children: Vec<Child>,
    ports: [u16; 5],
    _directory: tempfile::TempDir,
}

impl Swift {
    /// Returns free ports for the servers. The first one is that of Swift's own protocol.
    pub(crate) fn ports() -> [u16; 5] {
        SERVERS.map(|_| free_port())
    }

    pub(crate) async fn start(ports: [u16; 5], auth_url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("devices/d")).unwrap();
        std::fs::write(root.join("swift.conf"), SWIFT).unwrap();
        let user = output(Command::new("id").arg("-un"));
        let mut children = Vec::new();
        for ((name, program), port) in SERVERS.into_iter().zip(ports) {
            let path = root.join(format!("{name}.conf"));
            std::fs::write(&path, configuration(root, (name, port), user.trim(), auth_url)).unwrap();
            if program != "proxy" {
                ring(root, program, port);
            }
        }
        for (name, program) in SERVERS {
            let program = PathBuf::from(format!("/usr/bin/swift-{program}-server"));
            assert!(program.exists(), "{}: `cargo xtask test` installs it", program.display());
            let mut command = Command::new(program);
            command.arg(root.join(format!("{name}.conf"))).stdin(Stdio::null());
            children.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        }
        let it = Self { children, ports, _directory: directory };
        for ((name, _), port) in SERVERS.into_iter().zip(ports) {
            listens(port, name).await;
        }
        it
    }

    pub(crate) fn s3_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// Logs in as `demo`. Returns the URL of the account and a token.
    pub(crate) async fn log_in(&self, auth_url: &str) -> (String, String) {
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {
                "user": {"name": "demo", "password": "demo", "domain": domain},
            }},
            "scope": {"project": {"name": "demo", "domain": domain}},
        }});
        let request = reqwest::Client::new().post(format!("{auth_url}/auth/tokens"));
        let answer =
            request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        let token = answer.headers()["x-subject-token"].to_str().unwrap().to_owned();
        let view: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let project = view["token"]["project"]["id"].as_str().unwrap();
        (format!("http://127.0.0.1:{}/v1/AUTH_{project}", self.ports[0]), token)
    }

    /// Creates a bucket.
    pub(crate) async fn create_bucket(&self, name: &'static str) {
        let endpoint = self.s3_url().parse().unwrap();
        let bucket = rusty_s3::Bucket::new(endpoint, UrlStyle::Path, name, "us-east-1").unwrap();
        let credentials = rusty_s3::Credentials::new("test:tester", "testing");
        let url = bucket.create_bucket(&credentials).sign(Duration::from_secs(60));
        let answer = reqwest::Client::new().put(url).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }
}

impl Drop for Swift {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Creates the ring of one kind of data: four partitions on one device.
fn ring(root: &Path, kind: &str, port: u16) {
    let builder = root.join(format!("{kind}.builder"));
    let device = format!("r1z1-127.0.0.1:{port}/d");
    for arguments in [&["create", "2", "1", "0"][..], &["add", &device, "1"], &["rebalance"]] {
        let mut command = Command::new("swift-ring-builder");
        output(command.current_dir(root).arg(&builder).args(arguments));
    }
}

const SWIFT: &str = "[swift-hash]\nswift_hash_path_suffix = test\nswift_hash_path_prefix = test\n\
                     [storage-policy:0]\nname = default\ndefault = yes\n";

fn configuration(root: &Path, (name, port): (&str, u16), user: &str, auth_url: &str) -> String {
    let directory = root.display();
    let mut text = format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nuser = {user}\nswift_dir = {directory}\n\
         devices = {directory}/devices\nmount_check = false\nworkers = 0\n"
    );
    let proxy = "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n\
                 [filter:catch_errors]\nuse = egg:swift#catch_errors\n";
    // The second proxy refuses to work without a cache, but works with one that does not answer.
    let _ = match name {
        "proxy" => write!(
            text,
            "[pipeline:main]\npipeline = catch_errors authtoken keystoneauth proxy-server\n{proxy}\
             [filter:authtoken]\npaste.filter_factory = keystonemiddleware.auth_token:filter_factory\n\
             www_authenticate_uri = {auth_url}\nauth_url = {auth_url}\nauth_type = password\nusername = admin\n\
             password = admin\nproject_name = admin\nproject_domain_id = default\nuser_domain_id = default\n\
             delay_auth_decision = true\n[filter:keystoneauth]\nuse = egg:swift#keystoneauth\n\
             operator_roles = member, admin\n"
        ),
        "s3" => write!(
            text,
            "[pipeline:main]\npipeline = catch_errors cache s3api tempauth proxy-server\n{proxy}\
             [filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:1\n\
             [filter:s3api]\nuse = egg:swift#s3api\nlocation = us-east-1\n\
             [filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n"
        ),
        kind => write!(
            text,
            "[pipeline:main]\npipeline = {kind}-server\n[app:{kind}-server]\nuse = egg:swift#{kind}\n"
        ),
    };
    text
}
