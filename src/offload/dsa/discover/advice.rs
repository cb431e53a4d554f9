//! What to type, from a bare kernel to a queue that this process may use. The words of `twolane doctor` and of the errors alike.

/// What the kernel must have been started with.
pub(crate) const SCALABLE_IOMMU: &str =
    "kernel command line: intel_iommu=on,sm_on (and VT-d switched on in the firmware)";

/// The driver.
pub(crate) const LOAD_DRIVER: &str = "modprobe idxd";

/// How to get from a device to a queue that a group of users may use. The sizes are an example, within every device's limits.
const CONFIGURE: [&str; 5] = [
    "accel-config config-engine dsa0/engine0.0 --group-id=0",
    "accel-config config-wq dsa0/wq0.0 --group-id=0 --mode=shared --type=user --driver-name=user --name=twolane \
     --wq-size=16 --threshold=15 --priority=10",
    "accel-config enable-device dsa0",
    "accel-config enable-wq dsa0/wq0.0",
    "chgrp GROUP /dev/dsa/wq0.0 && chmod g+rw /dev/dsa/wq0.0",
];

/// The steps from device `dsa3`, disabled, to its first queue.
pub(crate) fn configure(device: &str) -> impl Iterator<Item = String> + use<> {
    let number = device.trim_start_matches("dsa").to_owned();
    CONFIGURE.iter().map(move |line| {
        let line = line.replace("dsa0", &format!("dsa{number}")).replace("wq0.0", &format!("wq{number}.0"));
        line.replace("engine0.0", &format!("engine{number}.0"))
    })
}

/// The steps on a machine that shows no device. `scalable`: the kernel was started with [`SCALABLE_IOMMU`] already.
pub(crate) fn first_steps(scalable: bool) -> Vec<String> {
    let iommu = (!scalable).then(|| SCALABLE_IOMMU.to_owned());
    iommu.into_iter().chain([LOAD_DRIVER.to_owned()]).chain(configure("dsa0")).collect()
}

/// Changes a setting of queue `dsa0/wq0.0`, which must be off for it.
pub(crate) fn reconfigure(queue: &str, settings: &str) -> [String; 3] {
    [
        format!("accel-config disable-wq {queue}"),
        format!("accel-config config-wq {queue} {settings}"),
        format!("accel-config enable-wq {queue}"),
    ]
}

/// Gives a node to a group, once or for good.
pub(crate) fn permit(node: &str) -> [String; 2] {
    [
        format!("chgrp GROUP {node} && chmod g+rw {node}"),
        "or: a udev rule: SUBSYSTEM==\"dsa\", KERNEL==\"wq*\", GROUP=\"GROUP\", MODE=\"0660\"".to_owned(),
    ]
}

/// How a container gets to see what the host has.
pub(crate) const SHOW_CONTAINER: &str =
    "docker run -v /sys/bus/dsa:/sys/bus/dsa:ro -v /sys/devices:/sys/devices:ro ...";

/// What a process without CAP_SYS_RAWIO is up to.
pub(crate) const WITHOUT_RAW_IO: &str = "Kernels from 6.10 on (and 6.9.1, 6.1.91 and others that got the fix of CVE-2024-21823) map a portal \
     for nobody without it. Each submission is then a call of write(2) on the node, of one descriptor or of several, and devices of version \
     1.0 refuse batches on that way. Older kernels map portals for everybody.";

/// How a process gets CAP_SYS_RAWIO. It is a large right (ports, raw memory): for trusted programs.
pub(crate) const GRANT_RAW_IO: [&str; 3] = [
    "setcap cap_sys_rawio+ep PROGRAM",
    "or: systemd: AmbientCapabilities=CAP_SYS_RAWIO",
    "or: docker run --cap-add=SYS_RAWIO ...",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_name_the_device_that_is_there() {
        let steps: Vec<String> = configure("dsa4").collect();
        assert!(
            steps.iter().all(|step| step.contains('4') && !step.contains("dsa0") && !step.contains("wq0")),
            "{steps:?}"
        );
    }

    #[test]
    fn first_steps_are_in_order() {
        let steps = first_steps(false);
        assert_eq!((steps[0].as_str(), steps[1].as_str()), (SCALABLE_IOMMU, LOAD_DRIVER));
        assert_eq!(first_steps(true)[..], steps[1..]);
    }
}
