//! Which devices does a tree describe? From what a driver finds in sysfs to what the model builds. Pure.

use crate::offload::dsa::abi::{OpCap, Opcode};
use crate::offload::dsa::discover::{Found, Mode, WorkQueue};
use crate::sim::dsa::{DeviceConfig, KernelProfile, QueueConfig};

/// A device of the tree, for the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Modelled {
    /// `dsa0`.
    pub name: String,
    /// What to build.
    pub config: DeviceConfig,
    /// Its queues, in the order of [`config`](Self::config): the model numbers them from 0 on, sysfs does not.
    pub queues: Vec<ModelledQueue>,
}

/// A queue of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelledQueue {
    /// `wq0.3`.
    pub name: String,
    /// Its node.
    pub node: std::path::PathBuf,
    /// One process at a time.
    pub dedicated: bool,
}

/// The devices of the queues that were found, in their order, with a kernel in front of them. Queues that cannot be used are in no device, as they are not on a machine either: they have no node.
#[must_use]
pub fn machine(found: &Found, kernel: KernelProfile) -> Vec<Modelled> {
    let mut devices: Vec<Modelled> = Vec::new();
    for queue in &found.queues {
        let number = match devices.iter().position(|device| device.name == queue.device) {
            Some(number) => number,
            None => {
                devices.push(Modelled {
                    name: queue.device.clone(),
                    config: device(queue, kernel),
                    queues: Vec::new(),
                });
                devices.len() - 1
            }
        };
        let device = &mut devices[number];
        device.config.opcap = OpCap(std::array::from_fn(|n| device.config.opcap.0[n] | operations(queue).0[n]));
        device.config = device.config.clone().queue(config(queue));
        device.queues.push(ModelledQueue {
            name: queue.name.clone(),
            node: queue.node.clone(),
            dedicated: queue.mode == Mode::Dedicated,
        });
    }
    devices
}

fn device(queue: &WorkQueue, kernel: KernelProfile) -> DeviceConfig {
    let mut config = DeviceConfig::v1();
    config.version = queue.version;
    config.gencap = queue.capabilities;
    config.opcap = operations(queue);
    config.kernel = kernel;
    if let Some(engines) = queue.engines {
        config.groups = vec![engines.clamp(1, ENGINES_MAX)];
    }
    config
}

/// Of a device; a tree that says otherwise is taken for the nearest.
const ENGINES_MAX: u32 = 4;

/// The kernel hides Batch from `op_cap` where it refuses it through `write(2)`; the device has it all the same, and takes it through a portal.
fn operations(queue: &WorkQueue) -> OpCap {
    queue.operations.with(Opcode::BATCH)
}

fn config(queue: &WorkQueue) -> QueueConfig {
    let config = match queue.mode {
        Mode::Shared => QueueConfig::shared(queue.size).threshold(queue.depth()),
        Mode::Dedicated => QueueConfig::dedicated(queue.size),
    };
    config
        .max_transfer(queue.max_transfer_size)
        .max_batch(queue.max_batch_size.max(1))
        .block_on_fault(queue.block_on_fault)
        .prs_disable(!queue.page_requests)
        .op_config(operations(queue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::Version;
    use crate::offload::dsa::discover::find;
    use crate::sim::dsa::tree::{Device, DsaTree, Queue};
    use crate::sim::dsa::{Device as Model, Profile, QueueMode};

    #[test]
    fn the_model_is_what_the_tree_says() {
        let dir = tempfile::tempdir().unwrap();
        let first = Device::v1(0)
            .engines(2)
            .queue(Queue::dedicated(32).max_transfer_size(4096))
            .queue(Queue::shared(9).disabled())
            .queue(Queue::shared(16).threshold(5).block_on_fault().max_batch_size(7));
        let second = Device::v2(2).without_batches().queue(Queue::shared(128));
        let tree = DsaTree::new().device(first).device(second).analytics(1).write(dir.path()).unwrap();
        let devices = machine(&find(&tree.places()), KernelProfile::V6_12);
        let names: Vec<_> =
            devices.iter().map(|d| (&*d.name, d.queues.iter().map(|q| &*q.name).collect::<Vec<_>>())).collect();
        assert_eq!(names, [("dsa0", vec!["wq0.0", "wq0.2"]), ("dsa2", vec!["wq2.0"])]);
        let [ref ded, ref shr] = devices[0].config.queues[..] else { panic!("{devices:?}") };
        assert_eq!((ded.mode, ded.size, ded.max_transfer), (QueueMode::Dedicated, 32, 4096));
        assert_eq!((shr.mode, shr.size, shr.threshold, shr.max_batch), (QueueMode::Shared, 16, 5, 7));
        assert!(shr.block_on_fault && !ded.block_on_fault && !ded.prs_disable);
        assert_eq!((devices[0].config.version, devices[1].config.version), (Version::V1_0, Version::V2_0));
        assert_eq!(devices[0].config.groups, [2]);
        assert!(devices[1].config.opcap.contains(Opcode::BATCH) && !devices[0].config.opcap.contains(Opcode::DIX_GEN));
        for device in devices {
            Model::new(device.config, Profile::compat()).unwrap();
        }
    }
}
