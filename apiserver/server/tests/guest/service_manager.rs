//! Messages to systemd, which starts the program with `Type=notify` and a watchdog.

use std::os::unix::net::UnixDatagram;

use crate::process::{Capstan, PATIENCE};

/// Waits for a message, and returns those that came before it.
fn await_message(socket: &UnixDatagram, expected: &str) -> Vec<String> {
    let (mut before, mut buffer) = (Vec::new(), [0; 256]);
    loop {
        let length =
            socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {expected}: {error}; {before:?}"));
        let message = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
        if message == expected {
            return before;
        }
        before.push(message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_hears_of_the_open_port_of_the_life_and_of_the_end() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let path = path.display().to_string();
    let environment = [("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "400000")];
    let mut capstan = Capstan::start_with(data.path(), &[], &environment);
    assert_eq!(await_message(&socket, "READY=1"), Vec::<String>::new());
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", capstan.port)).await.is_ok(), "the port is open");
    await_message(&socket, "WATCHDOG=1");
    await_message(&socket, "WATCHDOG=1");
    capstan.signal("TERM");
    await_message(&socket, "STOPPING=1");
    assert_eq!(capstan.ended().await.code(), Some(0));
}
