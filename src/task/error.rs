//! Why a task has no output: it was cancelled, or it panicked.

use std::any::Any;
use std::error::Error;
use std::{fmt, io};

/// The task ended without an output.
///
/// Returned by [`JoinHandle`](super::JoinHandle). A panic comes with its payload, so that it can be carried on:
/// `std::panic::resume_unwind(error.into_panic())`.
pub struct JoinError {
    task: Option<&'static str>,
    failure: Failure,
    /// It is one of the parent process, which goes on there.
    forked: bool,
}

/// What the task's allocation keeps in the place of an output.
#[derive(Debug)]
pub(super) enum Failure {
    Cancelled,
    Panicked(Payload),
}

/// What a panic has thrown.
pub(super) struct Payload(Box<dyn Any + Send>);

impl JoinError {
    /// `task` is the type of its closure or future, as far as it is known.
    pub(super) fn new(task: Option<&'static str>, failure: Failure) -> Self {
        Self { task, failure, forked: false }
    }

    /// The task had not ended when this process was made by fork(2).
    pub(super) fn forked() -> Self {
        Self { task: None, failure: Failure::Cancelled, forked: true }
    }

    /// The task was aborted before it finished, refused, or dropped by a shutdown; or this is a child made by fork(2) before it ended, and no lane runs here.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.failure, Failure::Cancelled)
    }

    /// The task's closure or future panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.failure, Failure::Panicked(_))
    }

    /// The payload of the panic, to look into or to hand to [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// If the task was cancelled. [`try_into_panic`](Self::try_into_panic) does not panic.
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("JoinError::into_panic called, but {error}; check is_panic() or use try_into_panic()"),
        }
    }

    /// The payload of the panic.
    ///
    /// # Errors
    ///
    /// Gives the error back if the task did not panic but was cancelled.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        match self.failure {
            Failure::Panicked(payload) => Ok(payload.0),
            Failure::Cancelled => Err(self),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(name) => write!(f, "the task {name}")?,
            None => f.write_str("the task")?,
        }
        match &self.failure {
            Failure::Cancelled if self.forked => f.write_str(
                " is of the process that this one was forked from, and goes on there if anywhere: no lane runs here",
            ),
            Failure::Cancelled => f.write_str(" was cancelled"),
            Failure::Panicked(payload) => match payload.message() {
                Some(message) => write!(f, " panicked: {message}"),
                None => f.write_str(" panicked"),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinError").field("task", &self.task).field("failure", &self.failure).finish()
    }
}

impl Error for JoinError {}

impl From<JoinError> for io::Error {
    /// Both causes become [`io::ErrorKind::Other`]; `Interrupted`, which a cancellation resembles, asks callers to try again.
    fn from(error: JoinError) -> Self {
        io::Error::other(error)
    }
}

impl Payload {
    #[cfg_attr(twolane_loom, expect(dead_code, reason = "under loom panics are not caught"))]
    pub(super) fn new(payload: Box<dyn Any + Send>) -> Self {
        Self(payload)
    }

    /// The text that `panic!` was called with.
    pub(super) fn message(&self) -> Option<&str> {
        panic_message(&*self.0)
    }
}

/// The text that `panic!` was called with, if `payload` is of a `panic!` with text.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    // `panic!` throws a `&'static str` or a `String`, depending on whether there was something to format.
    (payload.downcast_ref::<&'static str>().copied()).or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

// SAFETY: by reference the payload is only asked for its type and, if that is `&'static str` or `String`, read (`message`); both
// types are `Sync`. Everything else takes it by value.
unsafe impl Sync for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message().unwrap_or("(not a text)"), f)
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    fn panicked(payload: Box<dyn Any + Send>) -> JoinError {
        JoinError::new(Some("demo"), Failure::Panicked(Payload::new(payload)))
    }

    #[test]
    fn an_error_names_the_task_and_the_cause() {
        let cases = [
            (JoinError::new(None, Failure::Cancelled), "the task was cancelled"),
            (JoinError::new(Some("demo"), Failure::Cancelled), "the task demo was cancelled"),
            (panicked(Box::new("static")), "the task demo panicked: static"),
            (panicked(Box::new(String::from("formatted"))), "the task demo panicked: formatted"),
            (panicked(Box::new(7)), "the task demo panicked"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
            assert_eq!(io::Error::from(error).to_string(), text);
        }
    }

    #[test]
    fn a_payload_comes_back_as_it_was_thrown() {
        assert_eq!(panicked(Box::new(7)).into_panic().downcast_ref::<i32>(), Some(&7));
        let cancelled = JoinError::new(None, Failure::Cancelled).try_into_panic().expect_err("it did not panic");
        assert!(cancelled.is_cancelled() && !cancelled.is_panic());
    }

    #[test]
    #[should_panic(expected = "the task was cancelled; check is_panic()")]
    fn a_cancelled_task_has_no_payload() {
        let _ = JoinError::new(None, Failure::Cancelled).into_panic();
    }
}
