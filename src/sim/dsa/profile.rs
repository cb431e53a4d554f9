//! Where the specification leaves a choice, what does this device do?

use std::sync::Arc;

use super::counters::Counters;
use super::faults::Faults;
use super::timing::Timing;
use super::trace::TraceEntry;

/// How the device behaves within, and where asked to beyond, what the specification promises.
///
/// [`strict`](Profile::strict) takes every freedom there is, to test a driver that one writes; [`compat`](Profile::compat) does what existing
/// programs have got used to. Both give the specification's statuses for real violations.
///
/// ```
/// use twolane::sim::dsa::{Faults, Profile};
///
/// let stormy = Profile::strict(42).faults(Faults::storm());
/// let for_dpdk = Profile::compat();
/// # let _ = (stormy, for_dpdk);
/// ```
#[derive(Clone, Debug)]
pub struct Profile {
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    pub(crate) timing: Option<Timing>,
    pub(crate) data: bool,
    pub(crate) trace: usize,
    pub(crate) observer: Option<Observer>,
    pub(crate) freedoms: Freedoms,
}

/// Who is told of each descriptor as it ends.
#[derive(Clone)]
pub(crate) struct Observer(pub(crate) Arc<Observe>);

type Observe = dyn Fn(&TraceEntry, &Counters) + Send + Sync;

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// Each choice of its own. All on: strict; all off: compat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freedoms {
    /// Which of several violations is reported is drawn (SPEC 5.4 gives no order).
    pub(crate) shuffle_checks: bool,
    /// Descriptors, children of a batch and records come in any order (SPEC 3.8, 3.9).
    pub(crate) reorder: bool,
    /// Fields without a meaning hold garbage (SPEC 8.2: software should not depend on them).
    pub(crate) garbage: bool,
    /// Operations advance by pieces of random size, so that a fault or a halt finds them anywhere.
    pub(crate) pieces: bool,
    /// A move of ranges that do not overlap goes in either direction (SPEC 8.3.4 promises only that the record says which).
    pub(crate) direction: bool,
    /// Compare Pattern reports a lower bound instead of the first difference (SPEC 8.3.7).
    pub(crate) lower_bound: bool,
    /// Bits 11:0 of a fault address are 0 now and then (SPEC 8.2).
    pub(crate) masked_address: bool,
    /// Pages that are not in the page tables are absent, as they are for a device.
    pub(crate) residency: bool,
    /// Software's duties are watched: see `violations`.
    pub(crate) watch: bool,
}

impl Freedoms {
    const fn all(on: bool) -> Self {
        Self {
            shuffle_checks: on,
            reorder: on,
            garbage: on,
            pieces: on,
            direction: on,
            lower_bound: on,
            masked_address: on,
            residency: on,
            watch: on,
        }
    }
}

impl Profile {
    /// Adversarial wherever the specification leaves freedom: order, sizes of partial completions, garbage in unused fields (status bits 6 and 7
    /// among them), direction of moves, lower bounds. Watches software's duties and collects [`Violation`](super::Violation)s. Pages that were never touched are
    /// absent, as they are for a real device.
    ///
    /// Everything is drawn from `seed`. With a device driven by hand, equal seeds and equal calls give equal behaviour.
    pub fn strict(seed: u64) -> Self {
        Self {
            seed,
            faults: Faults::none(),
            timing: None,
            data: true,
            trace: 0,
            observer: None,
            freedoms: Freedoms::all(true),
        }
    }

    /// What programs in use need: descriptors and batches in order, no garbage, no complaint about records that are reused or not cleared, no
    /// fault that nobody asked for; a bad address gives 0x03.
    pub fn compat() -> Self {
        Self {
            seed: 0,
            faults: Faults::none(),
            timing: None,
            data: true,
            trace: 0,
            observer: None,
            freedoms: Freedoms::all(false),
        }
    }

    /// Injects faults.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What injected faults (and the freedoms of `strict`) are drawn from.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Gives every operation the time that a device would take; see [`Timing`]. Without it, an operation takes as many steps as it takes.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = Some(timing);
        self
    }

    /// Leaves the data alone: descriptors are checked and completed, but no memory is read or written besides batch lists and records, and
    /// comparisons find everything equal. For measuring in virtual time, where copying would cost real time.
    #[must_use]
    pub fn without_data(mut self) -> Self {
        self.data = false;
        self
    }

    /// Whether pages that are not in the page tables count as absent. On in `strict`, off in `compat`.
    #[must_use]
    pub fn residency(mut self, on: bool) -> Self {
        self.freedoms.residency = on;
        self
    }

    /// Whether unused fields and bits get random values. On in `strict`, off in `compat`.
    #[must_use]
    pub fn garbage(mut self, on: bool) -> Self {
        self.freedoms.garbage = on;
        self
    }

    /// Whether descriptors, children of batches and records come out of order. On in `strict`, off in `compat`.
    #[must_use]
    pub fn reorder(mut self, on: bool) -> Self {
        self.freedoms.reorder = on;
        self
    }

    /// Whether one of several violations is reported at random. On in `strict`; off, the order of the model's table of checks decides.
    #[must_use]
    pub fn shuffle_checks(mut self, on: bool) -> Self {
        self.freedoms.shuffle_checks = on;
        self
    }

    /// Whether duties of software are watched. On in `strict`, off in `compat`.
    #[must_use]
    pub fn watch(mut self, on: bool) -> Self {
        self.freedoms.watch = on;
        self
    }

    /// Calls `observer` with each descriptor that ends and with the counts so far, **before** software can see the end: what a program dies of is
    /// told before it dies. In the rare case that the record's page is unmapped in that very moment, the end is told a second time, as lost.
    ///
    /// It is called under the device's lock: it must not use the device, and everything waits while it runs.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(&TraceEntry, &Counters) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer(Arc::new(observer)));
        self
    }

    /// Keeps the last `entries` descriptors with their outcomes for [`Device::trace`](super::Device::trace). 0, the default, keeps none.
    #[must_use]
    pub fn trace(mut self, entries: usize) -> Self {
        self.trace = entries;
        self
    }
}
