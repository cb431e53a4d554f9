//! The parent's end of the client: starts it, hears its phases, and never waits for it without a bound.

use std::fmt;
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::args::ClientArgs;
use crate::client::{RECEIVE_GRACE, Report, SEND_GRACE};

/// What a loaded machine may take to start a process and let it speak, over what its schedule takes.
const SLACK: Duration = Duration::from_secs(5);

/// A client at work. Dropping it kills and reaps the process.
#[derive(Debug)]
pub struct ClientProcess {
    child: Child,
    lines: Receiver<String>,
    deadline: Instant,
}

/// Why there is no report.
#[derive(Debug)]
pub enum ClientError {
    /// The process could not be started.
    Start(io::Error),
    /// It said nothing before its time was up; it was killed.
    Silent {
        /// What it was to say.
        awaited: &'static str,
    },
    /// It ended, or said something else.
    Broken {
        /// What it was to say.
        awaited: &'static str,
        /// What it said, if anything.
        said: Option<String>,
    },
}

impl ClientProcess {
    /// Starts one on `server`; `cpu` is where it is to stay.
    ///
    /// # Errors
    /// When this program cannot be run again.
    pub fn start(
        server: SocketAddr,
        rate: u64,
        warm: Duration,
        measure: Duration,
        cpu: Option<usize>,
    ) -> Result<Self, ClientError> {
        let args = ClientArgs::new(server, rate, warm, measure, cpu);
        let program = std::env::current_exe().map_err(ClientError::Start)?;
        let mut child = Command::new(program)
            .args(args.to_command_line())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(ClientError::Start)?;
        let (line_out, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            // Ends with the pipe, which ends with the child.
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if line_out.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { child, lines, deadline: Instant::now() + warm + measure + SEND_GRACE + RECEIVE_GRACE + SLACK })
    }

    /// Waits for the warm-up to be over.
    ///
    /// # Errors
    /// [`ClientError`] when it does not say so in time.
    pub fn measuring(&mut self) -> Result<(), ClientError> {
        self.hear("measuring").map(drop)
    }

    /// Waits for the last datagram to be out.
    ///
    /// # Errors
    /// [`ClientError`] when it does not say so in time.
    pub fn sent(&mut self) -> Result<(), ClientError> {
        self.hear("sent").map(drop)
    }

    /// Waits for the report.
    ///
    /// # Errors
    /// [`ClientError`] when there is none in time.
    pub fn done(mut self) -> Result<Report, ClientError> {
        let line = self.hear("done")?;
        Report::from_json(&line).ok_or(ClientError::Broken { awaited: "done", said: Some(line.to_string()) })
    }

    fn hear(&mut self, awaited: &'static str) -> Result<Value, ClientError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let line = self.lines.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => ClientError::Silent { awaited },
            RecvTimeoutError::Disconnected => ClientError::Broken { awaited, said: None },
        })?;
        match serde_json::from_str::<Value>(&line) {
            Ok(value) if value["phase"] == awaited => Ok(value),
            _ => Err(ClientError::Broken { awaited, said: Some(line) }),
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // A process that has ended by itself is only reaped; one that has not is not waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the client process could not be started: {error}"),
            Self::Silent { awaited } => write!(f, "the client process never said \"{awaited}\"; it was killed"),
            Self::Broken { awaited, said: None } => write!(f, "the client process ended before it said \"{awaited}\""),
            Self::Broken { awaited, said: Some(said) } => {
                write!(f, "the client process said {said:?} where \"{awaited}\" was due")
            }
        }
    }
}

impl std::error::Error for ClientError {}
