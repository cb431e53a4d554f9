//! Copies and their kin on a machine without a device: what is small is born ready, what is large goes to a compute lane, and the buffers always come back.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use twolane::offload::{Engine, Failure, PartMut, PartRef};
use twolane::{Placement, Runtime};

fn runtime() -> Runtime {
    Runtime::builder().placement(Placement::Unpinned).build().expect("no cpu is demanded")
}

/// Bytes of which no two neighbourhoods look alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_small_copy_is_born_ready() {
    let rt = runtime();
    let src = bytes(1_000);
    let copying = rt.copies().copy(src.clone(), vec![0; 1_500]);
    assert!(copying.is_ready());
    let Poll::Ready(Ok((same, dst))) = pin!(copying).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it was ready")
    };
    assert_eq!((&same, &dst[..1_000], &dst[1_000..]), (&src, &src[..], &[0; 500][..]));
}

#[test]
fn a_large_copy_is_done_on_a_compute_lane_in_slices() {
    let rt = runtime();
    let src = bytes(20 << 20);
    let copying = rt.copies().copy(src.clone(), vec![0; 20 << 20]);
    assert!(!copying.is_ready());
    let (_, dst) = rt.block_on(copying).unwrap().unwrap();
    assert!(dst == src);
}

#[test]
fn a_large_copy_can_stay_where_it_is_polled() {
    let rt = runtime();
    let src = bytes(1 << 20);
    let mut copying = pin!(rt.copies().on(Engine::CpuHere).copy(src.clone(), vec![0; 1 << 20]));
    let mut polls = 0;
    let (_, dst) = loop {
        polls += 1;
        if let Poll::Ready(done) = copying.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break done.unwrap();
        }
    };
    assert!(dst == src);
    assert!(polls >= 8, "a slice of 128 KiB a poll: {polls}");
}

#[test]
fn what_has_no_room_is_refused_with_the_buffers_and_the_sizes() {
    let rt = runtime();
    let failed = rt.block_on(rt.copies().copy(vec![1; 100], vec![2; 99])).unwrap().unwrap_err();
    assert_eq!(failed.buffers, Some((vec![1; 100], vec![2; 99])));
    assert_eq!(
        failed.failure.to_string(),
        "the destination has 99 bytes, and 100 are needed: give a larger buffer, or a part of the source"
    );
    let failed = rt.block_on(rt.copies().compare(vec![1; 3], vec![1; 4])).unwrap().unwrap_err();
    assert!(matches!(failed.failure, Failure::Refused { .. }));
}

#[test]
fn the_device_can_be_demanded_where_there_is_none() {
    let rt = runtime();
    let failed = rt.block_on(rt.copies().on(Engine::Device).copy(vec![1; 10], vec![2; 10])).unwrap().unwrap_err();
    assert!(failed.failure.to_string().contains("twolane doctor"), "{failed}");
    assert!(failed.buffers.is_some());
}

#[test]
fn parts_say_where() {
    let rt = runtime();
    let (src, dst) = (bytes(100).part(10..20).unwrap(), vec![0; 64].part_mut(54..).unwrap());
    let (src, dst) = rt.block_on(rt.copies().copy(src, dst)).unwrap().unwrap();
    let (src, dst) = (src.into_inner(), dst.into_inner());
    assert_eq!((&dst[..54], &dst[54..]), (&[0; 54][..], &src[10..20]));
}

#[test]
fn comparisons_and_checksums_say_what_they_found() {
    let rt = runtime();
    let copies = rt.copies();
    for len in [100, 1 << 20] {
        let (left, mut right) = (bytes(len), bytes(len));
        let equal = rt.block_on(copies.compare(left.clone(), right.clone())).unwrap().unwrap();
        assert_eq!(equal.2, None);
        right[len - 7] ^= 1;
        let differ = rt.block_on(copies.compare(left, right)).unwrap().unwrap();
        assert_eq!(differ.2, Some(len - 7));
    }
    let (digits, crc) = rt.block_on(copies.crc32c(b"123456789".to_vec(), 0)).unwrap().unwrap();
    assert_eq!(crc, 0xe306_9283, "the check value of CRC-32C");
    let (rest, first) = rt.block_on(copies.crc32c(digits.part(..4).unwrap(), 0)).unwrap().unwrap();
    let rest = rest.into_inner().part(4..).unwrap();
    assert_eq!(rt.block_on(copies.crc32c(rest, first)).unwrap().unwrap().1, crc, "chained");
    let (pattern, at) = rt.block_on(copies.compare_pattern(vec![9; 77], [9; 8])).unwrap().unwrap();
    assert_eq!((pattern.len(), at), (77, None));
}

#[test]
fn dropped_and_forgotten_half_way_they_harm_nobody() {
    let rt = runtime();
    for _ in 0..20 {
        drop(rt.copies().copy(bytes(4 << 20), vec![0; 4 << 20]));
        std::mem::forget(rt.copies().copy(vec![1; 1 << 20], vec![0; 1 << 20]));
    }
    let (src, dst) = rt.block_on(rt.copies().copy(bytes(4 << 20), vec![0; 4 << 20])).unwrap().unwrap();
    assert!(src == dst);
}

#[test]
fn a_runtime_that_has_ended_gives_the_buffers_back() {
    let rt = runtime();
    let copies = rt.copies();
    rt.shutdown(std::time::Duration::from_secs(5)).unwrap();
    let mut copying = pin!(copies.copy(vec![1; 1 << 20], vec![0; 1 << 20]));
    let Poll::Ready(Err(failed)) = copying.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("nobody is left to do it")
    };
    assert_eq!(failed.failure, Failure::Shutdown);
    assert_eq!(failed.buffers.map(|(src, dst)| (src.len(), dst.len())), Some((1 << 20, 1 << 20)));
    let small = pin!(copies.copy(vec![1; 10], vec![0; 10])).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(small, Poll::Ready(Ok(_))), "what the calling thread does itself needs no lanes");
}
