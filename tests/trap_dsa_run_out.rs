//! A process has so many portals that trap, and no more. Alone in its program: meanwhile others get none.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]

use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Profile, QueueConfig};
use twolane::sim::trap::Trap;

#[test]
fn portals_run_out_and_come_back() {
    let trap = Trap::install().unwrap();
    let device = Device::new(DeviceConfig::v1().queue(QueueConfig::shared(4)), Profile::strict(1)).unwrap();
    let space = AddressSpace::new().unwrap();
    let portal = || trap.portal(device.open(0, &space).unwrap());
    let (mut all, mut refused) = (Vec::new(), None);
    while refused.is_none() {
        match portal() {
            Ok(portal) => all.push(portal),
            Err(error) => refused = Some(error.to_string()),
        }
        assert!(all.len() <= 64);
    }
    assert!(refused.unwrap().contains("all 64 portals"));
    all.clear();
    assert!(portal().is_ok());
}
