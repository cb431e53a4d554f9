//! Everything once.
use std::time::*;
use twolane::*;
#[test]
fn smoke() {
    let rt = Runtime::builder().build().unwrap();
    println!("{}", rt.plan());
    assert_eq!(rt.spawn_compute(|| 40 + 2).join().unwrap(), 42);
    let h2 = rt.handle();
    assert_eq!(rt.block_on(async move { h2.spawn(async { 7 }).await.unwrap() }).unwrap(), 7);
    let mut n = 0;
    let p = rt
        .spawn_poller(Where::Any, "c", move |cx: &mut PollCx<'_>| {
            n += 1;
            if n == 100 {
                cx.spawn_compute(|| println!("handed off"));
            }
            if n < 1000 { Progress::Idle } else { Progress::Done }
        })
        .unwrap();
    drop(p.join().unwrap());
    let s = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    s.set_nonblocking(true).unwrap();
    let s2 = s.try_clone().unwrap();
    let p = rt
        .spawn_poller(
            Where::Any,
            "echo",
            poll_fn(move |_| {
                let mut b = [0; 99];
                match s2.recv_from(&mut b) {
                    Ok((n, a)) => {
                        s2.send_to(&b[..n], a).unwrap();
                        Progress::Busy(1)
                    }
                    Err(_) => Progress::Idle,
                }
            })
            .fd(&s)
            .unwrap(),
        )
        .unwrap();
    let c = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    c.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    for i in 0..20 {
        c.send_to(&[i], s.local_addr().unwrap()).unwrap();
        let mut b = [0; 9];
        assert_eq!(c.recv(&mut b).unwrap(), 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{:#?}", rt.metrics());
    println!("{:?}", p.stats());
    drop(p);
    rt.shutdown(Duration::from_secs(2)).unwrap();
}
