//! A poller from a closure, with what a closure alone cannot tell the lane.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use super::{Bounds, Peek, PollCx, Poller, Progress, WakeBy};

/// Makes a poller from a closure; chain what the lane should know about it.
///
/// # Example
/// ```
/// use std::net::UdpSocket;
/// use twolane::{Progress, Where, poll_fn};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// socket.set_nonblocking(true)?;
/// let rt = twolane::Runtime::builder().build()?;
/// let poller = poll_fn({
///     let socket = socket.try_clone()?;
///     move |cx| {
///         let mut packet = [0; 2048];
///         match socket.recv_from(&mut packet) {
///             Ok((length, from)) => {
///                 let _ = socket.send_to(&packet[..length], from); // UDP may drop
///                 Progress::Busy(1)
///             }
///             Err(_) => Progress::Idle,
///         }
///     }
/// })
/// .fd(&socket)?; // the lane may park: the kernel wakes it when a packet arrives
/// let echo = rt.spawn_poller(Where::Any, "echo", poller)?;
/// echo.stop();
/// echo.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a poller does nothing until it is given to `spawn_poller`"]
pub fn poll_fn<F>(poll: F) -> PollFn<F>
where
    F: FnMut(&mut PollCx<'_>) -> Progress,
{
    PollFn { poll, wake: Wake::Never, peek: None, bounds: None, lend_while_armed: false }
}

/// A poller made by [`poll_fn`].
pub struct PollFn<F> {
    poll: F,
    wake: Wake,
    peek: Option<Peek<'static>>,
    bounds: Option<Bounds>,
    lend_while_armed: bool,
}

#[derive(Debug)]
enum Wake {
    Never,
    Ring,
    Fd(OwnedFd),
}

impl<F> PollFn<F> {
    /// The lane may park; `fd` becoming readable wakes it. The descriptor is duplicated, so the original may be closed or moved into
    /// the closure.
    ///
    /// Readable means: a read would not block, so also that the peer has hung up, or that an error waits to be fetched. A poller reads until its descriptor has no
    /// more, and returns [`Progress::Done`] at the end of the stream. If it leaves something unread and returns `Idle`, its lane cannot sleep: it
    /// polls on, with relief, tries to park ten times a second at least, and counts in [`LaneMetrics::fruitless_parks`](crate::LaneMetrics::fruitless_parks).
    ///
    /// # Errors
    /// The kernel refuses to duplicate it (too many open files).
    pub fn fd(mut self, fd: impl AsFd) -> std::io::Result<Self> {
        self.wake = Wake::Fd(fd.as_fd().try_clone_to_owned()?);
        Ok(self)
    }

    /// The lane may park; whoever gives this poller work rings its lane's [`Doorbell`](super::Doorbell).
    pub fn ring(mut self) -> Self {
        self.wake = Wake::Ring;
        self
    }

    /// A word that shows whether there is anything to do; see [`Peek`].
    pub fn peek(mut self, peek: Peek<'static>) -> Self {
        self.peek = Some(peek);
        self
    }

    /// Latency that waiting may add to this poller's events; see [`Bounds`].
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// See [`Poller::lend_while_armed`].
    pub fn lend_while_armed(mut self, yes: bool) -> Self {
        self.lend_while_armed = yes;
        self
    }
}

impl<F> Poller for PollFn<F>
where
    F: FnMut(&mut PollCx<'_>) -> Progress,
{
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        (self.poll)(cx)
    }
    fn wake_by(&self) -> WakeBy<'_> {
        match &self.wake {
            Wake::Never => WakeBy::Never,
            Wake::Ring => WakeBy::Ring,
            Wake::Fd(fd) => WakeBy::Fd(fd.as_fd()),
        }
    }
    fn peek(&self) -> Option<Peek<'_>> {
        self.peek
    }
    fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }
    fn lend_while_armed(&self) -> bool {
        self.lend_while_armed
    }
}

impl<F> fmt::Debug for PollFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollFn").field("wake", &self.wake).field("peek", &self.peek).finish_non_exhaustive()
    }
}
