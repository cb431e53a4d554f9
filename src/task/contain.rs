//! Panics of user code end here: what a task, its output or a waker throws never unwinds through a lane.

/// Runs user code; a panic becomes a value.
#[cfg(not(twolane_loom))]
pub(super) fn catch<R>(code: impl FnOnce() -> R) -> Result<R, super::error::Payload> {
    // Unwind safety: what `code` refers to is dropped or given to the joiner, who learns of the panic; nobody goes on using it unaware.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).map_err(super::error::Payload::new)
}

/// Under loom a panic is the model's verdict and has to end it.
#[cfg(twolane_loom)]
pub(super) fn catch<R>(code: impl FnOnce() -> R) -> Result<R, super::error::Payload> {
    Ok(code())
}

/// Whether contained code panicked.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contained {
    Quiet,
    Panicked,
}

/// Runs user code whose panic nobody waits for (a drop, a wake): the panic hook has reported it, the payload is dropped.
pub(crate) fn contain(code: impl FnOnce()) -> Contained {
    let Err(payload) = catch(code) else { return Contained::Quiet };
    // A payload may panic as it is dropped, and so may what that throws. There has to be an end: of the second generation, texts are
    // dropped and everything else is leaked.
    if let Err(second) = catch(|| drop(payload)) {
        if second.message().is_none() {
            std::mem::forget(second);
        }
    }
    Contained::Panicked
}
