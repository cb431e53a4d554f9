//! Stand-ins for machines that are not at hand, to test services and their placement.
//!
//! [`host`] writes the `/sys` and `/proc` trees of machines of any shape, whole or broken, for
//! [`Topology::read_from`](crate::topology::Topology::read_from).

pub mod host;
