//! Everything that can carry an operation out, each behind one runtime: the CPU, models of the device of several kinds, and hardware if there is some.
//!
//! The one seam is [`Backend::rig`]: what is new becomes another backend there.

use std::time::Duration;

use twolane::offload::dsa::abi::Opcode;
use twolane::offload::{Copies, Engine};
use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Driven, Faults, Profile, QueueConfig};
use twolane::{Builder, Offload, Placement, Runtime};

#[cfg(target_arch = "x86_64")]
use super::trapped::Trapped;

/// The largest transfer of the models' queues, in bytes: small, so that what exceeds it is soon copied.
pub const TRANSFER_MAX: usize = 64 << 10;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The CPU engine: small ones at once, large ones on a compute lane.
    Cpu,
    /// The CPU engine, on the thread that polls.
    CpuHere,
    /// A model's queue that takes ENQCMD.
    Shared,
    /// A model's queue that takes MOVDIR64B.
    Dedicated,
    /// As `Shared`, with absent pages, retries and late dispatch.
    SharedInWeather,
    /// As `Dedicated`, with the same.
    DedicatedInWeather,
    /// Every third page faults, twice.
    Storm,
    /// A queue that has no batches, as those have that are written to by `write(2)`.
    NoBatch,
    /// Three queues of both kinds, in two groups, with weather.
    ThreeQueues,
    /// A device of version 2.
    Version2,
    /// A queue behind an empty file, which the driver finds in sysfs, opens and maps, and to which it submits by the very ENQCMD.
    Enqcmd,
    /// As `Enqcmd`, by MOVDIR64B.
    Movdir64b,
    /// As `Enqcmd`, with absent pages, retries and late dispatch.
    EnqcmdInWeather,
    /// As `Movdir64b`, with the same.
    Movdir64bInWeather,
    /// Three queues of both kinds behind files, in two groups, with weather.
    ThreeNodes,
    /// What discovery finds on this machine.
    Hardware,
}

impl Backend {
    /// A runtime that copies this way; `None`: not on this machine.
    pub fn rig(self, seed: u64) -> Option<Rig> {
        let shared = || QueueConfig::shared(16).max_transfer(TRANSFER_MAX as u64);
        let dedicated = || QueueConfig::dedicated(16).max_transfer(TRANSFER_MAX as u64);
        let v1 = DeviceConfig::v1();
        let three = |v1: DeviceConfig| {
            v1.groups(&[2, 1]).queue(shared()).queue(dedicated().group(1)).queue(shared().group(1).threshold(4))
        };
        let (config, faults) = match self {
            Self::Cpu | Self::CpuHere => {
                return Some(Rig::new(self, builder(super::PATIENT).offload(Offload::Off), None));
            }
            Self::Hardware => {
                return match builder(super::PATIENT).offload(Offload::Demand).build() {
                    Ok(rt) => Some(Rig { backend: self, rt, model: None }),
                    Err(why) => {
                        println!("not tried on hardware: {why}");
                        None
                    }
                };
            }
            Self::Shared | Self::Enqcmd => (v1.queue(shared()), Faults::none()),
            Self::Dedicated | Self::Movdir64b => (v1.queue(dedicated()), Faults::none()),
            Self::SharedInWeather | Self::EnqcmdInWeather => (v1.queue(shared()), Faults::weather()),
            Self::DedicatedInWeather | Self::Movdir64bInWeather => (v1.queue(dedicated()), Faults::weather()),
            Self::Storm => (v1.queue(shared()), Faults::storm()),
            Self::NoBatch => {
                let without = v1.opcap.without(Opcode::BATCH);
                (v1.opcap(without).queue(shared()), Faults::none())
            }
            Self::ThreeQueues | Self::ThreeNodes => (three(v1), Faults::weather()),
            Self::Version2 => (DeviceConfig::v2().queue(shared()), Faults::none()),
        };
        if self.is_trapped() && !cfg!(target_arch = "x86_64") {
            return None;
        }
        let device = Device::new(config, Profile::strict(seed)).expect("a device that there could be");
        let rig = Rig::on(self, device);
        // From now on: queues behind nodes were tried when they were opened.
        rig.device().set_faults(faults);
        Some(rig)
    }

