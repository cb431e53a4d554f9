//! A line for whoever runs the program.

/// Writes a line to standard error, which may be closed or a pipe that nobody reads: then nobody hears of it.
pub fn line(message: &str) {
    let text = format!("dsa_preload: {message}\n");
    // SAFETY: `text` is valid for its length; the call touches nothing else.
    unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
}

/// For what the user has to mend before it makes sense to go on: a program that ran without the devices it was to have would only seem to work.
pub fn fatal(message: &str) -> ! {
    /// As of a shell that could not start a program.
    const CANNOT_START: i32 = 126;
    line(message);
    // SAFETY: ends the process without running anything of a program that may not have begun.
    unsafe { libc::_exit(CANNOT_START) }
}
