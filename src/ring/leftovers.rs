//! Dropping what nobody took: every item, whatever some of them do.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::task::contain;

/// Drops all items. If some panic, the others are dropped all the same, and the first panic goes on afterwards, unless the thread already unwinds.
pub(super) fn drop_all<T>(items: impl Iterator<Item = T>) {
    let mut first = None;
    for item in items {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(item))) {
            let later = if first.is_none() { first.replace(payload) } else { Some(payload) };
            // A payload may panic in its own drop.
            let _ = contain(|| drop(later));
        }
    }
    match first {
        Some(payload) if !std::thread::panicking() => resume_unwind(payload),
        later => _ = contain(|| drop(later)),
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Item<'a>(u32, &'a Cell<u32>);
    impl Drop for Item<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            if self.0 % 2 == 1 {
                std::panic::panic_any(self.0);
            }
        }
    }

    #[test]
    fn panics_keep_no_item_from_its_drop_and_the_first_goes_on() {
        let dropped = Cell::new(0);
        let all = || drop_all((0..6).map(|n| Item(n, &dropped)));
        let payload = catch_unwind(AssertUnwindSafe(all)).unwrap_err();
        assert_eq!((dropped.get(), payload.downcast_ref()), (6, Some(&1_u32)));
    }
}
