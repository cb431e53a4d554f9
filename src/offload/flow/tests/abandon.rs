//! Tickets that are dropped, abandoned or forgotten.

use super::*;

/// Says when it is dropped.
struct Buffers(Arc<AtomicUsize>);

impl Drop for Buffers {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Abandons, and returns the count of drops of what was left.
fn abandon(copy: &mut Copying) -> (Arc<AtomicUsize>, bool) {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut asked = false;
    copy.ticket.take().unwrap().abandon(|| {
        asked = true;
        Box::new(Buffers(Arc::clone(&drops)))
    });
    (drops, asked)
}

#[test]
fn what_the_device_has_is_kept_until_it_answers() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(100);
    copy.assert_pending();
    let (drops, asked) = abandon(&mut copy);
    assert!(asked);
    assert_eq!(Arc::strong_count(&copy.woken), 2, "the ring has given up the waker: one is the test's own");
    let _ = scene.sweep();
    assert_eq!((drops.load(Relaxed), scene.taken(), scene.outstanding()), (0, 1, 1));
    scene.device.step(Do::All);
    let _ = scene.sweep();
    assert_eq!((drops.load(Relaxed), copy.woken()), (1, 0));
    scene.assert_clean();
    assert_eq!(scene.totals().abandoned, 1);
}

#[test]
fn what_waits_in_the_backlog_is_not_submitted_any_more() {
    let mut scene = Scene::new();
    let mut copies = [(); 2].map(|()| scene.gather(10));
    let (_, asked) = abandon(&mut copies[0]);
    assert!(!asked, "nothing has to be kept");
    assert_eq!(scene.taken(), 1);
    scene.flow.flush();
    assert_eq!(scene.device.waiting().len(), 1);
    scene.device.run();
    copies[1].assert_done();
    assert_eq!(scene.sweep().events, 0);
    scene.assert_clean();
}

#[test]
fn what_is_over_is_not_kept() {
    for swept in [false, true] {
        let mut scene = Scene::new();
        let mut copy = scene.copy(10);
        copy.assert_pending();
        scene.device.step(Do::All);
        if swept {
            let _ = scene.sweep();
        }
        let (_, asked) = abandon(&mut copy);
        assert!(!asked);
        scene.assert_clean();
    }
}

#[test]
fn a_forgotten_ticket_leaks_its_slot_and_nothing_else() {
    let mut scene = Scene::new();
    let mut copy = scene.copy(10);
    std::mem::forget(copy.ticket.take());
    scene.device.step(Do::All);
    let _ = scene.sweep();
    assert_eq!((scene.taken(), scene.outstanding()), (1, 0));
    assert!(!scene.sweep().asleep, "a slot was taken since it last tried");
    assert!(scene.sweep().asleep, "and does not keep the reaper awake");
}

#[test]
fn a_page_whose_slots_were_forgotten_is_replaced() {
    let mut scene = Scene::with(0, 64);
    loop {
        match scene.try_copy(1, false) {
            Ok(copy) => std::mem::forget(copy), // with its buffers, as a future's would be
            Err(refused) => {
                assert_eq!(refused, Refused::NoSlot);
                break;
            }
        }
    }
    scene.device.run();
    let _ = scene.sweep();
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut room = std::pin::pin!(scene.flow.room());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(room.as_mut(), &mut cx).is_pending());
    for _ in 0..20 {
        let _ = scene.sweep_after(TIMEOUT / 8);
    }
    assert_eq!((woken.0.load(Relaxed), scene.totals().pages_replaced), (1, 1));
    assert!(std::future::Future::poll(room.as_mut(), &mut cx).is_ready());
    let mut copy = scene.copy(10);
    scene.device.run();
    copy.assert_done();
}

#[test]
fn a_panic_of_what_was_left_or_of_a_waker_stays_where_it_is() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as it is dropped");
        }
    }
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            std::mem::forget(self);
            panic!("as it is woken");
        }
    }
    let mut scene = Scene::new();
    let mut copies = [(); 3].map(|()| scene.copy(10));
    copies[0].ticket.take().unwrap().abandon(|| Box::new(Bomb));
    copies[1].waker = Waker::from(Arc::new(Bomb));
    copies.iter_mut().skip(1).for_each(Copying::assert_pending);
    scene.device.run();
    assert_eq!(scene.sweep().events, 3);
    assert_eq!(copies[2].woken(), 1);
    copies.iter_mut().skip(1).for_each(Copying::assert_done);
    scene.assert_clean();
}
