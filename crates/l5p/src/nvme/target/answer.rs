//! The data of admin commands, made when it is sent, piece by piece.

use std::time::Instant;

use wire::nvme::Nqn;
use wire::nvme::command::{EventMask, opcode};
use wire::nvme::identify::{
    self, CSI_NVM, ControllerData, ControllerType, IndependentNamespaceData, LbaFormat,
    NamespaceData, NvmControllerData, emit_namespace_list, sgls,
};
use wire::nvme::log::{
    CommandEffects, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FirmwareSlots, LogPage,
    SecureChannel, SecurityType, SubsystemType, SupportedPages,
};

use super::config::{Config, Namespace};
use super::controller::{Controller, ERROR_LOG_ENTRIES, KEEP_ALIVE_GRANULARITY, Subject};
use super::events::MAX_REQUESTS;
use super::shared::Shared;
use super::subsystem::Live;
use super::traffic::Traffic;
use super::{VERSION, fabrics};

/// Bytes of an answer that are made at once.
pub(super) const PIECE: usize = 4096;

/// What the host asked for. A page of which nothing is left is zeroes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    IdentifyController,
    IdentifyNvmController,
    IdentifyNamespace(u32),
    IdentifyNvmNamespace,
    IdentifyIndependent(u32),
    NamespaceIds(u32),
    /// NSIDs above this one.
    ActiveNamespaces(u32),
    HostId,
    /// A log page, from this byte on.
    Log(LogPage, u64),
    /// The namespaces that had changed when the page was read, from this byte on.
    ChangedNamespaces(Vec<u32>, u64),
}

/// What answers are made of.
pub(super) struct View<'a> {
    pub config: &'a Config,
    pub subsystems: &'a [Live],
    pub controller: &'a Controller,
    pub shared: &'a Shared,
    pub discovery_generation: u64,
    pub now: Instant,
}

impl Answer {
    /// Writes the answer's bytes from `at` on over all of `out`, which has at most [`PIECE`] bytes.
    pub(super) fn write(&self, view: &View<'_>, at: u64, out: &mut [u8]) {
        if let Answer::Log(LogPage::DISCOVERY, offset) = *self {
            return view.write_discovery(offset.saturating_add(at), out);
        }
        let mut page = [0; PIECE];
        let len = self.page(view, &mut page);
        let offset = match self {
            Answer::Log(_, offset) | Answer::ChangedNamespaces(_, offset) => *offset,
            _ => 0,
        };
        copy_from(&page[..len], offset.saturating_add(at), out);
    }

    /// Makes a whole page; gives its length.
    fn page(&self, view: &View<'_>, page: &mut [u8; PIECE]) -> usize {
        let namespace = |nsid| view.subsystem().and_then(|s| s.namespace(nsid));
        match self {
            Answer::IdentifyController => view.identify_controller().emit(page),
            Answer::IdentifyNvmController => NvmControllerData::default().emit(page),
            Answer::IdentifyNvmNamespace => {}
            Answer::IdentifyNamespace(nsid) => {
                if let Some(namespace) = namespace(*nsid) {
                    identify_namespace(namespace).emit(page);
                }
            }
            Answer::IdentifyIndependent(nsid) => {
                if let Some(namespace) = namespace(*nsid) {
                    identify_independent(namespace).emit(page);
                }
            }
            Answer::NamespaceIds(nsid) => {
                if let Some(namespace) = namespace(*nsid) {
                    let mut ids = namespace.ids;
                    ids.csi = Some(CSI_NVM);
                    ids.emit(page);
                }
            }
            Answer::ActiveNamespaces(after) => {
                let namespaces = view.subsystem().map_or(&[][..], Live::namespaces);
                let nsids = namespaces.iter().map(|namespace| namespace.nsid);
                emit_namespace_list(page, nsids.filter(|nsid| nsid > after));
            }
            Answer::HostId => {
                page[..16].copy_from_slice(&view.controller.control.owner.host.id);
                return 16;
            }
            Answer::ChangedNamespaces(nsids, _) => {
                emit_namespace_list(page, nsids.iter().copied());
            }
            Answer::Log(log, _) => return view.log(*log, page),
        }
        identify::LEN
    }
}

/// Copies what `page` has from `at` on, and zeroes behind its end.
fn copy_from(page: &[u8], at: u64, out: &mut [u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX).min(page.len());
    let len = out.len().min(page.len() - at);
    out[..len].copy_from_slice(&page[at..at + len]);
    out[len..].fill(0);
}

