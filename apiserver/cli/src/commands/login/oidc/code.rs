//! Login in a browser: authorization code with PKCE, on a port of this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use form_urlencoded::Serializer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::OidcArguments;
use super::endpoints::{Endpoints, Granted};
use crate::commands::login::random::{hash, random};
use crate::error::{ExitCode, Failure};
use crate::output;

/// Time in which the person logs in.
const LONGEST: Duration = Duration::from_secs(300);

/// Time in which a browser sends its request.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);

/// Largest request that is read. Unit: bytes.
const MOST: usize = 16 * 1024;

/// Answer that the issuer sends through the browser.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Code(String),
    Error(String),
    /// Request of another page, or of another login.
    Other,
}

/// Logs in. `show` shows the URL to the person.
pub(super) async fn log_in(
    arguments: &OidcArguments,
    endpoints: &Endpoints,
    show: impl FnOnce(&str),
) -> Result<Granted, Failure> {
    let (state, nonce, verifier) = (random()?, random()?, random()?);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let taken = |error| Failure::new(ExitCode::Failed, format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    let back = format!("http://{}/", listener.local_addr().map_err(taken)?);
    let query = Serializer::new(String::new())
        .append_pair("response_type", "code")
        .append_pair("client_id", &arguments.client_id)
        .append_pair("redirect_uri", &back)
        .append_pair("scope", &arguments.scope())
        .append_pair("state", &state)
        .append_pair("nonce", &nonce)
        .append_pair("code_challenge", &hash(&verifier))
        .append_pair("code_challenge_method", "S256")
        .finish();
    let endpoint = endpoints.authorization()?;
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    let url = format!("{endpoint}{joint}{query}");
    show(&url);
    let waiting = tokio::time::timeout(LONGEST, answer(&listener, &state)).await;
    let code = match waiting {
        Ok(Answer::Code(code)) => code,
        Ok(Answer::Error(error)) => return Err(endpoints.failure(error)),
        Ok(Answer::Other) | Err(_) => {
            let summary = format!("no login within {} minutes", LONGEST.as_secs() / 60);
            return Err(Failure::new(ExitCode::TimedOut, summary)
                .next("without a browser on this machine, use --grant device"));
        }
    };
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back.as_str()),
        ("code_verifier", verifier.as_str()),
    ];
    endpoints.token(&fields, Some(&nonce)).await.map_err(|refused| refused.failure)
}

/// Prints the URL, and starts the browser. If there is none, the person has the URL.
pub(super) fn open(url: &str, has_browser: bool) {
    output::note(&format!("Log in with a browser on this machine:\n{url}\n"));
    if !has_browser {
        return;
    }
    let program = std::env::var_os("BROWSER").filter(|program| !program.is_empty());
    let program = program.unwrap_or_else(|| "xdg-open".into());
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}

/// Waits for the answer to this login. Requests of other pages are refused, and do not end it.
async fn answer(listener: &TcpListener, state: &str) -> Answer {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let request = tokio::time::timeout(LONGEST_REQUEST, target(&mut stream)).await;
        let found = request.ok().flatten().map_or(Answer::Other, |target| read(&target, state));
        let (line, text) = match &found {
            Answer::Code(_) => ("200 OK", "You are logged in. You can close this page."),
            Answer::Error(_) => ("200 OK", "The login failed. See the terminal."),
            Answer::Other => ("400 Bad Request", "This is not the answer to the login."),
        };
        let response = format!(
            "HTTP/1.1 {line}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.shutdown().await;
        if found != Answer::Other {
            return found;
        }
    }
}

/// Returns the target of a request.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(part.get(..count)?);
        if bytes.len() > MOST {
            return None;
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut words = text.lines().next()?.split(' ');
    words.next().filter(|method| *method == "GET")?;
    words.next().map(str::to_owned)
}

/// Reads the answer in the target of a request. Only that with the state of this login counts.
fn read(target: &str, state: &str) -> Answer {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let field = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    if field("state").as_deref() != Some(state) {
        return Answer::Other;
    }
    match (field("code"), field("error")) {
        (_, Some(error)) => {
            let words = field("error_description").unwrap_or_default();
            Answer::Error(format!("{error} {words}").trim_end().to_owned())
        }
        (Some(code), None) => Answer::Code(code),
        (None, None) => Answer::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_with_the_state_of_the_login_counts() {
        let table = [
            ("/?code=a%20b&state=s", Answer::Code("a b".to_owned())),
            (
                "/?state=s&error=access_denied&error_description=no",
                Answer::Error("access_denied no".to_owned()),
            ),
            ("/?code=a&state=other", Answer::Other),
            ("/?code=a", Answer::Other),
            ("/?state=s", Answer::Other),
            ("/favicon.ico", Answer::Other),
        ];
        for (target, expected) in table {
            assert_eq!(read(target, "s"), expected, "{target}");
        }
    }
}
