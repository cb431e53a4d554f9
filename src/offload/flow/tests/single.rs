//! One operation: submitted, seen by the reaper or by its task, woken, over.

use super::*;

#[test]
fn a_task_is_woken_when_its_operation_is_done() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(5000);
    copy.assert_pending();
    assert_eq!((scene.sweep().events, copy.woken()), (0, 0));
    scene.device.step(Do::All);
    assert_eq!((scene.sweep().events, copy.woken()), (1, 1));
    assert_eq!((scene.sweep().events, copy.woken()), (0, 1), "once");
    copy.assert_done();
    scene.assert_clean();
    assert_eq!((scene.totals().singles, scene.totals().device[1]), (1, 1));
}

#[test]
fn a_task_that_looks_first_needs_no_reaper() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    scene.device.step(Do::All);
    copy.assert_done();
    scene.assert_clean();
    assert_eq!((scene.sweep().events, copy.woken()), (0, 0));
}

#[test]
fn the_last_waker_is_woken() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let first = std::mem::take(&mut copy.woken);
    copy.woken = Arc::new(Count::default());
    copy.waker = Waker::from(Arc::clone(&copy.woken));
    copy.assert_pending();
    assert_eq!(Arc::strong_count(&first), 1, "the first waker is gone");
    scene.device.step(Do::All);
    let _ = scene.sweep();
    assert_eq!(copy.woken(), 1);
    copy.assert_done();
}

#[test]
fn records_come_in_any_order_and_slots_live_again() {
    let mut scene = Scene::new();
    for _ in 0..1000 {
        let mut copies: Vec<_> = (1..=20).map(|n| scene.copy(n)).collect();
        copies.iter_mut().for_each(Copying::assert_pending);
        scene.device.run();
        assert_eq!(scene.sweep().events, 20);
        copies.iter_mut().for_each(Copying::assert_done);
        assert!(copies.iter().all(|copy| copy.woken() == 1));
    }
    scene.assert_clean();
}

#[test]
fn the_reaper_sleeps_when_nothing_is_outstanding_and_is_called() {
    let mut scene = Scene::new().count_rings();
    assert!(scene.sweep().asleep);
    let mut first = scene.copy(10);
    let mut second = scene.copy(10);
    assert_eq!(scene.rings.load(Relaxed), 1, "by the first that comes");
    assert!(!scene.sweep().asleep);
    scene.device.run();
    assert!(!scene.sweep().asleep, "it found something");
    assert!(!scene.sweep().asleep, "slots were taken since it last tried");
    assert!(scene.sweep().asleep, "both are over, whether or not their tasks have asked");
    first.assert_done();
    second.assert_done();
    drop(scene.copy(10));
    assert_eq!(scene.rings.load(Relaxed), 2);
}

#[test]
fn what_a_queue_does_not_take_is_refused_and_leaves_nothing() {
    let mut scene = Scene::new().count_rings();
    assert!(scene.sweep().asleep);
    let mut copying = Copying::prepared(8);
    let Operation::Copy { src, dst, len } = copying.operation() else { unreachable!() };
    let op = Operation::CopyCrc { src, dst, len, seed: 0 };
    // SAFETY: it is not submitted.
    let refused = unsafe { scene.flow.submit(&op, scene.how(false), None) };
    assert!(matches!(refused, Err(Refused::Unsuited(_))), "{refused:?}");
    scene.assert_clean();
    // The reaper was taken out of its sleep for that, so it has to be called.
    assert_eq!(scene.rings.load(Relaxed), 1);
    assert_eq!(scene.device.accepted(), 0);
}