fn identify_namespace(namespace: &Namespace) -> NamespaceData {
    let page_blocks = (4096u32 >> namespace.block_shift).max(1) as u16;
    NamespaceData {
        nsze: namespace.blocks,
        ncap: namespace.blocks,
        nuse: namespace.blocks,
        // Bit 4: the preferred sizes below mean something.
        nsfeat: 1 << 4,
        nmic: 1,
        dlfeat: if namespace.deallocate { 1 | 1 << 3 } else { 0 },
        npwg: page_blocks - 1,
        npwa: page_blocks - 1,
        npdg: page_blocks - 1,
        npda: page_blocks - 1,
        nows: page_blocks - 1,
        anagrpid: 0,
        nsattr: u8::from(namespace.read_only),
        nguid: namespace.ids.nguid.unwrap_or_default(),
        eui64: namespace.ids.eui64.unwrap_or_default(),
        format: LbaFormat {
            metadata: 0,
            lbads: namespace.block_shift,
            performance: 0,
        },
    }
}

fn identify_independent(namespace: &Namespace) -> IndependentNamespaceData {
    IndependentNamespaceData {
        nsfeat: u8::from(!namespace.volatile_cache) << 5,
        nmic: 1,
        anagrpid: 0,
        nsattr: u8::from(namespace.read_only),
        nstat: 1,
    }
}

/// Admin commands that every controller here has.
const ADMIN_COMMANDS: [u8; 7] = [
    opcode::GET_LOG_PAGE,
    opcode::IDENTIFY,
    opcode::ABORT,
    opcode::SET_FEATURES,
    opcode::GET_FEATURES,
    opcode::ASYNC_EVENT_REQUEST,
    opcode::KEEP_ALIVE,
];