    /// Whether its queues are behind nodes, so that real instructions go there.
    pub fn is_trapped(self) -> bool {
        matches!(
            self,
            Self::Enqcmd | Self::Movdir64b | Self::EnqcmdInWeather | Self::Movdir64bInWeather | Self::ThreeNodes
        )
    }
}

pub(super) fn builder(timeout: Duration) -> Builder {
    Runtime::builder().placement(Placement::Unpinned).copy_timeout(timeout)
}

/// A runtime, and the model behind it.
pub struct Rig {
    pub backend: Backend,
    pub rt: Runtime,
    pub model: Option<Model>,
}

/// A model that a thread drives.
pub struct Model {
    pub device: Device,
    pub space: AddressSpace,
    driven: Option<Driven>,
    /// The nodes, if there are some.
    #[cfg(target_arch = "x86_64")]
    pub trapped: Option<Trapped>,
}

impl Rig {
    fn new(backend: Backend, builder: Builder, model: Option<Model>) -> Self {
        let rt = builder.build().expect("no cpu is demanded, and the model's queues are free");
        Self { backend, rt, model }
    }

    /// On a model of the caller's making, driven by a thread.
    pub fn on(backend: Backend, device: Device) -> Self {
        Self::stopped(backend, device).started()
    }

    /// As [`on`](Self::on), and what it does not answer in time is given up.
    pub fn impatient(backend: Backend, device: Device, timeout: Duration) -> Self {
        Self::with(backend, device, timeout).started()
    }

    /// On a model that does nothing until it is [`started`](Self::started).
    pub fn stopped(backend: Backend, device: Device) -> Self {
        Self::with(backend, device, super::PATIENT)
    }

    fn with(backend: Backend, device: Device, timeout: Duration) -> Self {
        let space = AddressSpace::new().expect("the model reads this process's memory");
        #[cfg(target_arch = "x86_64")]
        if backend.is_trapped() {
            let (rt, trapped) = Trapped::open(&device, &space, timeout);
            return Self { backend, rt, model: Some(Model { device, space, driven: None, trapped: Some(trapped) }) };
        }
        let builder = builder(timeout).model_device_in(&device, &space);
        let model = Model {
            device,
            space,
            driven: None,
            #[cfg(target_arch = "x86_64")]
            trapped: None,
        };
        Self::new(backend, builder, Some(model))
    }

    pub fn started(mut self) -> Self {
        if let Some(model) = &mut self.model {
            model.driven = Some(model.device.spawn().expect("a thread"));
        }
        self
    }

    pub fn device(&self) -> &Device {
        &self.model.as_ref().expect("this backend is a model").device
    }

    /// What sysfs says.
    #[cfg(target_arch = "x86_64")]
    pub fn tree(&self) -> &twolane::sim::dsa::tree::WrittenTree {
        let trapped = self.model.as_ref().and_then(|model| model.trapped.as_ref());
        &trapped.expect("this backend has nodes").tree
    }

    /// See [`Trapped::replace`].
    #[cfg(target_arch = "x86_64")]
    pub fn replace_node(&mut self, number: usize) {
        let model = self.model.as_mut().expect("this backend is a model");
        model.trapped.as_mut().expect("this backend has nodes").replace(&model.device, &model.space, number);
    }

    pub fn space(&self) -> &AddressSpace {
        &self.model.as_ref().expect("this backend is a model").space
    }

    pub fn is_device(&self) -> bool {
        !matches!(self.backend, Backend::Cpu | Backend::CpuHere)
    }

    /// Its way to ask for operations: by this backend and no other.
    pub fn copies(&self) -> Copies {
        self.rt.copies().on(match self.backend {
            Backend::Cpu => Engine::Cpu,
            Backend::CpuHere => Engine::CpuHere,
            _ => Engine::Device,
        })
    }

    /// For operations that not every device has, or not at every address: what it has not, the CPU does.
    pub fn copies_as_it_can(&self) -> Copies {
        if self.is_device() { self.rt.copies().on(Engine::Auto) } else { self.copies() }
    }

    /// No duty of software was broken.
    pub fn nothing_was_violated(&self) {
        if let Some(model) = &self.model {
            assert_eq!(model.device.violations(), [], "{:?}", self.backend);
            #[cfg(target_arch = "x86_64")]
            if let Some(trapped) = &model.trapped {
                trapped.nothing_was_written();
            }
        }
    }
}
