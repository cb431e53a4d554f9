//! Writes to standard output and error without panics: whoever reads may leave early (`twolane doctor | head -1`).

use std::io::{self, ErrorKind, Write};

/// Writes all of `text`.
///
/// # Errors
/// A message, for anything but a reader that left: that one got what it wanted.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write the output: {error}")),
        _ => Ok(()),
    }
}

/// Writes one line to standard error, which may be closed: then there is nobody to tell.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "twolane: {message}");
}

/// Writes text to standard error, which may be closed.
#[cfg(all(feature = "sim", target_arch = "x86_64"))]
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
