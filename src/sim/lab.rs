//! Which way of waiting gives the neighbour most, for the same latency? A laboratory in virtual time.
//!
//! A [`Traffic`] is a list of arrival times; a [`Machine`] says what each way to wait costs; a [`Policy`] decides what to do
//! after an empty pass; [`run`] plays them against each other and returns an [`Outcome`]: how late events were seen, and
//! which part of the idle time was given away. Nothing depends on the machine that runs it, so equal inputs give equal
//! outcomes.
//!
//! [`peers`] holds the policies of other systems at their own constants; [`Ours`] is this crate's controller, the same code
//! that lanes run. [`judge`] compares the two at equal latency, [`hindsight`] sets ours against the best constant that one
//! could have chosen after the fact, [`bound`] checks the promises about the mean, and [`report`] turns outcomes into
//! tables, CSV and charts.
//!
//! ```
//! use twolane::sim::lab::{Machine, Ours, Traffic, peers, run};
//!
//! let traffic = Traffic::poisson(20_000, 2_000, 1);
//! let machine = Machine::default();
//! let pass_ns = 150;
//! let tight = run(&mut peers::Tight, &traffic, pass_ns, &machine);
//! let ours = run(&mut Ours::balanced(&machine), &traffic, pass_ns, &machine);
//! assert!(ours.mean_ns() - tight.mean_ns() < 500.0);
//! assert!(ours.duty() > 0.8);
//! ```

pub mod bound;
mod engine;
pub mod hindsight;
pub mod judge;
mod machine;
mod ours;
pub mod peers;
pub mod report;
pub mod step_cost;
mod traffic;

pub use engine::{Outcome, Pass, Policy, Rest, Rested, run};
pub use machine::{Machine, ParkCost, Tools};
pub use ours::{Knobs, Ours};
pub(in crate::sim) use traffic::Dice;
pub use traffic::{Traffic, TrafficError};
