//! Pinning.
