//! A queue that is disabled, or whose device halts, and that is enabled again, is taken up again by a runtime that has work for it.
#![cfg(feature = "sim")]

mod common;
#[cfg(target_arch = "x86_64")]
mod offload_common;

use std::time::Duration;

use common::{pairs, until, within};
use twolane::Runtime;
use twolane::offload::{Engine, Failure};
use twolane::sim::dsa::{Device, DeviceConfig, Profile, QueueConfig};

const LIMIT: Duration = Duration::from_secs(300);
/// How long nothing may be answered: a machine that does much else may leave the model without a cpu for a while, and a queue that passes for dead again and
/// again is given up in the end.
const TIMEOUT: Duration = Duration::from_millis(500);

fn by_device(rt: &Runtime) -> Result<(), Failure> {
    let asked = rt.copies().on(Engine::Device).copy(vec![7; 5000], vec![0; 5000]);
    let (src, dst) = rt.block_on(asked).unwrap().map_err(|failed| failed.failure)?;
    assert!(src == dst);
    Ok(())
}

#[test]
fn what_was_disabled_and_is_enabled_is_opened_anew() {
    within(LIMIT, || {
        for queue in [QueueConfig::shared(8), QueueConfig::dedicated(8)] {
            for halts in [false, true] {
                let device = Device::new(DeviceConfig::v1().queue(queue.clone()), Profile::strict(1)).unwrap();
                let _driven = device.spawn().unwrap();
                let rt = pairs(1).copy_timeout(TIMEOUT).model_device(&device).build().unwrap();
                for _ in 0..3 {
                    until("it works", || by_device(&rt).is_ok());
                    let before = rt.copies().counts().device;
                    if halts {
                        device.halt()
                    } else {
                        device.disable_queue(0)
                    }
                    // A dedicated queue says nothing: one operation is given up until it is noticed. A shared one refuses.
                    until("its death is noticed", || matches!(by_device(&rt), Err(Failure::Refused { .. })));
                    // As long as it is down, nobody opens it, and what is asked for is done all the same.
                    let asked = rt.copies().copy(vec![1; 90_000], vec![0; 90_000]);
                    let (src, dst) = rt.block_on(asked).unwrap().unwrap();
                    assert!(src == dst);
                    assert_eq!(rt.copies().counts().device, before);
                    device.enable();
                    device.enable_queue(0);
                    until("it is taken up again", || by_device(&rt).is_ok());
                }
                assert_eq!(device.violations(), []);
                rt.shutdown(common::SOON).unwrap();
            }
        }
    });
}

/// The others do the work meanwhile.
#[test]
fn one_of_two_queues_is_missed_by_nobody() {
    within(LIMIT, || {
        let config = DeviceConfig::v1().queue(QueueConfig::shared(8)).queue(QueueConfig::shared(8));
        let device = Device::new(config, Profile::strict(2)).unwrap();
        let _driven = device.spawn().unwrap();
        let rt = pairs(1).copy_timeout(TIMEOUT).model_device(&device).build().unwrap();
        until("a device does it", || by_device(&rt).is_ok());
        device.disable_queue(1);
        for _ in 0..50 {
            // At most the one that finds out is refused, and then the other queue has the word.
            let _ = by_device(&rt);
        }
        until("the other queue does it", || by_device(&rt).is_ok());
        device.enable_queue(1);
        device.disable_queue(0);
        until("the other one is back", || by_device(&rt).is_ok());
        assert_eq!(device.violations(), []);
    });
}

/// As a kernel shows it: sysfs says that the queue is disabled and enabled, and its node leads to a new portal.
#[test]
#[cfg(target_arch = "x86_64")]
fn what_sysfs_says_to_be_back_is_opened_and_mapped_anew() {
    use offload_common::{Backend, Rig};
    for (backend, queue) in [(Backend::Enqcmd, QueueConfig::shared(8)), (Backend::Movdir64b, QueueConfig::dedicated(8))]
    {
        within(LIMIT, move || {
            let device = Device::new(DeviceConfig::v1().queue(queue), Profile::strict(3)).unwrap();
            let mut rig = Rig::impatient(backend, device, TIMEOUT);
            for _ in 0..3 {
                until("it works", || by_device(&rig.rt).is_ok());
                rig.device().disable_queue(0);
                rig.tree().set("dsa0/wq0.0/state", "disabled").unwrap();
                // Nothing of ours is in it, so nobody notices before it is asked: then ENQCMD is refused, and a stored descriptor is never answered.
                until("its death is noticed", || matches!(by_device(&rig.rt), Err(Failure::Refused { .. })));
                rig.device().enable_queue(0);
                rig.replace_node(0);
                rig.tree().set("dsa0/wq0.0/state", "enabled").unwrap();
                until("it is taken up again", || by_device(&rig.rt).is_ok());
            }
            rig.nothing_was_violated();
        });
    }
}
