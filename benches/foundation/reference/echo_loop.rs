//! A UDP echo by hand: receive a batch, send it back to where it came from.
//!
//! [`Echo`] is what both sides do with the socket; [`run`] is the loop around it that people write where there is no runtime.

use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// Datagrams a system call: the cost of the call is well spread by then.
const BATCH: usize = 32;
/// Room for a datagram.
const BYTES: usize = 256;

/// An echo over a socket that does not block. Allocates nothing once it is built.
pub struct Echo {
    socket: Arc<UdpSocket>,
    incoming: MultiHeaders<SockaddrStorage>,
    outgoing: MultiHeaders<SockaddrStorage>,
    buffers: Box<[[u8; BYTES]; BATCH]>,
    lengths: [usize; BATCH],
    from: [Option<SockaddrStorage>; BATCH],
}

impl Echo {
    pub fn over(socket: Arc<UdpSocket>) -> Self {
        Self {
            socket,
            incoming: MultiHeaders::preallocate(BATCH, None),
            outgoing: MultiHeaders::preallocate(BATCH, None),
            buffers: Box::new([[0; BYTES]; BATCH]),
            lengths: [0; BATCH],
            from: [None; BATCH],
        }
    }

    /// Echoes what is there, a batch at most. Returns how many; 0 also for errors, which on loopback mean: nothing there.
    pub fn turn(&mut self) -> usize {
        let received = self.receive();
        if received == 0 { 0 } else { self.send(received) }
    }

    fn receive(&mut self) -> usize {
        let mut slices = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let socket = self.socket.as_raw_fd();
        let Ok(received) = recvmmsg(socket, &mut self.incoming, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) else {
            return 0;
        };
        let mut count = 0;
        for message in received {
            self.lengths[count] = message.bytes;
            self.from[count] = message.address;
            count += 1;
        }
        count
    }

    fn send(&mut self, count: usize) -> usize {
        let mut slices = [[IoSlice::new(&[])]; BATCH];
        for ((slice, buffer), length) in slices.iter_mut().zip(self.buffers.iter()).zip(self.lengths) {
            *slice = [IoSlice::new(&buffer[..length.min(BYTES)])];
        }
        let (socket, to) = (self.socket.as_raw_fd(), &self.from[..count]);
        let sent = sendmmsg(socket, &mut self.outgoing, &slices[..count], to, [], MsgFlags::MSG_DONTWAIT);
        sent.map_or(0, |sent| sent.count())
    }
}

/// The loop: one turn after the other until `over`.
pub fn run(mut turn: impl FnMut() -> usize, over: &AtomicBool) -> u64 {
    let mut echoed = 0;
    while !over.load(Relaxed) {
        echoed += turn() as u64;
    }
    echoed
}
