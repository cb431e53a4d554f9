//! Aborting ends what has not begun and what waits, never what runs; letting a handle go ends nothing, unless it was asked to.

mod common;
use common::{Gate, LIMIT, Signal, occupy, one_compute_lane, pairs, within};
use std::future::pending;

/// Open once it is dropped.
struct Witness(Gate);
impl Drop for Witness {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn witness() -> (Witness, Gate) {
    let gate = Gate::default();
    (Witness(gate.clone()), gate)
}

#[test]
fn a_dropped_handle_lets_the_task_run() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let ran = Gate::default();
        let tell = ran.clone();
        drop(rt.spawn_compute(move || tell.open()));
        ran.wait();
        let (output, dropped) = witness();
        drop(rt.spawn(async move { output }));
        dropped.wait(); // nobody takes the output, so it is dropped
    });
}

#[test]
fn a_queued_task_does_not_run_any_more() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let end = occupy(&rt);
        let (inside, dropped) = witness();
        let queued = rt.spawn_compute(move || {
            let _inside = inside;
            unreachable!("it was aborted before")
        });
        queued.abort();
        queued.abort(); // once more does nothing
        end.open();
        assert!(queued.join().unwrap_err().is_cancelled());
        dropped.wait();
    });
}

#[test]
fn a_waiting_future_is_dropped_on_a_lane() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        struct OnLane(twolane::Handle, std::sync::mpsc::Sender<Option<usize>>);
        impl Drop for OnLane {
            fn drop(&mut self) {
                self.1.send(self.0.current_lane()).unwrap();
            }
        }
        let (tell, hear) = std::sync::mpsc::channel();
        let waits = Gate::default();
        let begun = waits.clone();
        let task = rt.spawn(async move {
            let _inside = OnLane(handle, tell);
            begun.open();
            pending::<()>().await;
        });
        waits.wait();
        task.abort();
        assert!(task.join().unwrap_err().is_cancelled());
        assert!(hear.recv_timeout(LIMIT).unwrap().is_some(), "it was dropped on a thread that is no lane");
    });
}

#[test]
fn a_running_closure_keeps_running_and_gives_its_output() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let task = rt.spawn_compute(move || {
            tell.open();
            wait.wait();
            7
        });
        begun.wait();
        task.abort();
        assert!(!task.is_finished());
        end.open();
        assert_eq!(task.join().unwrap(), 7);
    });
}

#[test]
fn a_running_poll_of_a_future_is_its_last() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let (inside, dropped) = witness();
        let task = rt.spawn(async move {
            let _inside = inside;
            tell.open();
            wait.wait();
            pending::<()>().await;
        });
        begun.wait();
        task.abort();
        assert!(!dropped.is_open(), "it is still in its poll");
        end.open();
        assert!(task.join().unwrap_err().is_cancelled());
        dropped.wait();
    });
}

#[test]
fn abort_on_drop_does_what_it_says() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        // Something holds the waker: a future that nobody could wake any more would go in any case.
        let (inside, dropped) = witness();
        let signal = Signal::default();
        let waits = signal.clone();
        let task = rt.spawn(async move {
            let _inside = inside;
            waits.await;
        });
        common::until("it waits", || signal.wakers().len() == 1);
        drop(task.abort_on_drop());
        dropped.wait();

        let (signal, ran) = (Signal::default(), Gate::default());
        let (wait, tell) = (signal.clone(), ran.clone());
        let task = rt.spawn(async move {
            wait.await;
            tell.open();
        });
        drop(task.abort_on_drop().into_inner());
        signal.set();
        ran.wait(); // untied, it went on
    });
}
