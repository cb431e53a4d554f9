//! That nothing of what a portal accepted runs any more: a value to hold, and what stands in its way.

use std::fmt;
use std::io;

/// Holding one means: what was submitted through the portal that it came from has ended, and the device writes nothing of it any more.
#[derive(Debug)]
#[must_use]
pub(crate) struct Drained(());

impl Drained {
    /// For portals, whose word it is.
    pub(crate) fn by_the_portals_word() -> Self {
        Self(())
    }
}

/// Nobody can say that it ended.
#[derive(Debug)]
#[must_use = "what the device may still write to must not be given back"]
pub(crate) struct NotDrained {
    /// Why.
    what: &'static str,
    error: Option<io::Error>,
}

impl NotDrained {
    pub(crate) fn because(what: &'static str) -> Self {
        Self { what, error: None }
    }

    pub(crate) fn of(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self { what, error: Some(error) }
    }
}

impl fmt::Display for NotDrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{}: {error}", self.what),
            None => f.write_str(self.what),
        }
    }
}
