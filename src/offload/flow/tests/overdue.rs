//! Operations that are never answered, or late.

use super::*;
use crate::offload::Failure;
use crate::offload::dsa::portal::Death;
use crate::offload::dsa::queue::Condition;

fn quarantined(copy: &mut Copying) {
    match copy.poll() {
        Poll::Ready(Settled::Failed(Failure::Quarantined { queue, after_ms: 8 })) => assert_eq!(queue, "wq7.0"),
        other => panic!("{other:?}"),
    }
}

fn condition(scene: &Scene) -> Condition {
    scene.flow.queues().find(scene.queue).unwrap().health().condition()
}

/// Lets time pass, in passes.
fn pass(scene: &mut Scene, time: Duration) {
    for _ in 0..16 {
        let _ = scene.sweep_after(time / 16);
    }
}

#[test]
fn a_silent_queue_is_suspected_then_dead_and_its_operations_quarantined() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let lost = scene.device.lose();
    pass(&mut scene, TIMEOUT * 3 / 2);
    assert_eq!((condition(&scene), copy.woken()), (Condition::Suspect, 0));
    assert!(matches!(scene.try_copy(10, false), Err(Refused::QueueDown(None))), "nothing more for a suspect");
    pass(&mut scene, TIMEOUT * 3 / 2);
    assert_eq!(condition(&scene), Condition::Dead(Death::Silent));
    assert_eq!(copy.woken(), 1);
    quarantined(&mut copy);
    assert_eq!((scene.totals().quarantined, scene.totals().pages_replaced), (1, 1));
    assert_eq!(scene.outstanding(), 1, "it keeps its credit");
    drop(copy); // leaves its buffers with the ring
    pass(&mut scene, TIMEOUT);
    assert!(scene.sweep().asleep, "what was given up keeps nobody awake");
    assert_eq!(scene.taken(), 1);
    // It was merely slow: the answer releases what was kept.
    double::carry_out(&lost, Do::All);
    pass(&mut scene, TIMEOUT);
    assert_eq!(scene.totals().late, 1);
    scene.assert_clean();
}

#[test]
fn a_dead_queue_is_not_waited_for_twice() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    scene.device.lose();
    scene.device.kill(Death::Halted);
    pass(&mut scene, TIMEOUT * 3 / 2);
    assert_eq!(condition(&scene), Condition::Dead(Death::Halted));
    quarantined(&mut copy);
}

#[test]
fn an_answer_clears_the_suspicion() {
    let mut scene = Scene::new();
    let mut slow = scene.copy(100);
    slow.assert_pending();
    pass(&mut scene, TIMEOUT * 3 / 2);
    assert_eq!(condition(&scene), Condition::Suspect);
    scene.device.run();
    let _ = scene.sweep();
    assert_eq!(condition(&scene), Condition::Up);
    slow.assert_done();
    scene.assert_clean();
}

#[test]
fn a_record_that_comes_after_the_quarantine_and_before_the_poll_counts() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let lost = scene.device.lose();
    pass(&mut scene, TIMEOUT * 3);
    double::carry_out(&lost, Do::All);
    copy.assert_done();
    let _ = scene.sweep();
    scene.assert_clean();
}

#[test]
fn a_new_page_takes_the_place_of_one_with_a_quarantine_and_neighbours_go_on() {
    let mut scene = Scene::new();
    let mut lost = scene.copy(100);
    scene.device.lose();
    pass(&mut scene, TIMEOUT * 2);
    // Beside it, submitted later, with time left.
    scene.flow.queues().find(scene.queue).unwrap().health().clear();
    let mut neighbour = scene.copy(100);
    neighbour.assert_pending();
    pass(&mut scene, TIMEOUT / 2);
    quarantined(&mut lost);
    scene.device.run();
    let _ = scene.sweep();
    assert_eq!(neighbour.woken(), 1);
    neighbour.assert_done();
    assert_eq!((scene.taken(), scene.totals().pages_replaced), (1, 1));
}

#[test]
fn a_whole_batch_that_is_lost_is_quarantined_with_its_list() {
    let mut scene = Scene::new();
    let mut copies = scene.many(3, 64);
    let batch = scene.device.lose();
    pass(&mut scene, TIMEOUT * 3);
    copies.iter_mut().for_each(quarantined);
    assert_eq!((scene.totals().quarantined, scene.outstanding()), (3, 1), "the batch is no operation");
    drop(copies);
    double::carry_out(&batch, Do::All);
    pass(&mut scene, TIMEOUT);
    scene.assert_clean();
}
