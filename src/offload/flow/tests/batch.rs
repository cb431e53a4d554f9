//! Many operations: gathered or given at once, in batches, alone, split.

use super::*;
use crate::offload::dsa::abi::{Opcode, Status, layout};

fn opcodes(scene: &Scene) -> Vec<(Opcode, u64)> {
    let waiting = scene.device.waiting();
    let count = |opcode, value| if opcode == Opcode::BATCH { value } else { 1 };
    waiting.iter().map(|it| (it.opcode(), count(it.opcode(), it.value(layout::COUNT)))).collect()
}

#[test]
fn a_backlog_closes_when_it_is_full() {
    let mut scene = Scene::new();
    let mut copies: Vec<_> = (0..3).map(|_| scene.gather(100)).collect();
    assert_eq!(opcodes(&scene), [], "three wait");
    copies.push(scene.gather(100));
    assert_eq!(opcodes(&scene), [(Opcode::BATCH, 4)]);
    assert_eq!(scene.outstanding(), 1, "a batch is one credit");
    copies.iter_mut().for_each(Copying::assert_pending);
    scene.device.run();
    assert_eq!(scene.sweep().events, 5, "four, and the batch");
    copies.iter_mut().for_each(Copying::assert_done);
    scene.assert_clean();
    let totals = scene.totals();
    assert_eq!((totals.batches, totals.batched, totals.singles), (1, 4, 0));
}

#[test]
fn it_closes_by_bytes_age_wait_and_flush() {
    let mut scene = Scene::new();
    let _large = scene.gather(1 << 20);
    assert_eq!(opcodes(&scene), [(Opcode::MEMMOVE, 1)], "bytes; and a batch of one goes plain");
    let _two = (scene.gather(10), scene.gather(10));
    let _ = scene.sweep();
    let _ = scene.sweep_after(Duration::from_micros(4));
    assert_eq!(opcodes(&scene).len(), 1, "not old yet");
    let _ = scene.sweep_after(Duration::from_micros(1));
    assert_eq!(opcodes(&scene)[1..], [(Opcode::BATCH, 2)], "age");
    let _three = [(); 3].map(|()| scene.gather(10));
    scene.with_sweeper(|sweeper, core| sweeper.close_before_wait(core));
    assert_eq!(opcodes(&scene)[2..], [(Opcode::BATCH, 3)], "the lane is about to wait");
    let _one = scene.gather(10);
    scene.flow.flush();
    assert_eq!(opcodes(&scene)[3..], [(Opcode::MEMMOVE, 1)], "flush");
}

#[test]
fn many_at_once_are_split_into_batches() {
    for (batch_max, want) in [(4, vec![4, 4, 1]), (3, vec![3, 3, 3]), (2, vec![2, 2, 2, 2, 1])] {
        let mut scene = Scene::with(batch_max, 32);
        let mut copies = scene.many(9, 64);
        assert_eq!(opcodes(&scene).iter().map(|it| it.1).collect::<Vec<_>>(), want);
        assert_eq!(scene.outstanding() as usize, want.len());
        copies.iter_mut().for_each(Copying::assert_pending);
        scene.device.run();
        let _ = scene.sweep();
        assert!(copies.iter().all(|copy| copy.woken() == 1));
        copies.iter_mut().for_each(Copying::assert_done);
        scene.assert_clean();
    }
}

#[test]
fn without_batches_they_go_alone() {
    let mut scene = Scene::with(0, 32);
    let mut copies = scene.many(5, 64);
    copies.extend([(); 4].map(|()| scene.gather(10)));
    assert_eq!(opcodes(&scene), [(Opcode::MEMMOVE, 1); 9]);
    assert_eq!(scene.outstanding(), 9, "a credit each");
    scene.device.run();
    let _ = scene.sweep();
    copies.iter_mut().for_each(Copying::assert_done);
    scene.assert_clean();
}

#[test]
fn children_that_a_list_fault_left_out_are_submitted_again() {
    let mut scene = Scene::new();
    let mut copies = scene.many(4, 64);
    copies.iter_mut().for_each(Copying::assert_pending);
    scene.device.step(Do::Children(1));
    let _ = scene.sweep();
    copies[0].assert_done();
    for copy in &mut copies[1..] {
        assert_eq!(copy.woken(), 1, "told that it did not run");
        copy.assert_pending();
    }
    assert_eq!(scene.totals().retries, 3);
    scene.device.run();
    let _ = scene.sweep();
    copies[1..].iter_mut().for_each(Copying::assert_done);
    scene.assert_clean();
}

#[test]
fn a_batch_that_is_refused_again_and_again_is_left_to_the_cpu() {
    let mut scene = Scene::new();
    let mut copies = scene.many(2, 64);
    scene.device.step(Do::Status(Status::BAD_OPCODE));
    let _ = scene.sweep();
    copies.iter_mut().for_each(Copying::assert_pending);
    // Alone they are refused as well.
    scene.device.step(Do::Status(Status::BAD_OPCODE));
    scene.device.step(Do::All);
    let _ = scene.sweep();
    assert!(matches!(copies[0].poll(), Poll::Ready(Settled::OnCpu { .. })));
    copies[1].assert_done();
    scene.assert_clean();
}

#[test]
fn a_child_whose_slot_lives_again_is_not_taken_for_the_one_in_the_batch() {
    let mut scene = Scene::new();
    let mut copies = scene.many(2, 64);
    let batch = scene.device.lose();
    // The first child is done and its slot lives again before the batch's record is written.
    let list = batch.value(layout::LIST) as usize as *const crate::offload::dsa::abi::Descriptor;
    // SAFETY: the list stays until the batch's record is written.
    let children = unsafe { [*list, *list.add(1)] };
    double::carry_out(&children[0], Do::All);
    copies[0].assert_done();
    let mut second_life = scene.copy(64);
    assert_eq!(scene.device.waiting()[0].completion_address(), children[0].completion_address(), "the same slot");
    second_life.assert_pending();
    double::carry_out(&batch, Do::Status(Status::BATCH_PAGE_FAULT));
    let _ = scene.sweep();
    assert_eq!(second_life.woken(), 0, "it has nothing to do with that batch");
    scene.device.run();
    let _ = scene.sweep();
    second_life.assert_done();
}
