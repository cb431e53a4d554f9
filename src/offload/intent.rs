//! What an operation's result is for.

/// What the result is for, which decides where it should end up. A hint: data and verdict are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Intent {
    /// Somebody on this socket reads it soon: into the last-level cache, if it is small beside that.
    #[default]
    ConsumedSoon,
    /// Nobody reads it soon: to memory, past the caches, so that the neighbours' lines stay.
    Cold,
    /// It must have reached durable memory when the operation is over.
    Durable,
}
