//! Waiting with manners: what a poll lane does after a pass that found nothing.
//!
//! A lane that polls as fast as it can takes the core from its SMT sibling; a lane that sleeps adds tens of
//! microseconds to the next event. Between the two, this module decides how long to wait after each empty pass, carries
//! the wait out, and keeps the account of where a lane's time went:
//!
//! - `policy`: what the user may choose ([`Etiquette`], [`Relief`], [`Park`], and bounds in time), checked. Budgets are
//!   times, never numbers of iterations: one PAUSE lasts from 10 to 190 cycles, depending on the cpu.
//! - `controller`: the decision, a pure function of what was seen. It is all arithmetic on ticks, and tested in virtual
//!   time.
//! - `surroundings`: quotas, crowds and single cpus, where spinning is no use; `false_wakes`: whether a monitor is.
//! - `tail_guard`: when the sibling should rest for a moment, so that a poll lane that is late catches up.
//! - `waiter`: carries a doze out, by one instruction where the cpu has one to wait with, else looking for news every few
//!   pauses.
//! - `means` and `selftest`: with what this lane may wait ([`WaitWith`]), and whether that really waits here.
//! - `clock` and `pause`: ticks, their scale, and how many of them a PAUSE takes here.
//! - `ledger`: busy, empty, dozing, parked, preempted: sums that agree with the kernel's own account.
//!
//! Parking itself (the doorbell and its protocol) belongs to the lanes; here it is only a decision.
//!
#![doc = include_str!("README.md")]

pub(crate) mod clock;
pub(crate) mod controller;
pub(crate) mod false_wakes;
pub(crate) mod ledger;
pub(crate) mod means;
pub(crate) mod pause;
pub(crate) mod policy;
pub(crate) mod selftest;
pub(crate) mod surroundings;
pub(crate) mod tail_guard;
pub(crate) mod waiter;

pub use means::{WaitReport, WaitWith, WhyNot};
pub use policy::{Etiquette, Park, Relief, SettingsError};
