//! Which work queues there are, which of them this process can use, and what to type where it cannot.
//!
//! [`find`] reads what the driver `idxd` describes in sysfs, under roots that the caller names ([`Places`]), opens nothing and changes nothing:
//! opening a dedicated queue takes it. What cannot be used is not an error; it is [`Skipped`], with the reason and what to do about it. Where
//! there is no `/sys`, as in many containers, a queue is described by hand ([`Explicit`]).
//!
//! [`choose()`] says which of them to use and in what proportion: a pure function.
//!
//! ```
//! use twolane::offload::dsa::discover::{self, Places};
//!
//! let found = discover::find(&Places::default());
//! for queue in &found.queues {
//!     println!("{} takes {} descriptors at a time", queue.name, queue.depth());
//! }
//! for skipped in &found.skipped {
//!     println!("{skipped}");
//! }
//! ```
//!
//! Seen on trees that imitate the kernel's and on which `accel-config list` agrees; never on a machine with such a device.

pub(crate) mod advice;
mod choose;
mod command;
mod explicit;
mod files;
mod health;
pub(crate) mod identity;
mod judge;
mod parse;
mod queue;
mod skipped;
pub(crate) mod survey;

use std::path::PathBuf;

pub use choose::{Share, Wish, choose};
pub use command::CommandStatus;
pub use explicit::{Explicit, ExplicitError};
pub use health::{Health, HealthFile};
pub use queue::{Mode, WorkQueue};
pub(crate) use skipped::Beside;
pub use skipped::{NoWorkQueue, Skipped, Why};

/// Where devices are described and where their nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The directory with `dsa0` and so on. `TWOLANE_DSA_SYSFS` overrides it in a runtime.
    pub sysfs: PathBuf,
    /// The directory with `wq0.0` and so on. `TWOLANE_DSA_DEV` overrides it in a runtime. If a node is missing there, its number is looked
    /// for in the directory `char` beside it.
    pub nodes: PathBuf,
}

impl Default for Places {
    /// `/sys/bus/dsa/devices` and `/dev/dsa`.
    fn default() -> Self {
        Self { sysfs: "/sys/bus/dsa/devices".into(), nodes: "/dev/dsa".into() }
    }
}

impl Places {
    /// The variable that overrides [`sysfs`](Self::sysfs). An absolute path.
    pub const ENV_SYSFS: &str = "TWOLANE_DSA_SYSFS";
    /// The variable that overrides [`nodes`](Self::nodes). An absolute path.
    pub const ENV_NODES: &str = "TWOLANE_DSA_DEV";

    /// As on a machine whose `sys` and `dev` lie under `root`: a snapshot, or a tree of the feature `sim`.
    #[must_use]
    pub fn under(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { sysfs: root.join("sys/bus/dsa/devices"), nodes: root.join("dev/dsa") }
    }
}

/// What [`find`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// Queues that this process can use, by device and number.
    pub queues: Vec<WorkQueue>,
    /// Devices and queues that it cannot, with reasons, in the same order. A device that is unusable as a whole is named, its queues are not.
    pub skipped: Vec<Skipped>,
}

/// Looks for work queues. Reads some twenty small files a queue, a millisecond or so for a machine's; costs nothing where there is no device.
///
/// Never fails: a device or file that is odd costs that device or queue, and is told in [`Found::skipped`]. Permissions are asked of the
/// kernel, for the calling thread as it is now.
#[must_use]
pub fn find(places: &Places) -> Found {
    survey::survey(places, &identity::Permission::AskKernel).found()
}
