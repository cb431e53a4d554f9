//! hwloc's XML files are read, and what is no such file is an error that names it.
#![cfg(feature = "hwloc")]

use std::fs;
use std::path::Path;

use twolane::topology::{HwlocSource, Topology, TopologyError};

fn read(path: &Path) -> Result<Topology, TopologyError> {
    Topology::read_hwloc_from(&HwlocSource::Xml(path.to_owned()))
}

#[test]
fn a_small_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two.xml");
    fs::write(&path, TWO_SIBLINGS).unwrap();
    let topology = read(&path).unwrap();
    let of = |id: usize| topology.cpu(id).map(|cpu| (cpu.core, cpu.llc, cpu.node, cpu.package, cpu.allowed)).unwrap();
    assert_eq!((of(3), of(7)), ((3, 3, 2, 1, true), (3, 3, 2, 1, true)));
    assert!(topology.notes.iter().any(|note| note.contains("two.xml by hwloc, which knows no quota")), "{topology:?}");
}

#[test]
fn what_is_no_such_file_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let newer = TWO_SIBLINGS.replace("version=\"2.0\"", "version=\"3.0\"");
    for (name, content) in [
        ("empty.xml", Some("")),
        ("nonsense.xml", Some("<nonsense/>")),
        ("text.xml", Some("not xml at all")),
        ("half.xml", Some(&TWO_SIBLINGS[..TWO_SIBLINGS.len() / 2])),
        ("nul.xml", Some("<topology\0>")),
        ("newer.xml", Some(newer.as_str())),
        ("missing.xml", None),
    ] {
        let path = dir.path().join(name);
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let error = read(&path).unwrap_err();
        let TopologyError::Unreadable { path: named, why } = &error else { panic!("{name}: {error:?}") };
        assert_eq!(named, &path);
        assert!(!why.is_empty(), "{name}");
    }
    assert!(read(dir.path()).is_err(), "a directory");
}

#[test]
fn this_machine_is_the_same_for_both_readers() {
    let before = Topology::read().unwrap();
    let hwloc = Topology::read_hwloc().unwrap();
    assert_eq!(hwloc.allowed(), before.allowed());
    assert_eq!((hwloc.smt, hwloc.hypervisor, &hwloc.quota), (before.smt, before.hypervisor, &before.quota));
    let lines = |topology: &Topology| topology.cpus.iter().map(|cpu| format!("{cpu:?}")).collect::<Vec<_>>();
    assert_eq!(lines(&hwloc), lines(&before));
}

const TWO_SIBLINGS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000088" complete_cpuset="0x00000088" allowed_cpuset="0x00000088" nodeset="0x00000004" complete_nodeset="0x00000004" allowed_nodeset="0x00000004" gp_index="1">
    <object type="Package" os_index="1" cpuset="0x00000088" complete_cpuset="0x00000088" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="2">
      <object type="NUMANode" os_index="2" cpuset="0x00000088" complete_cpuset="0x00000088" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="3" local_memory="1024"/>
      <object type="L3Cache" cpuset="0x00000088" complete_cpuset="0x00000088" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="4" cache_size="1048576" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000088" complete_cpuset="0x00000088" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="5">
          <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="6"/>
          <object type="PU" os_index="7" cpuset="0x00000080" complete_cpuset="0x00000080" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="7"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;
