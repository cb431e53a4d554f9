//! No room: in the queue, for credits, in the page.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use super::*;
use crate::offload::dsa::portal::Death;
use crate::offload::dsa::queue::Condition;

#[test]
fn a_full_queue_makes_operations_wait_in_the_backlog() {
    let mut scene = Scene::with(8, 2);
    let mut copies: Vec<_> = (0..5).map(|_| scene.copy(100)).collect();
    assert_eq!((scene.device.accepted(), scene.totals().full), (2, 3), "two credits");
    copies.iter_mut().for_each(Copying::assert_pending);
    // The reaper submits what waits when there is room.
    scene.device.run();
    let _ = scene.sweep();
    let _ = scene.sweep_after(Duration::from_micros(5));
    scene.device.run();
    let _ = scene.sweep();
    assert!(copies.iter().all(|copy| copy.woken() == 1));
    copies.iter_mut().for_each(Copying::assert_done);
    scene.assert_clean();
}

#[test]
fn a_portal_that_refuses_for_a_while_loses_nothing() {
    let mut scene = Scene::new();
    scene.device.set_full(true);
    let mut copies: Vec<_> = (0..3).map(|_| scene.gather(10)).chain([scene.gather(10)]).collect();
    copies.extend(scene.many(3, 10));
    for _ in 0..10 {
        let _ = scene.sweep_after(Duration::from_micros(5));
    }
    assert_eq!((scene.device.accepted(), scene.outstanding(), scene.taken()), (0, 0, 7));
    scene.device.set_full(false);
    let _ = scene.sweep_after(Duration::from_micros(5));
    let _ = scene.sweep_after(Duration::from_micros(5));
    scene.device.run();
    let _ = scene.sweep();
    copies.iter_mut().for_each(Copying::assert_done);
    scene.assert_clean();
}

/// A queue that was disabled and enabled again behind the portal's back: it looks alive, nothing is in it, and it has no room, for ever.
#[test]
fn a_queue_that_is_full_of_nothing_is_given_up() {
    let mut scene = Scene::new();
    scene.device.set_full(true);
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let condition = |scene: &Scene| scene.flow.queues().find(scene.queue).unwrap().health().condition();
    let pass = |scene: &mut Scene, time: Duration| {
        for _ in 0..16 {
            let _ = scene.sweep_after(time / 16);
        }
    };
    pass(&mut scene, TIMEOUT);
    assert_eq!((condition(&scene), copy.woken()), (Condition::Up, 0));
    pass(&mut scene, TIMEOUT * 2);
    assert_eq!((condition(&scene), copy.woken()), (Condition::Dead(Death::Silent), 1));
    assert!(matches!(copy.poll(), Poll::Ready(Settled::OnCpu { .. })), "it provably did not run");
    drop(copy);
    scene.assert_clean();
}

#[test]
fn a_full_page_is_waited_for() {
    let mut scene = Scene::with(0, 64);
    let mut copies = Vec::new();
    let refused = loop {
        match scene.try_copy(1, false) {
            Ok(copy) => copies.push(copy),
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused, copies.len()), (Refused::NoSlot, 60));
    let woken: Vec<_> = (0..3).map(|_| Arc::new(Count::default())).collect();
    let mut rooms: Vec<_> = (0..3).map(|_| Box::pin(scene.flow.room())).collect();
    let poll = |room: &mut Pin<Box<super::super::Room>>, count: &Arc<Count>| {
        let waker = Waker::from(Arc::clone(count));
        room.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    };
    for (room, count) in rooms.iter_mut().zip(&woken) {
        assert!(!poll(room, count));
    }
    let counts = || woken.iter().map(|count| count.0.load(Relaxed)).collect::<Vec<_>>();
    scene.device.step(Do::All);
    copies.remove(0).assert_done();
    assert_eq!(counts(), [1, 0, 0], "one slot, one wake");
    // It goes away without looking, and passes the wake on.
    drop(rooms.remove(0));
    assert_eq!(counts(), [1, 1, 0]);
    assert!(poll(&mut rooms[0], &woken[1]));
    copies.push(scene.copy(1));
    // One that waits and goes takes nobody's wake.
    drop(rooms.remove(1));
    scene.device.step(Do::All);
    copies.remove(0).assert_done();
    assert_eq!(counts(), [1, 1, 0]);
    assert!(poll(&mut Box::pin(scene.flow.room()), &woken[2]), "there is room");
    scene.device.run();
    let _ = scene.sweep();
}
