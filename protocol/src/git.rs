//! The git URLs and revisions that Drydock accepts: an allow-list of syntax, the same for the controller (which refuses
//! early) and for the checkout pod (which trusts nobody). Never contacts anything.

use std::fmt;

/// Longest accepted URL, in bytes.
pub const URL_MAX: usize = 2048;
/// Longest accepted revision, in bytes.
pub const REVISION_MAX: usize = 255;

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `https://`
    Https,
    /// `http://`
    Http,
    /// `ssh://`, or the short form `user@host:path`.
    Ssh,
}

impl Scheme {
    /// As written in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
        }
    }

    /// The port where a URL names none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
        }
    }
}

/// An accepted URL, in parts. Its `Display` is the one form that is given to git: no credential, no short form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GitUrl {
    /// How it is reached.
    pub scheme: Scheme,
    /// User name, ssh only.
    pub user: Option<String>,
    /// Lower case; a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// As written; absent: the scheme's.
    pub port: Option<u16>,
    /// Begins with `/`.
    pub path: String,
}

/// Why a URL isn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing is there.
    #[error("the URL is empty")]
    Empty,
    /// Longer than [`URL_MAX`].
    #[error("the URL is longer than {URL_MAX} bytes")]
    TooLong,
    /// Outside printable ASCII, or one of the characters that no part may have.
    #[error("the URL has a character that is not allowed: write it percent-encoded")]
    Character,
    /// Not https, http or ssh.
    #[error("the URL must begin with https://, http:// or ssh://, or be user@host:path")]
    Scheme,
    /// A password, or a user where none may be.
    #[error("the URL holds a credential: put it into a Secret and name it in secretRef")]
    Credential,
    /// The host is missing or misspelt.
    #[error("the URL's host is missing or not valid")]
    Host,
    /// The user is misspelt.
    #[error("the URL's user is not valid")]
    User,
    /// The port isn't 1 to 65535.
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
    /// The path is missing, or has `..` or an empty part.
    #[error("the URL's path is missing or has '..' in it")]
    Path,
    /// A query or a fragment.
    #[error("the URL must have no query and no fragment")]
    Query,
}

impl GitUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// The first thing that isn't accepted.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        if text.len() > URL_MAX {
            return Err(UrlError::TooLong);
        }
        if !text.bytes().all(is_url_byte) {
            return Err(UrlError::Character);
        }
        if text.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Self::parse_short(text);
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            "ssh" => Scheme::Ssh,
            _ => return Err(UrlError::Scheme),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, host_port) = split_user(authority, scheme)?;
        let (host, port) = split_port(host_port)?;
        check_path(path)?;
        Ok(Self { scheme, user, host, port, path: path.to_owned() })
    }

    /// `user@host:path`, as `scp` and git have it.
    fn parse_short(text: &str) -> Result<Self, UrlError> {
        let (authority, path) = text.split_once(':').ok_or(UrlError::Scheme)?;
        if authority.contains('/') || !authority.contains('@') {
            return Err(UrlError::Scheme);
        }
        let (user, host) = split_user(authority, Scheme::Ssh)?;
        let host = check_host(host)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        check_path(&path)?;
        Ok(Self { scheme: Scheme::Ssh, user, host, port: None, path })
    }

    /// Scheme, host and port, by which a credential is bound to its place.
    #[must_use]
    pub fn origin(&self) -> String {
        let port = self.port.unwrap_or_else(|| self.scheme.default_port());
        format!("{}://{}:{port}", self.scheme.as_str(), self.host)
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.as_str())?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b'{' | b'}' | b'|' | b'^')
}

fn split_user(authority: &str, scheme: Scheme) -> Result<(Option<String>, &str), UrlError> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, authority));
    };
    if scheme != Scheme::Ssh || user.contains(':') {
        return Err(UrlError::Credential);
    }
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if user.is_empty() || user.starts_with('-') || !user.bytes().all(valid) {
        return Err(UrlError::User);
    }
    Ok((Some(user.to_owned()), host))
}

fn split_port(host_port: &str) -> Result<(String, Option<u16>), UrlError> {
    let bracket = host_port.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match host_port[bracket..].find(':') {
        Some(at) => {
            let (host, port) = host_port.split_at(bracket + at);
            (host, Some(&port[1..]))
        }
        None => (host_port, None),
    };
    let port = match port {
        None => None,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?)
        }
        Some(_) => return Err(UrlError::Port),
    };
    Ok((check_host(host)?, port))
}

fn check_host(host: &str) -> Result<String, UrlError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().map(|ip| format!("[{ip}]")).map_err(|_| UrlError::Host);
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.is_empty() || host.len() > 253 || !host.trim_end_matches('.').split('.').all(label) {
        return Err(UrlError::Host);
    }
    Ok(host.to_ascii_lowercase())
}

fn check_path(path: &str) -> Result<(), UrlError> {
    let encoded_dots = |part: &str| part.to_ascii_lowercase().replace("%2e", ".") == "..";
    let valid = path.len() > 1
        && path.starts_with('/')
        && !path[1..].starts_with('-')
        && !path.split('/').any(encoded_dots)
        && !path.to_ascii_lowercase().contains("%00");
    if valid { Ok(()) } else { Err(UrlError::Path) }
}