impl View<'_> {
    fn subsystem(&self) -> Option<&Live> {
        match self.controller.subject() {
            Subject::Discovery => None,
            Subject::Subsystem(at) => Some(&self.subsystems[at]),
        }
    }

    /// Identify Controller (Base 2.0c §5.17.2.1, with the values that §3.1.2.3 asks of a discovery controller).
    fn identify_controller(&self) -> ControllerData {
        let limits = &self.config.limits;
        let subsystem = self.subsystem();
        let io = subsystem.is_some();
        let volatile = subsystem.is_some_and(Live::has_volatile_cache);
        ControllerData {
            vid: 0,
            ssvid: 0,
            serial: ControllerData::text(subsystem.map_or("discovery", |s| &s.serial)),
            model: ControllerData::text(subsystem.map_or("longshore", |s| &s.model)),
            firmware: ControllerData::text(&self.config.firmware),
            rab: 0,
            ieee: [0; 3],
            // Several ports, several controllers.
            cmic: 0b11,
            mdts: (limits.data / 4096).ilog2() as u8,
            cntlid: self.controller.id(),
            ver: VERSION.0,
            oaes: match io {
                true => EventMask::NAMESPACES.0,
                false => EventMask::DISCOVERY.0,
            },
            // 128-bit host identifiers; traffic counts as a sign of life.
            ctratt: 1 | 1 << 6,
            controller_type: match io {
                true => ControllerType::IO,
                false => ControllerType::DISCOVERY,
            },
            oacs: 0,
            acl: 3,
            aerl: (MAX_REQUESTS - 1) as u8,
            // One slot, which is read-only.
            frmw: 1 | 1 << 1,
            // Commands supported and effects; Get Log Page with offsets.
            lpa: u8::from(io) << 1 | 1 << 2,
            elpe: (ERROR_LOG_ENTRIES - 1) as u8,
            wctemp: 0,
            cctemp: 0,
            kas: KEEP_ALIVE_GRANULARITY,
            sqes: 0x66,
            cqes: 0x44,
            maxcmd: limits.queue_entries as u16,
            nn: if io { Namespace::MAX_NSID } else { 0 },
            // Compare, Dataset Management, Write Zeroes.
            oncs: if io { 1 | 1 << 2 | 1 << 3 } else { 0 },
            // Flush of all namespaces at once is not supported.
            vwc: if io {
                u8::from(volatile) | 0b10 << 1
            } else {
                0
            },
            awun: 0,
            awupf: 0,
            sgls: sgls::SUPPORTED | sgls::OFFSET | sgls::TRANSPORT,
            mnan: if io { Namespace::MAX_NSID } else { 0 },
            subnqn: Some(subsystem.map_or(Nqn::DISCOVERY, |s| s.nqn)),
            ioccsz: if io { (64 + limits.in_capsule) / 16 } else { 0 },
            iorcsz: u32::from(io),
            icdoff: 0,
            fcatt: 0,
            msdbd: 1,
        }
    }

    /// Makes a log page; gives its length.
    fn log(&self, log: LogPage, page: &mut [u8; PIECE]) -> usize {
        match log {
            LogPage::SUPPORTED => {
                SupportedPages::of(pages(self.controller.subject())).emit(page);
                SupportedPages::LEN
            }
            LogPage::ERROR => {
                let places = page.chunks_exact_mut(ErrorEntry::LEN);
                let errors = self.controller.control.errors();
                for (entry, place) in errors.entries().iter().zip(places) {
                    entry.emit(place);
                }
                ErrorEntry::LEN * ERROR_LOG_ENTRIES
            }
            LogPage::HEALTH => {
                let traffic = match self.controller.subject() {
                    Subject::Discovery => Traffic::default(),
                    Subject::Subsystem(at) => self.shared.traffic(at),
                };
                let mut health = traffic.health();
                let on = self.now.saturating_duration_since(self.shared.started);
                health.power_on_hours = u128::from(on.as_secs() / 3600);
                health.error_log_entries = self.controller.control.errors().count().into();
                health.emit(page);
                wire::nvme::log::HealthLog::LEN
            }
            LogPage::FIRMWARE => {
                FirmwareSlots {
                    active: 1,
                    first: ControllerData::text(&self.config.firmware),
                }
                .emit(page);
                FirmwareSlots::LEN
            }
            LogPage::COMMAND_EFFECTS => {
                effects().emit(page);
                CommandEffects::LEN
            }
            _ => 0,
        }
    }

    /// Writes a piece of the discovery log: a header and an entry for each portal of each subsystem that the host may have.
    fn write_discovery(&self, at: u64, mut out: &mut [u8]) {
        let mut at = usize::try_from(at).unwrap_or(usize::MAX);
        let mut unit = [0; DiscoveryEntry::LEN];
        while !out.is_empty() {
            self.discovery_unit(at / DiscoveryEntry::LEN, &mut unit);
            let from = at % DiscoveryEntry::LEN;
            let len = out.len().min(DiscoveryEntry::LEN - from);
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&unit[from..from + len]);
            (out, at) = (later, at.saturating_add(len));
        }
    }

    fn discovery_unit(&self, index: usize, unit: &mut [u8; DiscoveryEntry::LEN]) {
        let host = &self.controller.control.owner.host.nqn;
        let allowed = self.subsystems.iter().filter(|s| s.hosts.allow(host));
        let portals = &self.config.portals;
        if index == 0 {
            let records = (allowed.count() * portals.len()) as u64;
            let generation = self.discovery_generation;
            return DiscoveryHeader {
                generation,
                records,
            }
            .emit(unit);
        }
        let mut entries = allowed.flat_map(|s| portals.iter().map(move |portal| (s, portal)));
        unit.fill(0);
        if let Some((subsystem, portal)) = entries.nth(index - 1) {
            DiscoveryEntry {
                subtype: SubsystemType::NVM,
                secure_channel: match portal.tls {
                    true => SecureChannel::REQUIRED,
                    false => SecureChannel::NOT_SPECIFIED,
                },
                sq_flow_control_disable: true,
                portid: portals.iter().position(|p| p == portal).unwrap_or(0) as u16 + 1,
                cntlid: wire::nvme::command::DYNAMIC_CONTROLLER,
                asqsz: fabrics::admin_entries(self.config) as u16,
                eflags: 0,
                port: portal.port,
                subnqn: subsystem.nqn,
                address: portal.address,
                security: match portal.tls {
                    true => SecurityType::TLS13,
                    false => SecurityType::NONE,
                },
            }
            .emit(unit);
        }
    }
}

/// The log pages that a controller has.
pub(super) fn pages(subject: Subject) -> &'static [LogPage] {
    match subject {
        Subject::Discovery => &[LogPage::SUPPORTED, LogPage::ERROR, LogPage::DISCOVERY],
        Subject::Subsystem(_) => &[
            LogPage::SUPPORTED,
            LogPage::ERROR,
            LogPage::HEALTH,
            LogPage::FIRMWARE,
            LogPage::CHANGED_NAMESPACES,
            LogPage::COMMAND_EFFECTS,
        ],
    }
}

fn effects() -> CommandEffects {
    let mut effects = CommandEffects::NONE;
    for opcode in ADMIN_COMMANDS {
        effects.admin[usize::from(opcode)] = CommandEffects::SUPPORTED;
    }
    for opcode in [opcode::READ, opcode::FLUSH, opcode::COMPARE] {
        effects.io[usize::from(opcode)] = CommandEffects::SUPPORTED;
    }
    for opcode in [
        opcode::WRITE,
        opcode::WRITE_ZEROES,
        opcode::DATASET_MANAGEMENT,
    ] {
        let changes = CommandEffects::SUPPORTED | CommandEffects::CHANGES_BLOCKS;
        effects.io[usize::from(opcode)] = changes;
    }
    effects
}
