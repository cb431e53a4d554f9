//! Everything that can carry an operation out, each behind one runtime: the CPU, models of the device of several kinds, and hardware if there is some.
//!
//! The one seam is [`Backend::rig`]: what is new (a page that a thread drains, portals whose instructions are trapped) becomes another backend there.

use twolane::offload::dsa::abi::Opcode;
use twolane::offload::{Copies, Engine};
use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Driven, Faults, Profile, QueueConfig};
use twolane::{Builder, Offload, Placement, Runtime};

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
    /// What discovery finds on this machine.
    Hardware,
}

impl Backend {
    /// A runtime that copies this way; `None`: not on this machine.
    pub fn rig(self, seed: u64) -> Option<Rig> {
        let shared = || QueueConfig::shared(16).max_transfer(TRANSFER_MAX as u64);
        let dedicated = || QueueConfig::dedicated(16).max_transfer(TRANSFER_MAX as u64);
        let strict = Profile::strict(seed);
        let v1 = DeviceConfig::v1();
        let (config, profile) = match self {
            Self::Cpu | Self::CpuHere => return Some(Rig::new(self, builder().offload(Offload::Off), None)),
            Self::Hardware => {
                return match builder().offload(Offload::Demand).build() {
                    Ok(rt) => Some(Rig { backend: self, rt, model: None }),
                    Err(why) => {
                        println!("not tried on hardware: {why}");
                        None
                    }
                };
            }
            Self::Shared => (v1.queue(shared()), strict),
            Self::Dedicated => (v1.queue(dedicated()), strict),
            Self::SharedInWeather => (v1.queue(shared()), strict.faults(Faults::weather())),
            Self::DedicatedInWeather => (v1.queue(dedicated()), strict.faults(Faults::weather())),
            Self::Storm => (v1.queue(shared()), strict.faults(Faults::storm())),
            Self::NoBatch => {
                let without = v1.opcap.without(Opcode::BATCH);
                (v1.opcap(without).queue(shared()), strict)
            }
            Self::ThreeQueues => (
                v1.groups(&[2, 1]).queue(shared()).queue(dedicated().group(1)).queue(shared().group(1).threshold(4)),
                strict.faults(Faults::weather()),
            ),
            Self::Version2 => (DeviceConfig::v2().queue(shared()), strict),
        };
        let device = Device::new(config, profile).expect("a device that there could be");
        Some(Rig::on(self, device))
    }
}

fn builder() -> Builder {
    Runtime::builder().placement(Placement::Unpinned).copy_timeout(super::PATIENT)
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

    /// On a model that does nothing until it is [`started`](Self::started).
    pub fn stopped(backend: Backend, device: Device) -> Self {
        let space = AddressSpace::new().expect("the model reads this process's memory");
        let builder = builder().model_device_in(&device, &space);
        Self::new(backend, builder, Some(Model { device, space, driven: None }))
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
        }
    }
}
