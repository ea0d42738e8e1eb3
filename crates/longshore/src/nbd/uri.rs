//! Names of exports, as the NBD project writes them (`doc/uri.md`).

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use rustls_pki_types::ServerName;
use url::Url;
use wire::nbd::PORT;

use crate::disk::Authority;

/// `nbd://HOST[:PORT]/EXPORT`, or `nbds://` for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    secures: bool,
    server: Authority,
    export: String,
}

impl FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Uri, String> {
        Uri::parse(text).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secures { "nbds" } else { "nbd" };
        write!(f, "{scheme}://{}/{}", self.server, self.export)
    }
}

impl Uri {
    fn parse(text: &str) -> Result<Uri> {
        let url = Url::parse(text)
            .with_context(|| format!("{text} is no URI, as in nbd://10.9.0.1/disk"))?;
        let secures = match url.scheme() {
            "nbd" => false,
            "nbds" => true,
            "nbd+unix" | "nbds+unix" | "nbd+vsock" => {
                bail!("{text} is a socket of this machine; only TCP goes through a NIC")
            }
            _ => bail!("{text} is no export's URI, as in nbd://10.9.0.1/disk"),
        };
        let server = Authority::of(text, &url, PORT)?;
        let path = url.path().strip_prefix('/').unwrap_or_default();
        let export = percent_encoding::percent_decode_str(path)
            .decode_utf8()
            .with_context(|| format!("the export's name in {text} is not UTF-8"))?;
        if export.len() > wire::nbd::MAX_NAME {
            bail!("an export's name has at most {} bytes", wire::nbd::MAX_NAME);
        }
        Ok(Uri {
            secures,
            server,
            export: export.into_owned(),
        })
    }

    /// What a word of the command line names: an export if it is a URI of one, else a file.
    pub fn of_word(word: &str) -> Result<Option<Uri>> {
        let is_uri = word.starts_with("nbd:") || word.starts_with("nbds:");
        is_uri.then(|| Uri::parse(word)).transpose()
    }

    /// Whether TLS is to be used.
    pub fn secures(&self) -> bool {
        self.secures
    }

    /// The export's name; empty for the server's default.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// The name that the certificate must have.
    pub fn server_name(&self) -> Result<ServerName<'static>> {
        let host = &self.server.host;
        ServerName::try_from(host.clone())
            .with_context(|| format!("{host} is no host name that a certificate can have"))
    }

    /// Where the server is.
    pub(super) fn server(&self) -> &Authority {
        &self.server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        for (text, secures, host, port, export) in [
            ("nbd://10.9.0.1", false, "10.9.0.1", PORT, ""),
            ("nbd://10.9.0.1/", false, "10.9.0.1", PORT, ""),
            (
                "nbd://disks.example:7/a%20b/c",
                false,
                "disks.example",
                7,
                "a b/c",
            ),
            ("nbds://[fd09::1]:10810/x", true, "fd09::1", 10810, "x"),
        ] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!((uri.secures, &uri.export[..]), (secures, export));
            assert_eq!((&uri.server.host[..], uri.server.port), (host, port));
        }
        assert_eq!(
            "nbd://[fd09::1]/x".parse::<Uri>().unwrap().to_string(),
            "nbd://[fd09::1]/x"
        );
    }

    #[test]
    fn what_is_none_is_told() {
        for (text, words) in [
            ("10.9.0.1", "as in nbd://10.9.0.1/disk"),
            ("http://10.9.0.1/", "as in nbd://10.9.0.1/disk"),
            ("nbd:///disk", "names no host"),
            ("nbd+unix:///?socket=/run/x", "only TCP"),
            ("nbd://h/%ff", "not UTF-8"),
        ] {
            let error = text.parse::<Uri>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(Uri::of_word("disk.img").unwrap(), None);
        assert!(Uri::of_word("nbd:").is_err());
    }
}
