//! Any DSA program on a laptop: what the library that is preloaded into a program, and the command that starts the program, agree on.
//!
//! The example `dsa_preload` is a library for `LD_PRELOAD`: it puts the [device model](super::dsa) under programs that nobody built for it, DPDK's `dma_idxd`
//! among them. `twolane dsa-box PROGRAM` (features `cli` and `sim`) makes a tree of devices, starts a program with the library and prints what its
//! descriptors came to. By hand it is done with three variables:
//!
//! ```text
//! $ cargo build --release --features sim,cli --bin twolane --example dsa_preload
//! $ twolane dsa-box --tree ./tree --queue dedicated:32:dpdk_0
//! $ export LD_PRELOAD=$PWD/target/release/examples/libdsa_preload.so DSA_MODEL_TREE=$PWD/tree
//! $ export DSA_SYSFS_PATH=$PWD/tree/sys/bus/dsa/devices DSA_DEV_PATH=$PWD/tree/dev/dsa     # where DPDK looks
//! $ dpdk-test --no-pci --no-huge -m 512
//! ```
//!
//! # How it works
//! The nodes of the work queues, `dev/dsa/wq0.0` under the tree, are empty files. The library interposes `open`, `mmap`, `write`, `close` and their kin, finds a node by device
//! and inode, and opens the model's queue for it. A portal that is mapped from an empty file cannot be touched, so each MOVDIR64B and ENQCMD traps (or is illegal
//! to begin with, on a cpu without it), and the [traps](super::trap) carry it out. `write(2)` goes to the model with the kernel's rules.
//!
//! # Variables
//! - `DSA_MODEL_TREE`: the directory with `sys` and `dev`, as [`DsaTree`](super::dsa::tree::DsaTree) writes it. The devices are what the tree says; edit it and they are others.
//! - `DSA_MODEL`: how they behave, [`Behaviour`].
//! - `DSA_MODEL_REPORT`: a directory for counts that outlive the program, [`report`].
//! - `DSA_MODEL_TRACE`: a file that gets every descriptor with its outcome in words.
//! - `DSA_MODEL_REDIRECT=1`: `/sys/bus/dsa` and `/dev/dsa` are looked for in the tree, for programs whose paths are fixed.
//!
//! They do not begin with `TWOLANE_`, because a runtime of this crate refuses variables of that name that it does not know, and it may be the program in the box.
//!
//! # Signals
//! The traps handle SIGILL, SIGSEGV and SIGBUS from the first queue on that the program opens. What it makes of these signals itself, before or after, is put behind them:
//! its handler gets every fault that is none of the model's, `sigaction` tells it of its own, and the default kills as ever. It may "block" them, which is left undone, for a
//! blocked fault kills: its threads and handlers submit whatever their mask. For that `sigaction`, `signal` and its kin, `pthread_sigmask` and `sigprocmask` are interposed. Not
//! seen: masks from elsewhere (`sigsuspend`, `ppoll`, attributes of a thread), `sigset` and `sigignore`, and system calls without libc; a handler that is installed that way takes the
//! traps out, and the program dies of SIGILL or SIGSEGV at its next submission. More than 64 different handlers are refused (ENOMEM).
//!
//! # What is not shown
//! How long anything takes on hardware; a missing fence (a trap is a full barrier); ATS, PRS and PASIDs. Every process has devices of its own: queues are not shared between
//! processes, but a dedicated queue that one of them has open is busy for the others. A program that is linked statically, or runs as another user (setuid), takes no preloaded library, and
//! `dsa-box` refuses it with what to do; one that makes system calls without libc is seen in its portals, not in its `write`s. Such programs would need a file system in
//! user space (FUSE) for `/dev/dsa`, which is not built: interposition is the one way in. Nothing here was ever compared with a real device.

mod behaviour;
mod machine;
mod paths;
#[allow(unsafe_code)] // a mapped file
pub mod report;
mod words;

pub use behaviour::{Behaviour, BehaviourError, Kernel};
pub use machine::{Modelled, ModelledQueue, machine};
pub use paths::redirect;
pub use words::line;

/// The directory of the tree.
pub const ENV_TREE: &str = "DSA_MODEL_TREE";
/// How the devices behave.
pub const ENV_BEHAVIOUR: &str = "DSA_MODEL";
/// Where counts go.
pub const ENV_REPORT: &str = "DSA_MODEL_REPORT";
/// Where the trace goes.
pub const ENV_TRACE: &str = "DSA_MODEL_TRACE";
/// Whether paths are redirected: `1`.
pub const ENV_REDIRECT: &str = "DSA_MODEL_REDIRECT";
