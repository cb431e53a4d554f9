//! What the machine says of itself: whether a hypervisor is beneath, and whether SMT is there.

use super::files::Files;
use super::presence::CPU;
use crate::topology::Smt;

/// Whether a hypervisor stands between this kernel and the hardware, as far as the machine tells.
pub(super) fn hypervisor(files: &mut Files<'_>) -> bool {
    if files.text("sys/hypervisor/type").is_some_and(|kind| !matches!(kind.trim(), "" | "none")) {
        return true;
    }
    // On x86 the cpu has a flag for it, and that is the last word: a bare-metal instance in the cloud names the same
    // vendor as the virtual ones.
    let flag = files.first_line("proc/cpuinfo", |line| {
        let (key, flags) = line.split_once(':')?;
        (key.trim() == "flags").then(|| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    });
    flag.unwrap_or_else(|| {
        let vendor = files.text("sys/class/dmi/id/sys_vendor").unwrap_or_default();
        let product = files.text("sys/class/dmi/id/product_name").unwrap_or_default();
        let device_tree = files.text("sys/firmware/devicetree/base/hypervisor/compatible").is_some();
        device_tree || names_hypervisor(vendor.trim(), product.trim())
    })
}

/// What the kernel says of SMT: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
pub(super) fn smt_control(files: &mut Files<'_>) -> Option<String> {
    files.text(format!("{CPU}/smt/control")).map(|control| control.trim().to_owned())
}

/// Siblings that are seen are there. Siblings that are not seen are absent only if somebody who can know says so.
pub(in crate::topology) fn decide_smt(siblings_seen: bool, hypervisor: bool, control: Option<&str>) -> Smt {
    if siblings_seen {
        return Smt::Visible;
    }
    match control {
        Some("off" | "forceoff" | "notsupported") if !hypervisor => Smt::Absent,
        _ => Smt::Unknown,
    }
}

/// Whether the firmware's tables name a virtual machine.
fn names_hypervisor(vendor: &str, product: &str) -> bool {
    const VENDORS: [&str; 9] =
        ["QEMU", "KVM", "VMware", "Xen", "innotek", "Parallels", "Bochs", "OpenStack", "Apple Virtualization"];
    const PRODUCTS: [&str; 5] = ["Virtual Machine", "Google Compute Engine", "KVM", "VirtualBox", "OpenStack"];
    let starts = |text: &str, names: &[&str]| names.iter().any(|name| text.starts_with(name));
    // Amazon's bare-metal instances say so in the product, all others are virtual.
    let amazon = vendor.starts_with("Amazon EC2") && !product.contains("metal");
    amazon || starts(vendor, &VENDORS) || starts(product, &PRODUCTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_names() {
        for (vendor, product, virtual_machine) in [
            ("QEMU", "KVM Virtual Machine", true),
            ("Amazon EC2", "m7g.large", true),
            ("Amazon EC2", "m7g.metal", false),
            ("Microsoft Corporation", "Virtual Machine", true),
            ("Microsoft Corporation", "Surface", false),
            ("Google", "Google Compute Engine", true),
            ("Huawei", "TaiShan 2280", false),
            ("", "", false),
        ] {
            assert_eq!(names_hypervisor(vendor, product), virtual_machine, "{vendor} {product}");
        }
    }

    #[test]
    fn smt_needs_a_witness() {
        for (seen, hypervisor, control, smt) in [
            (true, false, Some("on"), Smt::Visible),
            (true, true, Some("notsupported"), Smt::Visible),
            (false, false, Some("off"), Smt::Absent),
            (false, false, Some("forceoff"), Smt::Absent),
            (false, false, Some("notsupported"), Smt::Absent),
            (false, false, Some("notimplemented"), Smt::Unknown),
            (false, false, Some("on"), Smt::Unknown),
            (false, false, None, Smt::Unknown),
            (false, true, Some("notsupported"), Smt::Unknown),
        ] {
            assert_eq!(decide_smt(seen, hypervisor, control), smt, "{seen} {hypervisor} {control:?}");
        }
    }
}