/// Why a revision isn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// Nothing is there.
    #[error("the revision is empty")]
    Empty,
    /// Longer than [`REVISION_MAX`].
    #[error("the revision is longer than {REVISION_MAX} bytes")]
    TooLong,
    /// Begins with `-`.
    #[error("the revision must not begin with '-'")]
    Dash,
    /// Not a name that git gives to branches and tags, nor a commit id.
    #[error("the revision is not a valid name of a branch or tag, nor a commit")]
    Syntax,
}

/// Checks the syntax of a branch, tag (short, or as `refs/heads/…`, `refs/tags/…`) or commit; the rules are those of
/// `git check-ref-format`. Expressions (`HEAD~1`, `a..b`, `@{u}`) are never accepted.
///
/// # Errors
/// The first rule that is broken.
pub fn check_revision(text: &str) -> Result<(), RevisionError> {
    if text.is_empty() {
        return Err(RevisionError::Empty);
    }
    if text.len() > REVISION_MAX {
        return Err(RevisionError::TooLong);
    }
    if text.starts_with('-') {
        return Err(RevisionError::Dash);
    }
    let bad_char =
        |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\' | '"');
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let broken = text.contains(bad_char)
        || text.contains("..")
        || text.contains("@{")
        || text == "@"
        || text.ends_with('.')
        || text.split('/').any(bad_part);
    if broken { Err(RevisionError::Syntax) } else { Ok(()) }
}

/// Whether a text is a whole object id (40 or 64 hex digits).
#[must_use]
pub fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepted_urls_have_one_form() {
        for (given, form) in [
            ("https://Git.Example/shop.git", "https://git.example/shop.git"),
            ("http://10.0.0.1:3000/a/b", "http://10.0.0.1:3000/a/b"),
            ("HTTPS://git.example:443/x%20y", "https://git.example:443/x%20y"),
            ("ssh://git@git.example:2222/~me/x.git", "ssh://git@git.example:2222/~me/x.git"),
            ("git@git.example:team/x.git", "ssh://git@git.example/team/x.git"),
            ("git@git.example:/srv/x.git", "ssh://git@git.example/srv/x.git"),
            ("ssh://git@[::1]:22/x", "ssh://git@[::1]:22/x"),
        ] {
            assert_eq!(GitUrl::parse(given).unwrap().to_string(), form, "{given}");
        }
    }

    #[test]
    fn refused_urls_say_why() {
        for (given, error) in [
            ("", UrlError::Empty),
            ("--upload-pack=/bin/sh", UrlError::Scheme),
            ("-git@host:x", UrlError::User),
            ("ext::sh -c x", UrlError::Character),
            ("ext::sh", UrlError::Scheme),
            ("file:///etc", UrlError::Scheme),
            ("git://host/x", UrlError::Scheme),
            ("/srv/repo", UrlError::Scheme),
            ("../repo", UrlError::Scheme),
            ("host:path", UrlError::Scheme),
            ("https://user:pw@host/x", UrlError::Credential),
            ("https://token@host/x", UrlError::Credential),
            ("ssh://git:pw@host/x", UrlError::Credential),
            ("https:///x", UrlError::Host),
            ("https://-oProxyCommand=x/y", UrlError::Host),
            ("ssh://git@-oProxyCommand/x", UrlError::Host),
            ("https://host:0/x", UrlError::Port),
            ("https://host:99999/x", UrlError::Port),
            ("https://host:/x", UrlError::Port),
            ("https://host", UrlError::Path),
            ("https://host/", UrlError::Path),
            ("https://host/a/../b", UrlError::Path),
            ("https://host/a/%2e%2E/b", UrlError::Path),
            ("ssh://git@host/-x", UrlError::Path),
            ("https://host/x?y=1", UrlError::Query),
            ("https://host/x\ny", UrlError::Character),
            ("https://host/ü", UrlError::Character),
        ] {
            assert_eq!(GitUrl::parse(given), Err(error), "{given}");
        }
    }

    #[test]
    fn revisions() {
        for good in ["main", "feat/x_Y", "v1.2.3", "refs/tags/v1", "ünïcode", "a@b", "0123abc"] {
            assert_eq!(check_revision(good), Ok(()), "{good}");
        }
        for bad in [
            "a..b", "HEAD~1", "a^", "a:b", "@{u}", "@", "a b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock",
            "a.", "a\0", "a*",
        ] {
            assert_eq!(check_revision(bad), Err(RevisionError::Syntax), "{bad:?}");
        }
        assert_eq!(check_revision("--force"), Err(RevisionError::Dash));
    }

    proptest! {
        #[test]
        fn an_accepted_url_is_a_fixed_point_and_no_option(text in "\\PC{0,60}") {
            if let Ok(url) = GitUrl::parse(&text) {
                let form = url.to_string();
                prop_assert!(!form.starts_with('-'));
                prop_assert_eq!(GitUrl::parse(&form), Ok(url));
            }
        }

        #[test]
        fn an_accepted_short_form_is_a_fixed_point(user in "[a-z]{1,8}", host in "[a-z]{1,8}", path in "[a-z/.~%-]{1,20}") {
            if let Ok(url) = GitUrl::parse(&format!("{user}@{host}:{path}")) {
                prop_assert_eq!(GitUrl::parse(&url.to_string()), Ok(url));
            }
        }
    }
}
