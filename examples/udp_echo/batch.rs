//! Datagrams in and out, many to a system call.
//!
//! [`Inbox`] wraps `recvmmsg` and [`Outbox`] wraps `sendmmsg`, both through `nix`. They own every buffer that the kernel
//! fills, so a pass allocates nothing. Neither ever blocks unless the caller asks for it by flags.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::clock;

/// Datagrams a system call. The cost of the call is well spread by then, and a batch stays short beside a latency bound.
pub const BATCH: usize = 32;

/// What the kernel's receive queue is asked to hold, in bytes: a burst that falls due while the reader is off its cpu
/// for a few milliseconds. Without privilege the kernel grants less (`net.core.rmem_max`).
const RECEIVE_QUEUE_BYTES: usize = 4 << 20;

/// Asks for a deep receive queue. What cannot be had shows as loss in the figures, so a refusal is no error.
pub fn deepen_receive_queue(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_QUEUE_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_QUEUE_BYTES);
    }
}

/// What is known of one received datagram beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Bytes in the buffer.
    pub len: usize,
    /// Who sent it.
    pub from: Option<SockaddrStorage>,
    /// When the kernel received it ([`clock::realtime_ns`]), if the socket stamps arrivals.
    pub stamp_ns: Option<u64>,
}

/// Room for one batch of arrivals of up to `BYTES` each; longer ones are cut off.
pub struct Inbox<const BYTES: usize> {
    headers: MultiHeaders<SockaddrStorage>,
    buffers: Box<[[u8; BYTES]; BATCH]>,
    arrivals: [Arrival; BATCH],
    stamped: bool,
}

impl<const BYTES: usize> Inbox<BYTES> {
    /// An empty inbox; `stamped` makes room for the kernel's receive stamps.
    pub fn new(stamped: bool) -> Self {
        let Ok(buffers) = vec![[0; BYTES]; BATCH].try_into() else {
            unreachable!("a vector of BATCH buffers is an array of BATCH buffers")
        };
        Self { headers: headers(stamped), buffers, arrivals: [Arrival::default(); BATCH], stamped }
    }

    /// Receives what is there, up to a batch, over what was received before. Returns how many.
    pub fn receive(&mut self, socket: &UdpSocket, flags: MsgFlags) -> nix::Result<usize> {
        let mut slices = self.buffers.each_mut().map(|buffer| [std::io::IoSliceMut::new(buffer)]);
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None)?;
        let mut count = 0;
        let mut stamps_missing = false;
        for (arrival, message) in self.arrivals.iter_mut().zip(received) {
            let stamp_ns = message.cmsgs().ok().and_then(|mut all| all.find_map(stamp_of));
            stamps_missing |= stamp_ns.is_none();
            *arrival = Arrival { len: message.bytes.min(BYTES), from: message.address, stamp_ns };
            count += 1;
        }
        if self.stamped && stamps_missing {
            // The kernel shrank the control space of that header to nothing, and `recvmmsg` hands it on as it is: only
            // fresh headers have room for the next stamp.
            self.headers = headers(true);
        }
        Ok(count)
    }

    /// One datagram of the last batch.
    pub fn datagram(&self, at: usize) -> (&[u8], &Arrival) {
        let arrival = &self.arrivals[at];
        (&self.buffers[at][..arrival.len], arrival)
    }
}

/// What `sendmmsg` needs for one batch.
pub struct Outbox {
    headers: MultiHeaders<SockaddrStorage>,
}

impl Outbox {
    /// An outbox for batches of up to [`BATCH`].
    pub fn new() -> Self {
        Self { headers: MultiHeaders::preallocate(BATCH, None) }
    }

    /// Sends `count` datagrams, the first [`BATCH`] at most, each given by `datagram(index)` with its destination (none
    /// on a connected socket). Returns how many the kernel took, which may be fewer; an error is about the first one.
    pub fn send<'d>(
        &mut self,
        socket: &UdpSocket,
        count: usize,
        datagram: impl Fn(usize) -> (&'d [u8], Option<SockaddrStorage>),
    ) -> nix::Result<usize> {
        let count = count.min(BATCH);
        let mut slices = [[std::io::IoSlice::new(&[])]; BATCH];
        let mut addresses = [None; BATCH];
        for at in 0..count {
            let (bytes, to) = datagram(at);
            slices[at] = [std::io::IoSlice::new(bytes)];
            addresses[at] = to;
        }
        let (slices, addresses) = (&slices[..count], &addresses[..count]);
        let sent = sendmmsg(socket.as_raw_fd(), &mut self.headers, slices, addresses, [], MsgFlags::MSG_DONTWAIT)?;
        Ok(sent.count())
    }
}

fn headers(stamped: bool) -> MultiHeaders<SockaddrStorage> {
    MultiHeaders::preallocate(BATCH, stamped.then(|| nix::cmsg_space!(TimeSpec)))
}

fn stamp_of(message: ControlMessageOwned) -> Option<u64> {
    match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(clock::stamp_ns(&stamp)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_out_and_comes_in_with_stamps_every_time() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        setsockopt(&receiver, sockopt::ReceiveTimestampns, &true).expect("stamps are generic to sockets");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        sender.connect(receiver.local_addr().expect("it is bound")).expect("loopback is reachable");
        let (mut inbox, mut outbox) = (Inbox::<16>::new(true), Outbox::new());

        for round in 0..3_u8 {
            let words: Vec<[u8; 2]> = (0..5).map(|at| [round, at]).collect();
            assert_eq!(outbox.send(&sender, words.len(), |at| (&words[at], None)), Ok(5));
            assert_eq!(inbox.receive(&receiver, MsgFlags::MSG_DONTWAIT), Ok(5));
            for (at, word) in words.iter().enumerate() {
                let (bytes, arrival) = inbox.datagram(at);
                assert_eq!(bytes, word);
                assert!(arrival.stamp_ns.is_some() && arrival.from.is_some());
            }
        }
        assert_eq!(inbox.receive(&receiver, MsgFlags::MSG_DONTWAIT), Err(nix::errno::Errno::EAGAIN));
    }

    #[test]
    fn a_batch_without_stamps_does_not_cost_the_next_one_its_stamps() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        sender.connect(receiver.local_addr().expect("it is bound")).expect("loopback is reachable");
        let mut inbox = Inbox::<16>::new(true);
        for stamped in [false, true] {
            setsockopt(&receiver, sockopt::ReceiveTimestampns, &stamped).expect("stamps are generic to sockets");
            sender.send(b"datagram").expect("loopback takes it");
            assert_eq!(inbox.receive(&receiver, MsgFlags::MSG_DONTWAIT), Ok(1));
            assert_eq!(inbox.datagram(0).1.stamp_ns.is_some(), stamped);
        }
    }
}
