//! Pages that were absent, and queues that died under an operation.

use super::*;
use crate::offload::Failure;
use crate::offload::dsa::abi::Status;
use crate::offload::dsa::portal::Death;

#[test]
fn what_faulted_is_resumed_by_its_task_and_then_left_to_the_cpu() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(10_000);
    for part in [1, 5000] {
        copy.assert_pending();
        scene.device.step(Do::Part(part));
        let _ = scene.sweep();
        assert!(scene.device.waiting().is_empty(), "the reaper does not touch memory");
        copy.assert_pending();
        assert_eq!(scene.device.waiting().len(), 1, "the task does");
    }
    assert_eq!(scene.totals().resumes, 2);
    scene.device.step(Do::Part(4000));
    let _ = scene.sweep();
    let Poll::Ready(Settled::OnCpu { rest, .. }) = copy.poll() else { panic!("twice is enough") };
    let Operation::Copy { src, dst, len } = rest.operation else { panic!("{rest:?}") };
    assert_eq!(len, 10_000 - 9001);
    // SAFETY: what is left of the operation, of which the device is done.
    unsafe { std::ptr::copy(src, dst, len) };
    assert_eq!(copy.src, copy.dst);
    scene.assert_clean();
}

#[test]
fn a_task_may_see_the_fault_before_the_reaper_does() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    scene.device.step(Do::Part(50));
    copy.assert_pending();
    assert_eq!(scene.outstanding(), 1, "the first one's credit came back");
    assert_eq!(scene.sweep().events, 0);
    scene.device.step(Do::All);
    let _ = scene.sweep();
    assert_eq!(copy.woken(), 1, "registered with the resume");
    copy.assert_done();
    scene.assert_clean();
}

#[test]
fn a_device_that_fails_is_reported() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    scene.device.step(Do::Status(Status::HW_ERR1));
    let Poll::Ready(Settled::Failed(failure)) = copy.poll() else { panic!() };
    assert!(matches!(failure, Failure::Device { ref queue, status: 0x20, .. } if queue == "wq7.0"), "{failure}");
    let _ = scene.sweep();
    scene.assert_clean();
}

#[test]
fn what_a_dead_queue_never_got_is_left_to_the_cpu() {
    let mut scene = Scene::new();
    let mut waiting = [(); 3].map(|()| scene.gather(10));
    waiting.iter_mut().for_each(Copying::assert_pending);
    scene.device.kill(Death::Disabled);
    assert!(matches!(scene.try_copy(10, false), Err(Refused::QueueDown(Some(Death::Disabled)))));
    assert_eq!((scene.taken(), scene.outstanding()), (3, 0));
    let _ = scene.sweep();
    let _ = scene.sweep_after(Duration::from_micros(5));
    for copy in &mut waiting {
        assert_eq!(copy.woken(), 1);
        assert!(matches!(copy.poll(), Poll::Ready(Settled::OnCpu { .. })));
    }
    assert!(matches!(scene.try_copy(10, true), Err(Refused::QueueDown(Some(Death::Disabled)))), "and says so at once");
    scene.assert_clean();
}

#[test]
fn a_queue_that_dies_before_a_resume_leaves_the_rest_to_the_cpu() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    scene.device.step(Do::Part(60));
    scene.device.kill(Death::Halted);
    let Poll::Ready(Settled::OnCpu { rest, .. }) = copy.poll() else { panic!() };
    assert_eq!(rest.operation.len(), 40);
    let _ = scene.sweep();
    scene.assert_clean();
}
