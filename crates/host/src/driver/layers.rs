//! The protocols of a context.

use l5p::nvme;
use l5p::tls::CryptoInfo;
use nic::ring::L5Parameters;

/// The protocols of a context, with what their engines need to know.
#[derive(Clone, Debug)]
pub(crate) enum Layers {
    /// TLS records.
    Tls(CryptoInfo),
    /// NVMe/TCP PDUs.
    Nvme(nvme::Parameters),
    /// NVMe/TCP PDUs inside of TLS records.
    NvmeInTls(CryptoInfo, nvme::Parameters),
}

/// Which protocols a context has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    Tls,
    Nvme,
    NvmeInTls,
}

impl Layers {
    /// As a descriptor names them.
    pub fn parameters(&self) -> L5Parameters<'_> {
        match self {
            Layers::Tls(crypto) => L5Parameters::Tls(crypto),
            Layers::Nvme(nvme) => L5Parameters::Nvme(nvme),
            Layers::NvmeInTls(crypto, nvme) => L5Parameters::NvmeInTls(crypto, nvme),
        }
    }

    /// Whether the NIC can make bytes of a message's middle again without what comes before them.
    pub fn is_seekable(&self) -> bool {
        matches!(self, Layers::Tls(crypto) if crypto.is_seekable())
    }

    pub fn protocols(&self) -> Protocols {
        match self {
            Layers::Tls(_) => Protocols::Tls,
            Layers::Nvme(_) => Protocols::Nvme,
            Layers::NvmeInTls(..) => Protocols::NvmeInTls,
        }
    }
}
