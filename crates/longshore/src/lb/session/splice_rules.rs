//! What of a session the NIC is asked to relay. The counters tell why the rest is not.

use crate::lb::config::Splice;
use crate::lb::http::{Framing, Upgrading};
use crate::lb::leg::Filled;
use crate::lb::unspliced::Unspliced;

use super::{Session, Shared, Stage, Upstream};

/// A response of at least this length that ends both connections is spliced.
const LONG: u64 = 256 * 1024;

impl Session {
    /// Whether both connections have the same bytes: the NIC would relay records of TLS as they are.
    pub(super) fn can_splice(&self, sh: &Shared<'_>) -> bool {
        let is_secured = |server: &Upstream| server.tls.is_some();
        sh.can_splice && !self.server.as_ref().is_some_and(is_secured)
    }

    /// Whether the rest of a response can be spliced: both connections end with it, and it is worth asking the NIC. Counts
    /// why not.
    pub(super) fn may_splice_response(&mut self, framing: Framing, sh: &mut Shared<'_>) -> bool {
        let exchange = &self.exchange;
        let splice = sh.frontend.splice;
        if splice == Splice::AfterFirstRequest && exchange.client_keeps {
            // The next requests are spliced, not this response.
            return false;
        }
        let why_not = if splice == Splice::Never {
            Some(Unspliced::Config)
        } else if !exchange.is_last {
            Some(match splice {
                Splice::AfterFirstRequest => Unspliced::BackendClose,
                _ => Unspliced::KeepAlive,
            })
        } else if exchange.upgrading != Upgrading::No {
            Some(Unspliced::Upgrade)
        } else if !exchange.request.is_sent {
            Some(Unspliced::Upload)
        } else {
            match framing {
                Framing::None => Some(Unspliced::Short),
                Framing::Length(len) if len < LONG => Some(Unspliced::Short),
                Framing::Chunked => Some(Unspliced::Chunked),
                Framing::Length(_) | Framing::UntilClose => None,
            }
        };
        let has_more = |session: &mut Session, sh: &mut Shared<'_>| {
            !session.client.inbox.is_empty()
                || !matches!(session.client.fill(sh.now, sh.stack), Ok(Filled::Nothing))
        };
        let why_not = match why_not {
            None if has_more(self, sh) => Some(Unspliced::ClientData),
            why_not => why_not,
        };
        if let Some(why) = why_not {
            self.not_spliced(why, sh);
        }
        why_not.is_none()
    }

    /// Whether a persistent connection becomes a splice after this response, if the server keeps its connection too.
    pub(super) fn may_splice_after_first(
        &mut self,
        server_keeps: bool,
        sh: &mut Shared<'_>,
    ) -> bool {
        let is_wanted = self.can_splice(sh)
            && sh.frontend.splice == Splice::AfterFirstRequest
            && !self.splicing.was_refused
            && !self.client.at_end;
        let why_not = match (server_keeps, self.client.inbox.is_empty()) {
            // The NIC would not tell of the requests.
            _ if self.logged.is_some() => Some(Unspliced::Config),
            (false, _) => Some(Unspliced::BackendClose),
            (true, false) => Some(Unspliced::ClientData),
            (true, true) => None,
        };
        if is_wanted && let Some(why) = why_not {
            self.not_spliced(why, sh);
        }
        self.splicing.is_between_requests = is_wanted && why_not.is_none();
        self.splicing.is_between_requests
    }

    /// The host relays this response or connection: counts why.
    pub(super) fn not_spliced(&self, why: Unspliced, sh: &mut Shared<'_>) {
        let frontend = &sh.frontend.name;
        tracing::debug!(%frontend, client = %self.endpoints.source, "not spliced: {why}");
        sh.counters.relayed(why);
    }

    /// A tunnel is over that was never offered to the NIC.
    pub(super) fn count_unspliced_tunnel(&mut self, sh: &mut Shared<'_>) {
        if self.stage != Stage::Tunnel || !self.can_splice(sh) {
            return;
        }
        if !std::mem::replace(&mut self.splicing.is_settled, true) {
            let why = match sh.frontend.splice {
                Splice::Never => Unspliced::Config,
                Splice::Tunnels | Splice::AfterFirstRequest => Unspliced::Short,
            };
            self.not_spliced(why, sh);
        }
    }
}
