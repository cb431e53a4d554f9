//! How to measure on a machine that is never quiet: slots, witnesses, verdicts.
//!
//! A figure is measured as *A, ours, A'*: the reference, the library, the reference again, in short slots that take turns
//! ([`slots`]). A slot in which the hypervisor took a cpu away, or the kernel preempted a thread that was being timed, is
//! dropped ([`witness`]). What A and A' differ by is the noise, and a bound that lies within the noise is neither kept nor
//! missed ([`figure`]).

pub mod cpu;
pub mod figure;
pub mod lanes;
pub mod seat;
pub mod slots;
pub mod stats;
pub mod ticks;
pub mod witness;
pub mod work;
