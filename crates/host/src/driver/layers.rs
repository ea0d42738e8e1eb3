//! The protocols of a context.

use l5p::nvme;
use l5p::tls::CryptoInfo;

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
    pub fn parameters(&self) -> l5p::Layers {
        match self {
            Layers::Tls(crypto) => l5p::Layers::of(crypto),
            Layers::Nvme(nvme) => l5p::Layers::of(nvme),
            Layers::NvmeInTls(crypto, nvme) => l5p::Layers::of(crypto).carrying(nvme),
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
