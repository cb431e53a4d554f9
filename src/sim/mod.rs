//! Stand-ins for machines that are not at hand, to test services and their placement, and to compare ways of waiting.
//!
//! [`host`] writes the `/sys` and `/proc` trees of machines of any shape, whole or broken, for
//! [`Topology::read_from`](crate::topology::Topology::read_from). [`trap`] carries out the instructions with which lanes wait, and those with which
//! drivers submit to devices, on cpus that have none. [`dsa`] is a model of DSA devices and of what the kernel
//! shows of them. [`preload`] puts it under other people's programs. [`lab`] runs policies for idle pollers against traffic in virtual time,
//! [`study`] ways to choose between device and cpu.

pub mod dsa;
pub mod host;
pub mod lab;
#[cfg(target_arch = "x86_64")]
pub mod preload;
pub mod study;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // a signal handler
pub mod trap;
