//! Rights of the host's users on the direct endpoint while a real host is down, and a host with another authorizer.
//!
//! Two servers have the same host. The first one has the default bounds, and its users meet a webhook of the host that
//! denies what the roles allow. The second one has bounds of seconds.

mod admission;
mod endpoint;
mod limits;
mod users;
mod webhooks;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;

use self::endpoint::{Ask, Endpoint};
use self::users::{Expected, Users};
use self::webhooks::Webhooks;
use super::lab::{Lab, Tools, ports, until};
use super::process::Process;
use crate::run;

/// Number of scenarios.
pub(super) const COUNT: usize = 2;

const SENTENCE: &str =
    "users of a dead host keep their rights for a bounded time, and a denying webhook closes the mirror";

const OF_ADMISSION: &str =
    "policies, webhooks, quotas and client certificates of the host count, also while it is down";

/// Bounds of the second server. Writes must be possible until all answers of the first minute have been compared, also
/// while another part runs beside this one.
const WRITE: Duration = Duration::from_secs(34);
const READ: Duration = Duration::from_secs(46);

/// Time after a bound at which it must be over: the mirror notes its age every two seconds.
const AFTER: Duration = Duration::from_secs(3);

/// Number of disagreements that closes the mirror for all.
const MANY: f64 = 11.0;

/// Kinds that mallory's role allows to read. Two questions for each are more than the mirror survives.
const KINDS: [&str; 7] = [
    "clusters",
    "machines",
    "machinesets",
    "machinedeployments",
    "machinepools",
    "machinehealthchecks",
    "machinedrainrules",
];

/// Answers of a host that is up.
const UP: Expected = Expected {
    read: 200,
    write: 201,
    secrets: 200,
    no_right: 403,
    gone: 401,
    of_other_audience: 401,
    is_copy: false,
};

/// Answers by the mirror, within all bounds.
const DOWN: Expected = Expected { secrets: 503, gone: 503, is_copy: true, ..UP };

/// Answers by the mirror after the bound of writes.
const READ_ONLY: Expected = Expected { write: 503, ..DOWN };

/// Answers after all bounds. Accounts are then as old as roles, so that no token can be verified.
const OVER: Expected = Expected { read: 503, no_right: 503, ..READ_ONLY };

/// Runs the scenario in a lab of its own.
pub(super) fn run(tools: Tools) -> anyhow::Result<()> {
    let webhooks = Webhooks::start()?;
    let authorization = [
        "--authorization-mode=Webhook,RBAC".to_owned(),
        "--authorization-webhook-version=v1".to_owned(),
        format!("--authorization-webhook-config-file={}", webhooks.kubeconfig("authorize")),
    ];
    let lab = Lab::host_with(tools, authorization.to_vec())?;
    prepare(&lab)?;
    let users = Users::create(&lab)?;
    lab.start_with(&settings(&webhooks, "ignore", ""))?;
    let first = Endpoint::new(&lab, "first", lab.capstan_port, lab.data())?;
    super::one(&lab, SENTENCE, || scenario(&lab, &webhooks, &first, &users))?;
    webhooks.speak();
    super::one(&lab, OF_ADMISSION, || admission::run(&lab, &webhooks, &first, &users))
}

/// Makes the keys of all servers, and registers Capstan in the host.
fn prepare(lab: &Lab) -> anyhow::Result<()> {
    let mut keys = Command::new(&lab.tools.capstan);
    run::output(keys.args(["keys", "create", "--output"]).arg(lab.data()))?;
    lab.register_with(&["--mirror"])
}

/// Returns the configuration file of a server. `admission` is the use of the host's webhooks and policies, and with
/// `mirror` its certificates count, too. `mirror` are the settings of the mirror.
fn settings(webhooks: &Webhooks, admission: &str, mirror: &str) -> String {
    let certificates = admission == "mirror";
    format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
         host: {{permissions: mirror, admission: {admission}, clientCertificates: {certificates}, acceptHostAudience: false, kubeconfig: unused, mirror: {{{mirror}}}}}\n\
         authentication: {{webhook: {{kubeConfigFile: {}, cacheTTL: 0s, sharedWithHost: true}}}}\n",
        webhooks.kubeconfig("authenticate")
    )
}

