//! What can be wrong with a ring, its pushes and its pops.

use std::error::Error;
use std::fmt;

/// A ring cannot have so many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityError {
    pub(super) slots: usize,
}

/// An item was not taken, and is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PushError<T> {
    /// Every slot holds an item. Try again when the consumer had time to work, drop the item, or push back on its source.
    Full(T),
    /// The consumer is gone: nobody will ever take it.
    Disconnected(T),
}

/// There was nothing to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The ring is empty.
    Empty,
    /// The ring is empty and the last producer is gone: nothing will ever come.
    Disconnected,
}

/// The consumer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

impl<T> PushError<T> {
    /// The item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(item) | Self::Disconnected(item) => item,
        }
    }
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots } = *self;
        write!(f, "a ring of {slots} slots: ")?;
        match slots.checked_next_power_of_two() {
            Some(better) if better != slots || slots < super::SLOTS_MIN => {
                write!(f, "use a power of two, {} for instance", better.max(super::SLOTS_MIN))
            }
            _ => f.write_str("more than memory can hold, use fewer"),
        }
    }
}

impl Error for CapacityError {}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the ring is full: its consumer is slower than its producers",
            Self::Disconnected(_) => "the ring's consumer is gone: stop producing",
        })
    }
}

/// Without the item, which need not be printable.
impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> Error for PushError<T> {}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the ring is empty",
            Self::Disconnected => "the ring is empty and its producers are gone",
        })
    }
}

impl Error for PopError {}

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ring's consumer is gone: stop producing")
    }
}

impl Error for Disconnected {}
