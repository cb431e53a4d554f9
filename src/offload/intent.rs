//! What becomes of the data next, as far as the caller knows.

/// What the destination of an operation is for. A hint: it steers caches and costs, never the result.
///
/// ```
/// use twolane::offload::Intent;
///
/// assert_eq!(Intent::default(), Intent::Soon);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Somebody reads it soon: it belongs into a cache.
    #[default]
    Soon,
    /// Nobody reads it soon: it should displace nothing.
    Cold,
    /// It is to be in memory, not in a cache, when the operation is over: persistent memory, or memory that a device without coherence reads.
    Durable,
}