/// Returns the setting with which the disagreements so far do not count.
fn accepting_all() -> anyhow::Result<String> {
    // As an operator does: the disagreements of this very second are accepted, too.
    let now = run::output(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%S.%NZ"]))?;
    Ok(format!("acceptedAt: '{}'", now.trim()))
}

fn scenario(lab: &Lab, webhooks: &Webhooks, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    let (_process, second) = second(lab, webhooks)?;
    while_up(lab, [first, &second], users)?;
    lab.kill_host()?;
    let killed = Instant::now();
    for endpoint in [first, &second] {
        until("the server has noticed the outage", || endpoint.host_is(lab, "down"))?;
    }
    users.check(&second, &DOWN)?;
    ensure!(
        killed.elapsed() < WRITE - AFTER,
        "this machine is too slow for the bounds: {:?}",
        killed.elapsed()
    );
    step("the mirror allows what the host has allowed, and nothing else", killed);
    closed(lab, webhooks, first, users)?;
    step("a closed mirror allows nothing until an operator accepts it", killed);
    over(lab, [first, &second], users, killed)?;
    lab.start_host()?;
    until("the host is up again", || second.host_is(lab, "up"))?;
    users.check(&second, &UP)?;
    step("the host decides again", killed);
    webhooks.silence();
    let silent = second.ask(&users.alice, Ask::RULES)?;
    ensure!(silent.code == 503 && silent.text.contains("token webhook"), "{}", silent.text);
    Ok(())
}

fn step(text: &str, killed: Instant) {
    eprintln!("        {text} ({:.1} s after the end of the host)", killed.elapsed().as_secs_f64());
}

/// Starts the second server, with a store of its own.
fn second(lab: &Lab, webhooks: &Webhooks) -> anyhow::Result<(Process, Endpoint)> {
    let [port] = ports()?;
    let [write, read] = [WRITE, READ].map(|bound| bound.as_secs());
    let mirror = format!("read: {read}s, write: {write}s, act: {write}s");
    let config = lab.file("second.yaml", &settings(webhooks, "ignore", &mirror))?;
    let (data, listen) = (lab.directory("second"), format!("127.0.0.1:{port}"));
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["serve", "--listen", &listen, "--config", &config, "--data-dir"]).arg(&data);
    command.args(["--host-kubeconfig", &lab.certificates.path("capstan.kubeconfig")]);
    let log = lab.directory("log").join("second.log");
    let mut process = Process::start("capstan", &mut command, &log)?;
    until("the second server accepts connections", || {
        process.check()?;
        Ok(std::net::TcpStream::connect(&listen).is_ok())
    })?;
    let endpoint = Endpoint::new(lab, "second", port, data)?;
    Ok((process, endpoint))
}

fn is_mirrored(lab: &Lab, endpoint: &Endpoint) -> anyhow::Result<bool> {
    let age = |what: &str| format!("capstan_host_mirror_age_seconds{{what=\"{what}\"}}");
    let is_young = |name: String| -> anyhow::Result<bool> {
        Ok(endpoint.metric(lab, &name)?.is_some_and(|seconds| seconds >= 0.0))
    };
    Ok(endpoint.host_is(lab, "up")? && is_young(age("permissions"))? && is_young(age("keys"))?)
}

/// Sends questions that the roles allow and the webhook denies.
fn deny(first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    for kind in KINDS {
        for ask in [Ask::Read(kind), Ask::Get(kind)] {
            let found = first.ask(&users.mallory, ask)?;
            ensure!(found.code == 403, "mallory, {ask:?}: {}", found.text);
        }
    }
    Ok(())
}

/// While the host is up, it decides. Certificates of its CA for clients are good for the host alone. At the end, its
/// webhook has closed the mirror of the first server.
fn while_up(lab: &Lab, endpoints: [&Endpoint; 2], users: &Users) -> anyhow::Result<()> {
    for endpoint in endpoints {
        until("the mirror has all permissions of the host", || is_mirrored(lab, endpoint))?;
    }
    let [first, _] = endpoints;
    deny(first, users)?;
    for endpoint in endpoints {
        users.check(endpoint, &UP)?;
        ensure!(
            endpoint.serves_its_own(lab)?,
            "the {} server does not serve its administrator",
            endpoint.name
        );
        let found = endpoint.ask_with_certificate(lab, "alice")?;
        ensure!(found.code == 401, "a certificate of the host: {}", found.text);
    }
    until("the host's webhook has closed the mirror", || {
        let wider = "capstan_host_mirror_disagreements_total{kind=\"wider\"}";
        Ok(first.metric(lab, wider)?.is_some_and(|count| count >= MANY))
    })?;
    until("an Event says so", || first.has_event(lab, "MirrorWiderThanHost"))
}

/// The first server uses its mirror for nothing, until an operator accepts the disagreements. It restarts without the host.
fn closed(lab: &Lab, webhooks: &Webhooks, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    for (ask, token) in [(Ask::RULES, &users.bot), (Ask::WRITE, &users.bot), (Ask::RULES, &users.mallory)] {
        let found = first.ask(token, ask)?;
        let is_closed = found.text.contains("it would allow what the host denies");
        ensure!(found.code == 503 && is_closed, "a closed mirror, {ask:?}: {}", found.text);
    }
    ensure!(first.serves_its_own(lab)?, "the first server does not serve its administrator");
    lab.start_with(&settings(webhooks, "ignore", &accepting_all()?))?;
    let mut last = String::new();
    let found = until("the first server has accepted the disagreements", || {
        let found = first.ask(&users.bot, Ask::RULES)?;
        last = found.text;
        Ok(found.code == 200)
    });
    found.map_err(|error| error.context(last))?;
    users.check(first, &DOWN)
}

/// The second server refuses writes after their bound, and then everything.
fn over(lab: &Lab, endpoints: [&Endpoint; 2], users: &Users, killed: Instant) -> anyhow::Result<()> {
    let [first, second] = endpoints;
    for (bound, expected, text) in [
        (WRITE, &READ_ONLY, "writes are refused after their bound"),
        (READ, &OVER, "everything is refused after the last bound"),
    ] {
        std::thread::sleep((bound + AFTER).saturating_sub(killed.elapsed()));
        users.check(second, expected)?;
        step(text, killed);
    }
    users.check(first, &DOWN)?;
    for endpoint in endpoints {
        ensure!(
            endpoint.serves_its_own(lab)?,
            "the {} server does not serve its administrator",
            endpoint.name
        );
    }
    Ok(())
}
