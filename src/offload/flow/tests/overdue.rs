//! Operations that are never answered, or late.

use super::*;
use crate::offload::Failure;
use crate::offload::dsa::abi::{Opcode, layout};
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
    assert_eq!((scene.totals().quarantined, scene.totals().pages_replaced), (2, 1), "it, and what the queue was asked");
    assert_eq!(scene.outstanding(), 2, "they keep their credits");
    drop(copy); // leaves its buffers with the ring
    pass(&mut scene, TIMEOUT);
    assert!(scene.sweep().asleep, "what was given up keeps nobody awake");
    assert_eq!(scene.taken(), 2);
    // It was merely slow: the answer releases what was kept.
    double::carry_out(&lost, Do::All);
    scene.device.run();
    pass(&mut scene, TIMEOUT);
    assert_eq!(scene.totals().late, 2);
    scene.assert_clean();
}

#[test]
fn one_that_is_lost_takes_no_queue_with_it_that_answers() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let _ = scene.device.lose();
    pass(&mut scene, TIMEOUT * 5 / 4);
    assert_eq!(condition(&scene), Condition::Suspect);
    assert_eq!(scene.device.waiting().iter().map(|it| it.opcode()).collect::<Vec<_>>(), [Opcode::NOOP], "it is asked");
    scene.device.run();
    let _ = scene.sweep();
    assert_eq!((condition(&scene), copy.woken()), (Condition::Up, 0), "it lives");
    let mut other = scene.copy(100);
    other.assert_pending();
    scene.device.run();
    pass(&mut scene, TIMEOUT * 2);
    other.assert_done();
    assert_eq!((condition(&scene), copy.woken()), (Condition::Up, 1));
    quarantined(&mut copy);
    assert_eq!((scene.totals().quarantined, scene.outstanding()), (1, 1), "its entry may still be taken");
    let mut after = scene.copy(100);
    after.assert_pending();
    scene.device.run();
    let _ = scene.sweep();
    after.assert_done();
}

#[test]
fn a_queue_without_room_for_a_question_dies_with_the_second_deadline() {
    let mut scene = Scene::with(8, 1);
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let _ = scene.device.lose();
    pass(&mut scene, TIMEOUT * 3 / 2);
    assert_eq!((condition(&scene), scene.device.waiting().len()), (Condition::Suspect, 0));
    pass(&mut scene, TIMEOUT);
    assert_eq!(condition(&scene), Condition::Dead(Death::Silent));
    quarantined(&mut copy);
    assert_eq!(scene.totals().quarantined, 1);
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
    // The question comes late as well.
    scene.device.run();
    pass(&mut scene, TIMEOUT);
    scene.assert_clean();
}

#[test]
fn a_new_page_takes_the_place_of_one_with_a_quarantine_and_neighbours_go_on() {
    let mut scene = Scene::new();
    let mut lost = scene.copy(100);
    scene.device.lose();
    pass(&mut scene, TIMEOUT * 2);
    // Beside it, submitted later, with time left: the queue has answered what it was asked.
    scene.device.run();
    let _ = scene.sweep();
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
    assert_eq!(
        (scene.totals().quarantined, scene.outstanding()),
        (4, 2),
        "the batch is no operation, the question is one"
    );
    drop(copies);
    double::carry_out(&batch, Do::All);
    scene.device.run();
    pass(&mut scene, TIMEOUT);
    scene.assert_clean();
}

#[test]
fn what_a_batch_did_not_run_is_given_back_although_it_was_given_up() {
    let mut scene = Scene::new();
    let mut copies = scene.many(4, 64);
    copies.iter_mut().for_each(Copying::assert_pending);
    let batch = scene.device.lose();
    pass(&mut scene, TIMEOUT * 3);
    assert_eq!(scene.totals().quarantined, 5, "the children, and what the queue was asked");
    quarantined(&mut copies[3]);
    drop(copies.pop());
    // The device was slow, and stops after the first child: the list could not be read any further.
    double::carry_out(&batch, Do::Children(1));
    scene.device.run();
    pass(&mut scene, TIMEOUT);
    assert_eq!(scene.totals().late, 5, "one has a record, and its batch's says of three that they did not run");
    copies[0].assert_done();
    for copy in &mut copies[1..] {
        assert!(
            matches!(copy.poll(), Poll::Ready(Settled::OnCpu { .. }) | Poll::Pending),
            "the queue is dead: its holder carries it out"
        );
    }
    drop(copies);
    scene.device.run();
    pass(&mut scene, TIMEOUT);
    scene.assert_clean();
}

/// By the batch's count one of two without a record ran, and its record is lost: which of both, nobody knows.
#[test]
fn what_a_batch_may_have_run_stays_given_up() {
    let mut scene = Scene::new();
    let mut copies = scene.many(4, 64);
    copies.iter_mut().for_each(Copying::assert_pending);
    let batch = scene.device.lose();
    let list = batch.value(layout::LIST) as usize as *const crate::offload::dsa::abi::Descriptor;
    // SAFETY: the list stays until the batch's record is written.
    let children = unsafe { [*list, *list.add(1)] };
    children.iter().for_each(|child| double::carry_out(child, Do::All));
    pass(&mut scene, TIMEOUT * 3);
    assert_eq!(scene.totals().quarantined, 3, "two, and what the queue was asked");
    double::carry_out(&batch, Do::Told(3));
    pass(&mut scene, TIMEOUT);
    assert_eq!(scene.totals().late, 0);
    copies[..2].iter_mut().for_each(Copying::assert_done);
    copies[2..].iter_mut().for_each(quarantined);
}
