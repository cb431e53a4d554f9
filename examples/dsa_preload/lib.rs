//! The DSA model under a program that nobody built for it: a library for `LD_PRELOAD`.
//!
//! ```text
//! cargo build --release --features sim,cli --bin twolane --example dsa_preload
//! target/release/twolane dsa-box --queue dedicated:32:dpdk_0 -- dpdk-test --no-pci --no-huge -m 512
//! ```
//!
//! `twolane dsa-box` sets everything up; `twolane::sim::preload` says how it works, which variables the library reads, and what it cannot show. Files: `settings` what the
//! environment says; `world` the devices of this process; `opened` who has which queue open; `descriptors` which file descriptors are queues; `portals` which pages are;
//! `next` the functions that are interposed; `interpose` one file a group of them.
//!
//! Interposed functions run in whatever the program does: before its `main`, in its signal handlers, in a child after `fork`. So what is not ours is passed on after a look at an
//! atomic or at the path, without locks or allocation, with `errno` as it was; what is ours may do both.

#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)] // C's functions, called and defined

mod complain;
mod descriptors;
mod fork;
mod interpose;
mod next;
mod opened;
mod portals;
mod settings;
mod world;

/// Runs when the library is loaded. Others' constructors may have called interposed functions before: nothing depends on this, but what is wrong with the
/// variables is told at the start, not when the program opens a queue.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    fork::watch();
    if settings::get().is_none() {
        complain::line(
            "DSA_MODEL_TREE is not set, so there are no devices; `twolane dsa-box PROGRAM` sets it, `twolane dsa-box --tree DIR` makes a tree for it",
        );
    }
}
