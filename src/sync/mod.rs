//! The facade over std and loom: everything that the protocols synchronise with comes from here.
//!
//! Built with `--cfg twolane_loom`, the same names are loom's, so that the code that runs in production is the code that the
//! models explore. Two things have no counterpart in loom and are modelled here: the futex and (in `sched`) the deques.

#[allow(unsafe_code)] // pthread_atfork
pub(crate) mod fork;
mod futex;
#[allow(unsafe_code)] // an instruction without effect
pub(crate) mod prefetch;

pub(crate) use futex::Futex;
pub(crate) use prefetch::prefetch;

#[cfg(not(twolane_loom))]
mod real {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{
            AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        };
    }

    /// `std`'s `UnsafeCell` behind loom's interface: access only inside a closure, so that loom can see how long it lasts.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }
        /// Runs `f` with a pointer for reading. The caller keeps writers away meanwhile.
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }
        /// Runs `f` with a pointer for writing. The caller keeps everybody else away meanwhile.
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(twolane_loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) mod atomic {
        #[allow(unused_imports)] // models have a part of what uses them
        pub(crate) use loom::sync::atomic::{
            AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        };
    }

    /// loom's mutex with `parking_lot`'s face (no poison).
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);
    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;
    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("loom's mutexes are not poisoned: a panic ends the model")
        }
    }
}

#[cfg(not(twolane_loom))]
pub(crate) use real::*;

#[cfg(twolane_loom)]
pub(crate) use model::*;
