//! The end of a flow: with operations in flight, tickets that outlive it, and in a child of a fork.

use std::time::Instant;

use super::*;
use crate::offload::Failure;

#[test]
fn the_end_waits_for_what_is_in_flight() {
    let scene = Scene::new();
    let (mut submitted, mut waiting) = (scene.copy(100), scene.gather(100));
    submitted.assert_pending();
    waiting.assert_pending();
    let device = scene.device.clone();
    let thread = std::thread::spawn(move || {
        while device.accepted() < 2 {
            std::thread::yield_now();
        }
        device.run();
    });
    let report = scene.flow.shutdown(Instant::now() + Duration::from_secs(20));
    thread.join().unwrap();
    assert_eq!((report.quarantined, report.unsettled, report.unasked), (0, 0, 2));
    assert_eq!((submitted.woken(), waiting.woken()), (1, 1));
    assert!(matches!(scene.try_copy(1, false), Err(Refused::Closed)));
    submitted.assert_done();
    waiting.assert_done();
}

#[test]
fn the_end_gives_up_what_is_not_answered() {
    let scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let report = scene.flow.shutdown(Instant::now() + Duration::from_millis(1));
    assert_eq!((report.quarantined, report.unsettled), (1, 0));
    assert_eq!(copy.woken(), 1);
    assert!(matches!(copy.poll(), Poll::Ready(Settled::Failed(Failure::Quarantined { .. }))));
}

#[test]
fn what_waits_for_a_full_queue_at_the_end_is_left_to_the_cpu() {
    let scene = Scene::new();
    scene.device.set_full(true);
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let report = scene.flow.shutdown(Instant::now());
    assert_eq!((report.quarantined, report.unsettled, report.unasked), (0, 0, 1));
    assert!(matches!(copy.poll(), Poll::Ready(Settled::OnCpu { .. })));
}

#[test]
fn a_ticket_may_outlive_the_flow() {
    let Scene { device, flow, queue, .. } = Scene::new();
    let mut copying = Copying::prepared(100);
    let op = copying.operation();
    let how = How { queue, manner: Manner::default(), gather: false };
    // SAFETY: as in `Scene::try_copy`.
    copying.ticket = Some(unsafe { flow.submit(&op, how, None) }.unwrap());
    let core = Arc::downgrade(flow.core());
    drop(flow);
    assert!(core.upgrade().is_some(), "the page keeps it");
    device.run();
    copying.assert_done();
    assert!(core.upgrade().is_none(), "to the last ticket");
}

#[test]
fn a_flow_without_tickets_goes_at_once() {
    let scene = Scene::new();
    let core = Arc::downgrade(scene.core());
    drop(scene);
    assert!(core.upgrade().is_none());
}

#[test]
fn a_child_touches_nothing() {
    let scene = Scene::new();
    let mut copy = scene.copy(100);
    let mut other = Copying::prepared(8);
    let op = other.operation();
    // SAFETY: the child allocates nothing that it would wait for and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // A record would be a SIGSEGV: the pages are not here.
        // SAFETY: it is refused.
        let submitted = unsafe { scene.flow.submit(&op, scene.how(false), None) };
        // SAFETY: it is what was submitted.
        let polled = copy.ticket.as_mut().map(|ticket| unsafe { ticket.poll(|| op, Waker::noop()) });
        let right =
            matches!(submitted, Err(Refused::Forked)) && matches!(polled, Some(Poll::Ready(Settled::Failed(_))));
        drop(copy.ticket.take());
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0), "{status:#x}");
    scene.device.run();
    copy.assert_done();
}
