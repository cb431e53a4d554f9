//! A closure: queued once, run once.

use super::*;
use crate::task;

#[test]
fn a_closure_runs_and_its_handle_gets_the_output() {
    let (runnable, mut handle) = task::closure(|| 40 + 2);
    assert!(!handle.is_finished());
    assert!(poll(&mut handle).is_pending());

    assert_eq!(runnable.run(), Ran::Finished);

    assert!(handle.is_finished());
    assert_eq!(ready(&mut handle).unwrap(), 42);
}

#[test]
fn what_a_closure_owns_goes_as_it_runs_and_its_output_stays() {
    let trace = Trace::default();
    let (captured, output) = (trace.probe("captured"), trace.probe("output"));
    let (runnable, mut handle) = task::closure(move || {
        drop(captured);
        output
    });
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(trace.take(), ["captured"]);
    let output = ready(&mut handle).unwrap();
    drop(handle);
    assert_eq!(trace.take(), [""; 0]);
    drop(output);
    assert_eq!(trace.take(), ["output"]);
}

#[test]
fn without_a_handle_the_output_is_dropped_where_the_closure_ran() {
    let trace = Trace::default();
    let output = trace.probe("output");
    let (runnable, handle) = task::closure(move || output);
    drop(handle);
    assert_eq!(trace.take(), [""; 0], "dropping the handle only detaches");
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(trace.take(), ["output"]);
}

#[test]
fn a_handle_that_was_not_asked_drops_the_output() {
    let trace = Trace::default();
    let output = trace.probe("output");
    let (runnable, handle) = task::closure(move || output);
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(trace.take(), [""; 0]);
    drop(handle);
    assert_eq!(trace.take(), ["output"]);
}

#[test]
fn a_dropped_runnable_cancels() {
    let trace = Trace::default();
    let captured = trace.probe("captured");
    let (runnable, mut handle) = task::closure(move || drop(captured));
    drop(runnable);
    assert_eq!(trace.take(), ["captured"]);
    assert_cancelled(&mut handle);
}

#[test]
fn a_runnable_passes_through_a_word() {
    let (runnable, mut handle) = task::closure(|| 1);
    let word = runnable.into_raw();
    // SAFETY: straight from `into_raw`.
    let runnable = unsafe { Runnable::from_raw(word) };
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), 1);
}

#[test]
fn kinds_tell_types_apart() {
    fn of<T: Send + 'static>(value: T) -> &'static task::Kind {
        task::closure(move || value).0.kind()
    }
    assert!(std::ptr::eq(of(1_u8), of(2_u8)));
    assert!(!std::ptr::eq(of(1_u8), of([2_u16; 5])));
    assert!(of(1_u8).once);
    assert!((of(1_u8).type_name)().contains("kinds_tell_types_apart"));
}

#[test]
fn sizes_and_alignments_of_all_sorts_find_their_place() {
    #[derive(Debug, PartialEq)]
    #[repr(align(128))]
    struct Wide(u8);
    let wide = Wide(3);
    let (runnable, mut handle) = task::closure(move || [wide, Wide(4)]);
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), [Wide(3), Wide(4)]);

    let (runnable, mut handle) = task::closure(|| ()); // nothing in, nothing out
    assert_eq!(runnable.run(), Ran::Finished);
    ready(&mut handle).unwrap();
}
