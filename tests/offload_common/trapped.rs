//! A device behind the files that drivers open: sysfs as the kernel writes it, an empty file for each node, and traps for what is stored to it. A runtime
//! finds, opens, maps and tries the queues as it does a real machine's, and submits to them by ENQCMD and MOVDIR64B.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use twolane::offload::dsa::abi::Version;
use twolane::sim::dsa::tree::{self, DsaTree, WrittenTree};
use twolane::sim::dsa::{AddressSpace, Device, QueueConfig, QueueMode};
use twolane::sim::trap::{Trap, TrappedPortal};
use twolane::{Error, Offload, Runtime};

use super::LIMIT;
use super::backend::builder;

/// What is behind a runtime's queues.
pub struct Trapped {
    nodes: Vec<TrappedPortal>,
    pub tree: WrittenTree,
    _directory: tempfile::TempDir,
    _portals: Portals,
}

impl Trapped {
    /// Puts the device's queues behind nodes, and opens a runtime on them. Nobody drives the device when this returns. In fair weather only: a first batch
    /// that meets an absent page passes for a queue that takes none.
    pub fn open(device: &Device, space: &AddressSpace, timeout: Duration) -> (Runtime, Self) {
        let config = device.config();
        let portals = Portals::take(config.queues.len());
        let trap = Trap::install().expect("nothing forbids handlers of signals here");
        let directory = tempfile::tempdir().expect("room for temporary files");
        let described = if config.version >= Version::V2_0 { tree::Device::v2(0) } else { tree::Device::v1(0) };
        let described = described.operations(config.opcap).capabilities(config.gencap);
        let described = config.queues.iter().map(queue).fold(described, tree::Device::queue);
        let tree = DsaTree::new().device(described).write(directory.path()).expect("the directory is this test's");
        let nodes = (0..config.queues.len()).map(|number| {
            let opened = device.open(number, space).expect("the device is new");
            trap.node(opened, tree.node(&format!("wq0.{number}"))).expect("a node of the tree is an empty file")
        });
        let nodes = nodes.collect();
        let trapped = Self { nodes, tree, _directory: directory, _portals: portals };
        (trapped.runtime(device, trap, timeout), trapped)
    }

    /// A runtime on the queues. Opening tries each, so the device is driven meanwhile.
    fn runtime(&self, device: &Device, trap: Trap, timeout: Duration) -> Runtime {
        let driven = device.spawn().expect("a thread");
        let until = Instant::now() + LIMIT;
        let rt = loop {
            let places = self.tree.places();
            let builder = builder(timeout).env_overrides(false).dsa_places(places).emulate_submissions(trap);
            match builder.offload(Offload::Demand).build() {
                Ok(rt) => break rt,
                // A driver gives a queue half a second to answer, which is for ever on hardware and may be short on a loaded machine.
                Err(Error::NoWorkQueue(why)) if Instant::now() < until => {
                    assert!(why.to_string().contains("has not answered"), "{why}");
                }
                Err(error) => panic!("{error}"),
            }
        };
        drop(driven);
        rt
    }

    /// The driver had no other way in: what it writes to an empty file by `write(2)` would stand there.
    pub fn nothing_was_written(&self) {
        for number in 0..self.nodes.len() {
            let node = self.tree.node(&format!("wq0.{number}"));
            assert_eq!(std::fs::metadata(&node).expect("it is there").len(), 0, "{}", node.display());
        }
    }

    /// A queue that was disabled is enabled again: to its node there is a new portal, as the kernel makes one.
    pub fn replace(&mut self, device: &Device, space: &AddressSpace, number: usize) {
        drop(self.nodes.remove(number));
        let opened = device.open(number, space).expect("it is enabled");
        let node = self.tree.node(&format!("wq0.{number}"));
        self.nodes.insert(number, Trap::install().and_then(|trap| trap.node(opened, node)).expect("it is free"));
    }
}

/// A queue as sysfs tells of it.
fn queue(config: &QueueConfig) -> tree::Queue {
    let queue = match config.mode {
        QueueMode::Dedicated => tree::Queue::dedicated(config.size),
        QueueMode::Shared => tree::Queue::shared(config.size).threshold(config.threshold),
    };
    let queue = queue.max_transfer_size(config.max_transfer).max_batch_size(config.max_batch);
    if config.block_on_fault { queue.block_on_fault() } else { queue }
}

/// Portals of this process that are taken: it can have 64, and a machine of many cpus runs as many tests at once.
struct Portals(usize);

/// Fewer than there are, for tests that have portals of their own.
const PORTALS_MAX: usize = 48;

static TAKEN: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl Portals {
    /// Takes so many at once, when they are free: a test has all that it needs or none, so nobody waits for ever.
    fn take(count: usize) -> Self {
        assert!(count <= PORTALS_MAX);
        let (taken, changed) = &TAKEN;
        // A test that has failed takes no other with it.
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken =
            changed.wait_while(taken, |taken| *taken + count > PORTALS_MAX).unwrap_or_else(PoisonError::into_inner);
        *taken += count;
        Self(count)
    }
}

impl Drop for Portals {
    fn drop(&mut self) {
        let (taken, changed) = &TAKEN;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        changed.notify_all();
    }
}
