//! What goes wrong, and how often? Everything that a device, its kernel and its neighbours may do to a descriptor, as probabilities.

use std::num::NonZeroU32;

/// Faults to inject. Each is drawn from the profile's seed, so that equal runs fault alike. All are off in [`Faults::none`].
///
/// Probabilities are from 0 to 1; what is outside is taken for the nearer end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// That a page, when an operation first reaches it, is absent: status 0x03, or a page request if the descriptor blocks on fault.
    pub page_absent: f64,
    /// Every how many pages, over all operations and on average, one is absent. A fault storm.
    pub every_page: Option<NonZeroU32>,
    /// How often a page that was found absent is absent again when the operation is resumed.
    pub refaults: u32,
    /// That a page is refused: status 0x04.
    pub page_refused: f64,
    /// That a page of a batch's list is refused: status 0x06.
    pub list_fault: f64,
    /// That ENQCMD says "retry" although there is room: another tenant was faster.
    pub retry: f64,
    /// That an operation is carried out and its record is lost (its page was refused: 0x1a in the error register).
    pub record_lost: f64,
    /// That an accepted descriptor is never carried out.
    pub never: f64,
    /// That an operation ends half done with a hardware error: status 0x20.
    pub hardware_error: f64,
    /// That a descriptor at the head of its queue is passed over, each time it could be dispatched.
    pub late_dispatch: f64,
}

impl Faults {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self {
            page_absent: 0.0,
            every_page: None,
            refaults: 0,
            page_refused: 0.0,
            list_fault: 0.0,
            retry: 0.0,
            record_lost: 0.0,
            never: 0.0,
            hardware_error: 0.0,
            late_dispatch: 0.0,
        }
    }

    /// What a busy machine does to a correct program: absent pages, retries, late dispatch. Everything is answered in the end.
    pub const fn weather() -> Self {
        Self { page_absent: 0.05, retry: 0.1, late_dispatch: 0.25, ..Self::none() }
    }

    /// A page in three, of any operation, faults, and again when it is resumed.
    pub const fn storm() -> Self {
        Self { every_page: NonZeroU32::new(3), refaults: 1, ..Self::none() }
    }

    /// The above and, rarely, each of those that leave an operation unfinished or unanswered.
    pub const fn everything() -> Self {
        Self {
            page_refused: 0.002,
            list_fault: 0.01,
            record_lost: 0.001,
            never: 0.001,
            hardware_error: 0.001,
            refaults: 1,
            ..Self::weather()
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}
