//! Which copies belong to a device, and how many together? Ways to choose, side by side, in the time of the [device model](crate::sim::dsa).
//!
//! A [`World`] says what everything costs: a [`Timing`](crate::sim::dsa::Timing), and the software around it. A [`Seat`] is one core in that world, with a
//! clock of its own and a queue of the model, to which it submits real descriptors. A [`Workload`] is what a service asks of it; a [`Policy`] decides who
//! carries each copy out: [`Fixed`] ones have constants, [`Ours`] is this crate's router and batcher, the same code that runtimes use. [`run`] plays them and returns
//! what copies cost the service; [`judge`] holds ours against every fixed policy, each with the constants that suit it best in that very world.
//!
//! # What is compared
//! *What copies take from the service, a copy, in nanoseconds*: all time that passes, less the time of the service's own work. It has the core's time for copying,
//! preparing, submitting and reaping in it, and of the latency the part that somebody waits for: all of it where a copy is waited for, and where copies are
//! overlapped with work what the work does not hide, since a service has only so many copies outstanding. A policy's throughput in copies is one over it. Latency that
//! nobody waits for counts nothing; that is what overlapping is for.
//!
//! # What it is worth
//! It is a model. It calibrates choices; it is no evidence about hardware: see [`Timing`](crate::sim::dsa::Timing). Nothing depends on the machine that runs it:
//! equal seeds give equal outcomes.
//!
//! ```
//! use twolane::sim::study::{Fixed, Ours, Sizes, Waits, Workload, World, run};
//!
//! let world = World::default();
//! let workload = Workload { sizes: Sizes::Only(64 << 10), waits: Waits::Each };
//! let cpu = run(&world, &workload, &mut Fixed::CPU.clone(), 0, 200, 1)?;
//! let ours = run(&world, &workload, &mut Ours::new(1, world.queue), 500, 200, 1)?;
//! assert!(ours.cost_ns < 0.7 * cpu.cost_ns, "64 KiB are the device's: {} ns, {} ns by the cpu", ours.cost_ns, cpu.cost_ns);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod chart;
pub mod judge;
mod ours;
mod policy;
#[allow(unsafe_code)] // portals
mod seat;
mod workload;
mod world;

pub use ours::Ours;
pub use policy::{Family, Fixed, Policy};
pub use seat::{Seat, Ticket};
pub use workload::{Cost, Sizes, Waits, Workload, run};
pub use world::{Software, World};
