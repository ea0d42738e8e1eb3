//! Validators and preconditions (RFC 9110 §8.8 and §13).

use std::fmt;
use std::time::{Duration, SystemTime};

use super::request::Fields;

/// A strong entity tag, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag(pub String);

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// Its tag.
    pub tag: EntityTag,
    /// When it last changed.
    pub modified: SystemTime,
}

impl Default for Validators {
    /// Of what has only one version.
    fn default() -> Self {
        Validators {
            tag: EntityTag(String::new()),
            modified: SystemTime::UNIX_EPOCH,
        }
    }
}

/// What the preconditions of a request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answer as if there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110 §13.2.2; all our methods are GET or HEAD.
pub fn evaluate(fields: &Fields, current: &Validators) -> Outcome {
    if let Some(list) = &fields.if_match {
        if !list_has(list, &current.tag, Comparison::Strong) {
            return Outcome::Failed;
        }
    } else if let Some(date) = fields.if_unmodified_since.as_deref().and_then(parse_date)
        && in_seconds(current.modified) > date
    {
        return Outcome::Failed;
    }
    if let Some(list) = &fields.if_none_match {
        if list_has(list, &current.tag, Comparison::Weak) {
            return Outcome::NotModified;
        }
    } else if let Some(date) = fields.if_modified_since.as_deref().and_then(parse_date)
        && in_seconds(current.modified) <= date
    {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// Whether `If-Range` lets the ranges stand (RFC 9110 §13.1.5): absent, or exactly this version.
pub fn range_applies(fields: &Fields, current: &Validators) -> bool {
    match fields.if_range.as_deref().map(str::trim) {
        None => true,
        Some(tag) if tag.starts_with('"') || tag.starts_with("W/") => {
            list_has(tag, &current.tag, Comparison::Strong) && tag != "*"
        }
        Some(date) => parse_date(date).is_some_and(|date| date == in_seconds(current.modified)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags, or `*`, has this one. Tags may contain commas.
fn list_has(list: &str, tag: &EntityTag, comparison: Comparison) -> bool {
    let mut rest = list.trim();
    if rest == "*" {
        return true;
    }
    while !rest.is_empty() {
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let Some((opaque, after)) = quoted.strip_prefix('"').and_then(|q| q.split_once('"')) else {
            return false;
        };
        if opaque == tag.0 && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    false
}

fn parse_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text.trim()).ok()
}

/// HTTP dates have whole seconds.
fn in_seconds(time: SystemTime) -> SystemTime {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
