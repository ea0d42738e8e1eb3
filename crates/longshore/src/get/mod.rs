//! `longshore get`: one download.

mod fetch;
mod options;
mod output;
mod place;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use handshake::{KeyLogSink, Options as TlsOptions, Trust, client_config};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::attach::{Connections, attach};
use crate::disk::bar;
use crate::psk_file::PskFile;
use crate::signals::Signals;

use fetch::{Fetch, Figures, Outcome, Tls};
pub use options::{EXAMPLES, Options};
pub use output::Output;
use place::Place;

/// How the download ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is whole.
    Whole,
    /// The server answered with a status that is no success.
    Refused(u16),
}

/// Downloads.
///
/// # Errors
/// When there is no download: the message says why, and what can be done.
pub fn run(options: &Options) -> Result<Ending> {
    let signals = Signals::block()?;
    let mut place = Place::of_url(&options.url)?;
    let mut output = Output::choose(options.output.as_deref(), &options.url)?;
    let belief = ServerTrust::of(options)?;
    let mut attached = attach(&options.wire, &Connections::default())?;
    let tls = belief.into_tls(attached.key_log.clone())?;
    let bar = bar(options.quiet, None);

    let started = Instant::now();
    let mut redirects = 0;
    let ending = loop {
        let mut fetch = Fetch {
            attached: &mut attached,
            place: &place,
            tls: tls.clone(),
            offload: options.wire.offload.into(),
            patience: Duration::from_secs(options.timeout.max(1)),
            compressed: options.compressed.then_some(options.max_size),
            signals: &signals,
            bar: &bar,
        };
        match fetch.run(&mut output)? {
            Outcome::Whole { figures, tls } => {
                bar.finish_and_clear();
                output.keep()?;
                if !options.quiet {
                    summarise(&output, figures, started.elapsed(), tls.as_ref());
                }
                break Ending::Whole;
            }
            Outcome::Status(head) => {
                bar.finish_and_clear();
                let answer = format!("{} {}", head.status, head.reason);
                eprintln!("longshore: {} answered {}", place.url(), answer.trim_end());
                break Ending::Refused(head.status);
            }
            Outcome::Redirect(location) => {
                redirects += 1;
                if redirects > options.max_redirects {
                    bail!(
                        "{} redirects more than {} times; raise --max-redirects or ask for {location}",
                        options.url,
                        options.max_redirects
                    );
                }
                place = place.redirect(&location)?;
                tracing::info!(url = %place.url(), "redirected");
            }
        }
    };
    attached.runtime.shutdown(Instant::now())?;
    Ok(ending)
}

/// What it believes servers by.
enum ServerTrust {
    Certificates(Trust),
    PreShared(PskFile),
}

impl ServerTrust {
    fn of(options: &Options) -> Result<Self> {
        match &options.psk {
            Some(path) => Ok(Self::PreShared(PskFile::read(path)?)),
            None => {
                let used = options.url.scheme() == "https";
                let ca = options.ca.as_deref();
                Ok(Self::Certificates(trust(options.insecure, ca, used)?))
            }
        }
    }

    fn into_tls(self, key_log: Option<KeyLogSink>) -> Result<Tls> {
        Ok(match self {
            Self::PreShared(keys) => Tls::PreShared(keys.into_client(key_log)?),
            Self::Certificates(trust) => {
                let options = TlsOptions {
                    key_log,
                    ..TlsOptions::default()
                };
                Tls::Certificates(client_config(trust, &options)?)
            }
        })
    }
}

/// What servers are believed by: the system's authorities, those of a file, or nothing.
///
/// # Errors
/// When the file can't be used, or there are no authorities although TLS is `used`.
pub fn trust(insecure: bool, ca: Option<&Path>, used: bool) -> Result<Trust> {
    if insecure {
        return Ok(Trust::Anyone);
    }
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let mut listed = Vec::new();
        let certificates = CertificateDer::pem_file_iter(path)
            .with_context(|| format!("{} can't be read; see --ca", path.display()))?;
        for certificate in certificates {
            let certificate = certificate
                .with_context(|| format!("{} is no certificate in PEM", path.display()))?;
            listed.push(certificate.clone());
            roots.add(certificate).with_context(|| {
                format!("{} has a certificate that can't be used", path.display())
            })?;
        }
        if roots.is_empty() {
            bail!("{} has no certificate in it; see --ca", path.display());
        }
        return Ok(Trust::RootsAndCertificates(Arc::new(roots), listed));
    }
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() && used {
        bail!(
            "this system has no certificate authorities installed; install them (ca-certificates), \
             or give --ca FILE or --insecure"
        );
    }
    Ok(Trust::Roots(Arc::new(roots)))
}

fn summarise(output: &Output, figures: Figures, took: Duration, tls: Option<&host::TlsInfo>) {
    let bytes = figures.bytes;
    let rate = bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9) / 1e6;
    let mut line = format!(
        "{}: {bytes} bytes in {:.3} s, {rate:.0} Mbit/s",
        output.name(),
        took.as_secs_f64()
    );
    if let Some(decoded) = figures.decoded {
        let by_nic = figures.by_nic;
        line.push_str(&format!(
            "; {decoded} bytes decompressed, {by_nic} of them by the NIC"
        ));
    }
    if let Some(tls) = tls {
        line.push_str(&format!(
            "; {} {}; records decrypted by the NIC: {} whole, {} in part; by software: {}",
            tls.version, tls.cipher, tls.records_full, tls.records_partial, tls.records_none
        ));
    }
    let _ = writeln!(std::io::stderr(), "{line}");
}
