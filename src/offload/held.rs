//! Buffers while an engine has their addresses.
//!
//! A value that owns its memory uniquely says so to the compiler each time it is moved, and the compiler may then take all other accesses for impossible.
//! A device's are none of the program's, and an errand's come through addresses that were taken before. Inside a `MaybeUninit` nothing is said.

use std::mem::MaybeUninit;

/// A value that moves without a word to the compiler about the memory behind it. Always initialised.
pub(super) struct Held<T>(MaybeUninit<T>);

impl<T> Held<T> {
    #[inline(always)]
    pub(super) const fn new(value: T) -> Self {
        Self(MaybeUninit::new(value))
    }

    /// The value where it is. What is done with it must leave the memory behind it alone.
    #[inline(always)]
    pub(super) fn value_mut(&mut self) -> &mut T {
        // SAFETY: initialised by `new`.
        unsafe { self.0.assume_init_mut() }
    }

    /// The value, once no engine has its addresses any more.
    #[inline]
    pub(super) fn into_inner(self) -> T {
        let held = std::mem::ManuallyDrop::new(self);
        // SAFETY: initialised by `new`; read once, since `held` is not dropped.
        unsafe { held.0.assume_init_read() }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and `into_inner` does not come here.
        unsafe { self.0.assume_init_drop() };
    }
}
