//! The echo example answers a program that nobody here wrote: socat, from Debian.
//!
//! Without it a test says what it left out and passes; with `REQUIRE_CLIENTS` set, as in CI, it fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A server that has not said its address, or a client that has not ended, by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The example, serving.
struct Server {
    child: Child,
    port: u16,
    lines: mpsc::Receiver<String>,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(example())
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, lines) = mpsc::channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let say = say.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = say.send(line);
                }
            });
        }
        let mut server = Self { child, port: 0, lines };
        let line = server.line_with("listening on ");
        let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
        server.port = address.rsplit(':').next().unwrap().parse().expect("an address ends with its port");
        server
    }

    fn line_with(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("the server never said `{text}`"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Asks it to end, as an operator would, and returns its last word.
    fn end(mut self) -> String {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let line = self.line_with("served ");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn example() -> PathBuf {
    // target/PROFILE/deps/this-test → target/PROFILE/examples/udp_echo
    let profile = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_path_buf();
    profile.join("examples").join("udp_echo")
}

/// Whether `program` and the example are there. If not, says so, or fails where they are required.
fn have(program: &str) -> bool {
    let client = Command::new(program).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let missing = match (client, example().exists()) {
        (true, true) => return true,
        (false, _) => format!("{program} is not installed (apt-get install {program})"),
        (true, false) => "the example is not built (cargo build --example udp_echo)".into(),
    };
    assert!(std::env::var_os("REQUIRE_CLIENTS").is_none(), "required here, and {missing}");
    println!("left out: {missing}");
    false
}

/// What a client prints, read while it runs; killed when it does not end.
fn output(mut client: Child) -> String {
    let mut stdout = client.stdout.take().unwrap();
    let (say, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = say.send(text);
    });
    let text = text.recv_timeout(PATIENCE);
    let _ = client.kill();
    let _ = client.wait();
    text.expect("the client ends")
}

#[test]
fn socat_gets_back_what_it_sent() {
    if !have("socat") {
        return;
    }
    let server = Server::start();
    for text in ["one datagram", "another, from another port"] {
        let mut client = Command::new("socat")
            .args(["-t", "2", "-", &format!("UDP4:127.0.0.1:{}", server.port)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        client.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert_eq!(output(client), text);
    }
    let last = server.end();
    assert!(last.contains("served 2 packets"), "{last}");
}

#[test]
fn a_burst_comes_back_whole_and_in_order() {
    if !have("socat") {
        return;
    }
    let server = Server::start();
    // 64 datagrams of 1000 bytes: less than any default socket buffer, so that nothing may be lost on loopback.
    let sent: Vec<u8> = (0..64_000_u32).map(|at| b'a' + (at / 1_000 % 26) as u8).collect();
    let mut client = Command::new("socat")
        .args(["-t", "2", "-b", "1000", "-", &format!("UDP4:127.0.0.1:{}", server.port)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(&sent).unwrap();
    let got = output(client).into_bytes();
    assert!(got == sent, "{} bytes of {} came back", got.len(), sent.len());
    let last = server.end();
    assert!(last.contains("64000 bytes"), "{last}");
}
